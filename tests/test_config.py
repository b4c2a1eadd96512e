"""attnviz/config.py: derived fields, refused values, and error messages with the field and the values allowed."""

import json
from dataclasses import FrozenInstanceError, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnviz.config import AttentionConfig, ConfigError, ModelConfig, MoEConfig, attention_kind, divisors
from attnviz.mechanisms import Experts, Layer
from tests.mixed import MIXED, SINGLE

MLA = dict(attention="mla", kv_lora_rank=11, qk_rope_head_dim=6, qk_nope_head_dim=7, v_head_dim=5)


@pytest.mark.parametrize("n, expected", [(1, (1,)), (7, (7, 1)), (12, (12, 6, 4, 3, 2, 1))])
def test_divisors_by_hand(n, expected):
    assert divisors(n) == expected


@given(st.integers(1, 500))
def test_divisors_come_in_pairs_and_none_is_missing(n):
    found = divisors(n)
    assert [a * b for a, b in zip(found, reversed(found), strict=True)] == [n] * len(found)
    assert len(found) == sum(n % d == 0 for d in range(1, n + 1))


def test_query_heads_read_consecutive_kv_heads():
    config = AttentionConfig(d_model=48, n_heads=12, n_kv_heads=4)
    assert config.kv_head_of == (0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3)
    assert (config.group_size, config.head_dim, config.kind) == (3, 4, "gqa")


@pytest.mark.parametrize("n_heads, n_kv_heads, kind", [(6, 6, "mha"), (6, 2, "gqa"), (6, 1, "mqa"), (1, 1, "mha")])
def test_kind_follows_from_the_numbers(n_heads, n_kv_heads, kind):
    assert attention_kind(n_heads, n_kv_heads) == AttentionConfig(12, n_heads, n_kv_heads).kind == kind


def test_left_out_numbers_are_filled_in():
    assert AttentionConfig(d_model=15, n_heads=3) == AttentionConfig(15, 3, n_kv_heads=3, head_dim=5)
    assert AttentionConfig(d_model=13, n_heads=3, head_dim=7).head_dim == 7  # need not be d_model / n_heads


@pytest.mark.parametrize(
    "settings, words",
    [
        (dict(d_model=0, n_heads=1), ["d_model", "0"]),
        (dict(d_model=True, n_heads=1), ["d_model", "True"]),
        (dict(d_model=8.0, n_heads=2), ["d_model", "8.0"]),
        (dict(d_model=8, n_heads=-2), ["n_heads", "-2"]),
        (dict(d_model=12, n_heads=6, n_kv_heads=4), ["n_kv_heads", "6, 3, 2, 1", "not 4"]),
        (dict(d_model=12, n_heads=6, n_kv_heads=7), ["n_kv_heads", "not 7"]),
        (dict(d_model=13, n_heads=3), ["13", "multiple of 3", "head_dim"]),
        (dict(d_model=12, n_heads=3, head_dim=0), ["head_dim", "0"]),
        (dict(d_model=12, n_heads=3, dropout=1.0), ["dropout", "1.0"]),
        (dict(d_model=12, n_heads=3, dropout=float("nan")), ["dropout", "nan"]),
    ],
)
def test_an_impossible_layer_is_refused_by_name(settings, words):
    with pytest.raises(ConfigError) as refusal:
        AttentionConfig(**settings)
    assert all(word in str(refusal.value) for word in words)


