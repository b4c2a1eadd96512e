"""Published facts become models, and each error in them is named.

pytest tests/test_facts.py
"""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnviz.config import ConfigError, ModelConfig
from attnviz.cost.presets import _preset, load_described
from attnviz.facts import by_id

DENSE = {  # one entry with every field
    "id": "a-model", "family": "A", "name": "A model", "year": 2024, "attention": "gqa", "n_layers": 7, "d_model": 30,
    "n_heads": 6, "n_kv_heads": 2, "head_dim": 8, "d_ff": 11, "ffn": "swiglu", "ffn_bias": False, "moe": None,
    "vocab_size": 101, "tie_embeddings": True, "qkv_bias": False, "o_bias": False,
    "lm_head_bias": False, "position": "rope", "learned_position_rows": None, "max_context": 4096, "rope_theta": 10000,
    "rope_scaling": {"type": "yarn", "factor": 40}, "rotary_fraction": 1.0, "sliding_window": None, "norm": "rmsnorm",
    "norm_bias": False, "norms_per_layer": 2, "embedding_norm": False, "qk_norm": False, "parallel_block": False,
    "attention_sinks": False, "dtype": "bfloat16", "q_lora_rank": None, "qk_rope_head_dim": None,
    "qk_nope_head_dim": None, "v_head_dim": None, "source": ["a paper"], "notes": None,
}  # fmt: skip
LATENT = DENSE | {
    "attention": "mla", "n_kv_heads": 6, "head_dim": 13, "qk_nope_head_dim": 9, "qk_rope_head_dim": 4, "v_head_dim": 5,
    "kv_lora_rank": 17,
}  # fmt: skip
WINDOWED = DENSE | {"sliding_window": 3, "full_layers": [1, 3, 5]}
EXPERTS = {"n_routed_experts": 5, "experts_per_token": 2, "d_ff_expert": 3, "dense_d_ff": None, "router_bias": False}


def test_an_entry_is_taken_as_it_is():
    model = ModelConfig.from_dict(DENSE)
    assert (model.n_layers, model.head_dim, model.group_size, model.dtype) == (7, 8, 3, "bfloat16")
    assert model.rope_scaling == (("type", "yarn"), ("factor", 40)) and model.qk_norm is None
    assert ModelConfig.from_dict(WINDOWED).full_layers == (1, 3, 5) and ModelConfig.from_dict(LATENT).kv_lora_rank == 17
    assert {model: 1}[ModelConfig.from_dict(DENSE)] == 1  # hashable, as caches need


@pytest.mark.parametrize(
    "facts, words",
    [
        (DENSE | {"n_headz": 6}, ["n_headz", "did you mean n_heads"]),
        (DENSE | {"moe": EXPERTS | {"routed_experts": 3}}, ["did you mean moe.n_routed_experts"]),
        (DENSE | {"moe": {"n_routed_experts": 5}}, ["moe.experts_per_token", "None"]),
        (DENSE | {"moe": EXPERTS | {"n_dense_layers": 8}}, ["moe.n_dense_layers", "7", "8"]),
        (DENSE | {"moe": 8}, ["moe", "8"]),
        (DENSE | {"qk_norm": "somewhere"}, ["qk_norm", "'somewhere'"]),
        (DENSE | {"qk_norm": True}, ["qk_norm", "True"]),
        (DENSE | {"n_kv_heads": 4}, ["n_kv_heads", "6, 3, 2, 1", "4"]),
        (DENSE | {"attention": "mqa"}, ["attention", "'mqa'", "'gqa'"]),
        (DENSE | {"d_ff": None}, ["d_ff"]),
        (DENSE | {"n_layers": None}, ["n_layers", "1 to 10,000", "None"]),
        (DENSE | {"d_model": 10**12}, ["d_model", "1 to 1,000,000", "1,000,000,000,000"]),
        (DENSE | {"vocab_size": "many"}, ["vocab_size", "'many'"]),
        (DENSE | {"n_heads": -1}, ["n_heads", "-1"]),
        (DENSE | {"n_heads": True}, ["n_heads", "True"]),
        (DENSE | {"tie_embeddings": None}, ["tie_embeddings", "true or false", "None"]),
        (DENSE | {"rotary_fraction": 1.5}, ["rotary_fraction", "0 to 1", "1.5"]),
        (DENSE | {"rope_theta": float("nan")}, ["rope_theta", "nan"]),
        (DENSE | {"rope_scaling": 4}, ["rope_scaling", "4"]),
        (DENSE | {"position": "learned"}, ["learned_position_rows", "learned"]),
        (DENSE | {"full_layers": 3}, ["full_layers", "3"]),
        (DENSE | {"full_layers": [9]}, ["full_layers", "0 to 6", "9"]),
        (DENSE | {"kv_lora_rank": 5}, ["kv_lora_rank", "'mla'", "'gqa'"]),
        (DENSE | {"name": 7}, ["name", "7"]),
        (LATENT | {"qkv_bias": True}, ["qkv_bias", "'mla'"]),
        (LATENT | {"kv_lora_rank": None}, ["kv_lora_rank", "None"]),
        (DENSE | {"sliding_window": {"size": 3}}, ["sliding_window", "size"]),
        ([DENSE], ["JSON object"]),
    ],
)
def test_a_mistake_in_the_facts_is_named(facts, words):
    with pytest.raises(ConfigError) as refusal:
        ModelConfig.from_dict(facts)
    assert all(word in str(refusal.value) for word in words), str(refusal.value)


ANYTHING = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 10**13), st.floats(), st.text(max_size=8), st.lists(st.integers(0, 9)),
    st.dictionaries(st.text(max_size=5), st.integers(0, 9), max_size=3),
)  # fmt: skip


@given(st.sampled_from([DENSE, LATENT, WINDOWED]), st.sampled_from(sorted(DENSE)), ANYTHING)
def test_whatever_stands_in_a_field_gives_a_model_or_a_sentence(facts, name, value):
    try:
        ModelConfig.from_dict(facts | {name: value})
    except ConfigError as refusal:
        assert str(refusal)


@pytest.mark.parametrize("second", [{"id": "one"}, {"id": 2}, {"name": "no id"}])
def test_an_id_is_given_once(second):
    with pytest.raises(ConfigError, match="id of entry 1 in presets.json must be a text, unlike all other ids"):
        by_id([{"id": "one"}, second])


def test_an_error_in_an_entry_names_the_entry():
    with pytest.raises(ConfigError, match="a-model in presets.json: n_layer is not a field of a model"):
        _preset("a-model", {"n_layer": 7})


@pytest.mark.parametrize("id", load_described())
def test_a_published_model_survives_being_stored_by_its_fields(id):
    model = load_described()[id]
    assert ModelConfig.from_dict(json.loads(json.dumps(model.to_dict()))) == model