@pytest.mark.parametrize(
    "settings, words",
    [
        (dict(n_layers=0), ["n_layers", "0"]),
        (dict(n_kv_heads=4), ["n_kv_heads", "6, 3, 2, 1"]),
        (dict(attention="mqa"), ["attention", "'mqa'", "'mha'"]),
        (dict(ffn="tanh"), ["ffn", "swiglu", "'tanh'"]),
        (dict(norm="batchnorm"), ["norm", "rmsnorm", "'batchnorm'"]),
        (dict(position="sinusoid"), ["position", "rope", "'sinusoid'"]),
        (dict(rope_layout="llama"), ["rope_layout", "half", "interleaved"]),
        (dict(qk_norm="both"), ["qk_norm", "head", "width"]),
        (dict(norms_per_layer=3), ["norms_per_layer", "3"]),
        (dict(sliding_window=0), ["sliding_window", "0"]),
        (dict(vocab_size=0), ["vocab_size", "0"]),
        (dict(d_ff=-1), ["d_ff", "-1"]),
        (dict(rope_theta=1.0), ["rope_theta", "1.0"]),
        (dict(full_layers=(0, 5)), ["full_layers", "from 0 to 1", "5"]),
        ({**MLA, "kv_lora_rank": None}, ["kv_lora_rank"]),
        ({**MLA, "head_dim": 12}, ["head_dim", "13", "12"]),
        ({**MLA, "q_lora_rank": 0}, ["q_lora_rank", "0"]),
    ],
)
def test_an_impossible_model_is_refused_by_name(settings, words):
    with pytest.raises(ConfigError) as refusal:
        ModelConfig(**{"n_layers": 2, "d_model": 12, "n_heads": 6, **settings})
    assert all(word in str(refusal.value) for word in words)


def test_an_impossible_mixture_of_experts_is_refused_by_name():
    with pytest.raises(ConfigError, match="experts_per_token must be at most n_routed_experts = 3, not 5"):
        MoEConfig(n_routed_experts=3, experts_per_token=5, d_ff_expert=7)
    with pytest.raises(ConfigError, match="moe.n_shared_experts"):
        MoEConfig(n_routed_experts=3, experts_per_token=2, d_ff_expert=7, n_shared_experts=-1)


def test_a_model_derives_what_it_can():
    model = ModelConfig(n_layers=2, d_model=12, n_heads=6, n_kv_heads=2)
    assert (model.attention, model.head_dim, model.group_size, model.mixer.kind) == ("gqa", 2, 3, "gqa")
    assert ModelConfig(2, 384, 8).d_ff == 1024  # 8/3 of the width, already a multiple of 8
    assert ModelConfig(2, 100, 4).d_ff == 272  # 266.7, rounded up to the next multiple of 8


def test_latent_attention_takes_its_head_from_its_two_parts():
    model = ModelConfig(2, d_model=10, n_heads=3, **MLA)  # 10 / 3 is no head_dim, 7 + 6 is
    assert (model.head_dim, model.rotary_dim) == (13, 6)


@pytest.mark.parametrize(
    "settings, rotary_dim",
    [(dict(), 8), (dict(rotary_fraction=0.25), 2), (dict(rotary_fraction=0.4), 2), (dict(position="none"), 0)],
)
def test_rotary_dim_is_even_and_at_most_the_head(settings, rotary_dim):
    assert ModelConfig(2, 24, 3, **settings).rotary_dim == rotary_dim


def test_the_window_is_left_out_where_the_layer_is_full():
    model = ModelConfig(3, 12, 2, sliding_window=5, full_layers=(1,))
    assert [layer.mixer.window for layer in model.layers] == [5, None, 5]


def test_other_kv_heads_keep_everything_else():
    mha = ModelConfig(2, 12, 6, vocab_size=17, rope_theta=500.0)
    assert mha.with_kv_heads(1) == ModelConfig(2, 12, 6, 1, vocab_size=17, rope_theta=500.0)
    assert [mha.with_kv_heads(k).attention for k in (6, 3, 1)] == ["mha", "gqa", "mqa"]


@pytest.mark.parametrize(
    "model", [ModelConfig(2, 12, 6, 2, rope_theta=500.0, full_layers=(1,)), ModelConfig(2, 10, 3, **MLA)]
)
def test_what_is_stored_is_enough_to_build_it_again(model):
    assert ModelConfig(**model.to_dict()) == model


def test_configs_are_values():
    model = ModelConfig(2, 12, 6)
    assert {model: "found"}[replace(model)] == "found"  # equal and hashable: a key of caches
    with pytest.raises(FrozenInstanceError):
        model.n_heads = 3


# ---- layers that differ


def test_layers_survive_the_metadata_of_a_checkpoint():
    written = json.dumps(MIXED.to_dict())
    assert ModelConfig.from_dict(json.loads(written)) == MIXED
    moe = replace(MIXED, n_layers=1, mixed_layers=(Layer((SINGLE, Experts(5, 2, 3, router_bias=True)), parallel=True),))
    assert ModelConfig.from_dict(json.loads(json.dumps(moe.to_dict()))) == moe
    uniform = ModelConfig(2, 12, 6, 2, rope_theta=500.0)
    assert uniform.to_dict() == {
        "n_layers": 2, "d_model": 12, "n_heads": 6, "n_kv_heads": 2, "head_dim": 2, "d_ff": 32, "attention": "gqa",
        "rope_theta": 500.0,
    }  # fmt: skip


def changed(path, value):
    """Return MIXED's metadata with a value at a path of keys and indices; ... removes it."""
    facts = json.loads(json.dumps(MIXED.to_dict()))
    at = facts
    for key in path[:-1]:
        at = at[key]
    if value is ...:
        del at[path[-1]]
    else:
        at[path[-1]] = value
    return facts


SECOND = ("mixed_layers", 1)


@pytest.mark.parametrize(
    "path, value, message",
    [
        (("mixed_layers",), "deep", "mixed_layers must be a list, not 'deep'"),
        (SECOND, 7, r"mixed_layers\[1\] must be a mapping of names to values, not 7"),
        ((*SECOND, "rope_thetas"), 5.0, r"mixed_layers\[1\].rope_thetas is not a field .* mean .*rope_theta"),
        ((*SECOND, "rope_theta"), 1, r"mixed_layers\[1\].rope_theta must be above 1"),
        ((*SECOND, "n_norms"), "two", r"mixed_layers\[1\].n_norms must be a whole number"),
        ((*SECOND, "parallel"), 1, r"mixed_layers\[1\].parallel must be true or false, not 1"),
        ((*SECOND, "shares_cache_of"), 1, r"mixed_layers\[1\].shares_cache_of must be an earlier layer, not 1"),
        ((*SECOND, "parts"), ..., r"mixed_layers\[1\].parts must be a list, not None"),
        ((*SECOND, "parts"), [], r"mixed_layers\[1\].parts must be one or more mechanisms"),
        ((*SECOND, "parts", 0), "attention", r"mixed_layers\[1\].parts\[0\] must be a mapping"),
        ((*SECOND, "parts", 0, "mechanism"), "attention", r"mechanism must be one of grouped, latent"),
        ((*SECOND, "parts", 0, "mechanism"), ["grouped"], r"parts\[0\].mechanism must be one of grouped"),
        ((*SECOND, "parts", 0, "n_heads"), 0, r"mixed_layers\[1\].parts\[0\].n_heads must be a whole number from 1"),
        ((*SECOND, "parts", 0, "head_dim"), ..., r"mixed_layers\[1\].parts\[0\].head_dim must be .*, not None"),
        ((*SECOND, "parts", 0, "n_kv_heads"), 4, r"mixed_layers\[1\].parts\[0\].n_kv_heads must divide n_heads"),
        ((*SECOND, "parts", 0, "window"), 2.5, r"mixed_layers\[1\].parts\[0\].window must be a whole number"),
        ((*SECOND, "parts", 0, "qk_norm"), "tail", r"parts\[0\].qk_norm must be one of head, width"),
        ((*SECOND, "parts", 0, "rotary_fraction"), 1.5, r"parts\[0\].rotary_fraction must be a number from 0 to 1"),
        ((*SECOND, "parts", 1, "activation"), "tanh", r"\[1\].activation must be one of swiglu, geglu, gelu, relu"),
        ((*SECOND, "parts", 1, "experts"), 3, r"mixed_layers\[1\].parts\[1\].experts is not a field"),
        (("n_layers",), 5, "mixed_layers must have n_layers = 5 layers, not 4"),
    ],
)
def test_a_malformed_layer_is_refused_by_the_name_of_its_field(path, value, message):
    with pytest.raises(ConfigError, match=message):
        ModelConfig.from_dict(changed(path, value))
