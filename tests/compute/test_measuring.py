"""The Cost page: pasted configurations give a model or an error sentence; live counts agree or are omitted.

pytest tests/compute/test_measuring.py
"""

from __future__ import annotations

import json
from dataclasses import replace
from threading import Event
from time import sleep

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnviz.compute import cost as compute_cost
from attnviz.compute.view import View
from attnviz.config import ConfigError, ModelConfig
from attnviz.cost import (
    bits_with_scales,
    comparison,
    count_parameters,
    kv_cache_bytes,
    load_described,
    load_presets,
    what_if,
)
from attnviz.experiments.measurement import Timing
from attnviz.facts import facts_of
from attnviz.figures import cost as figures
from attnviz.session.pages.cost import PRESETS
from attnviz.session.settings import Settings

SMALL = ModelConfig(n_layers=2, d_model=30, n_heads=6, n_kv_heads=2, head_dim=8, d_ff=41, vocab_size=101)


@pytest.mark.parametrize("id", PRESETS)
def test_a_published_models_facts_can_be_taken_and_pasted_back(id):
    pasted, description = compute_cost.pasted_model(facts_of(id))
    assert (description is None) == (id in load_described()) and replace(pasted, id=id) == load_presets()[id]


@pytest.mark.parametrize(
    "beside, words", [({"n_layers": 7}, ["n_layers", "config"]), ({"config": [7]}, ["config", "7"])]
)
def test_what_stands_beside_a_config_json_is_a_name(beside, words):
    facts = {"name": "Seven", "config": {"model_type": "llama"}} | beside
    with pytest.raises(ConfigError) as raised:
        compute_cost.pasted_model(json.dumps(facts))
    assert all(word in str(raised.value) for word in words)


@pytest.mark.parametrize(
    "pasted, words",
    [
        ("{", ["Invalid JSON"]),
        ("[" * 100_000, ["Invalid JSON"]),
        ("[]", ["JSON object"]),
        ("{}", ["n_layers"]),
        ('{"n_layers": 2, "d_model": 12, "n_heads": 5}', ["d_model", "multiple of n_heads"]),
        ('{"n_layers": 2, "d_model": 12, "n_heads": 6, "n_kv_heads": 4}', ["n_kv_heads", "6, 3, 2, 1"]),
        ('{"n_layers": 2, "d_model": 1000000000000, "n_heads": 6}', ["d_model", "1 to 1,000,000"]),
        ('{"n_layers": ' + "1" * 5_000 + "}", ["Invalid JSON"]),
        ('{"model_type": "llama", "hidden_size": 1e400}', ["hidden_size", "inf"]),
        ('{"model_type": "t5"}', ["does not know", "'t5'"]),
        ('{"n_layers": NaN, "d_model": 12, "n_heads": 6}', ["n_layers", "nan"]),
    ],
)
def test_a_mistake_in_pasted_facts_is_one_sentence(pasted, words):
    with pytest.raises(ConfigError) as refusal:
        compute_cost.pasted_model(pasted)
    assert all(word in str(refusal.value) for word in words), str(refusal.value)


FIELDS = ["n_layers", "moe", "id", "model_type", "hidden_size"]


@given(st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner),
    max_leaves=8,
))  # fmt: skip
@settings(max_examples=50)
def test_any_json_gives_a_model_or_a_sentence(value):
    try:
        compute_cost.pasted_model(json.dumps(value))
    except ConfigError as refusal:
        assert str(refusal)


def test_a_config_json_is_counted_as_the_published_model_it_belongs_to():
    given = {
        "architectures": ["LlamaForCausalLM"], "hidden_size": 4096, "intermediate_size": 14336, "model_type": "llama",
        "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8, "rope_theta": 500000.0,
        "max_position_embeddings": 8192, "tie_word_embeddings": False, "torch_dtype": "bfloat16", "vocab_size": 128256,
    }  # fmt: skip
    model, description = compute_cost.pasted_model(json.dumps(given))
    assert count_parameters(model).total == 8_030_261_248 and kv_cache_bytes(model, 1) == 131_072
    assert description.used == {name: given[name] for name in description.used} and len(description.used) == 8
    assert description.assumed == {"head_dim": 128, "attention_bias": False, "mlp_bias": False}


def test_live_counts_agree_with_a_window_for_all_tokens_since_the_modules_keep_them():
    s, models = Settings(context=50, batch=3), comparison(SMALL)
    assert compute_cost.differing(models, compute_cost.counted(models, s), s) == ([], [])
    windowed = comparison(replace(SMALL, sliding_window=9))
    live = compute_cost.counted(windowed, s)
    assert compute_cost.differing(windowed, live, s) == ([], [])
    assert all(held > kv_cache_bytes(m, 50, 3) for held, m in zip(live.cache, windowed, strict=True))
    said = figures.counted_text(5, [], [], "bf16", windowed=True)
    assert "for all tokens" in said and "differ" not in said
    other = replace(live, cache=(live.cache[0] + 2, *live.cache[1:]))
    wrong = compute_cost.differing(windowed, other, s)
    assert wrong == ([], ["MHA"]) and ":material/check:" not in figures.counted_text(5, *wrong, "bf16", windowed=True)


def test_what_the_modules_do_not_run_is_not_counted_live():
    s = Settings(context=50)
    with pytest.raises(ConfigError, match="mixture of experts"):
        compute_cost.counted([load_presets()["deepseek-v3"]], s)


def test_the_chosen_machines_hold_what_their_memory_together_holds():
    one, four = (compute_cost.answer(View(Settings(n_machines=n, context=8192))).plan for n in (1, 4))
    assert four.memory * four.count == 4 * one.memory == 4 * 81_559 * 2**20
    assert bits_with_scales("int4") == 4.5 and bits_with_scales("fp8") == 8
    assert compute_cost.answer(View(Settings(weights="int4"))).plan.weights < one.weights / 3.5


def finished(measurement: compute_cost.Measurement) -> compute_cost.Measurement:
    measurement._thread.join(60)
    assert not measurement.running
    return measurement


def test_only_one_measures_at_a_time_and_it_can_be_stopped(monkeypatch):
    monkeypatch.setattr(compute_cost, "MEASURED_CONTEXTS", (4, 8))
    monkeypatch.setattr(compute_cost, "SECONDS_TO_STOP", 0.01)
    going_on, timed = Event(), what_if(SMALL)

    def timings(models, contexts):
        assert models == timed and contexts == (4, 8)
        for n_tokens in range(8):
            yield Timing(models[0], n_tokens, (1.0,), 1)
            going_on.wait(10)

    with monkeypatch.context() as patch:
        patch.setattr(compute_cost.measure, "timings", timings)
        first = compute_cost.Measurement(SMALL)
        while not first.results:
            sleep(0.001)
        assert first.running and "Another measurement" in finished(compute_cost.Measurement(SMALL)).problem
        first.stop()
        going_on.set()
        assert len(finished(first).results) == 2 and first.problem is None
    again = finished(compute_cost.Measurement(SMALL))
    assert again.share == 1.0 and [t.n_tokens for t in again.results] == [4, 4, 4, 4, 8, 8, 8, 8]


def test_a_measurement_ends_when_its_time_is_up(monkeypatch):
    monkeypatch.setattr(compute_cost, "MAX_SECONDS", -1)
    monkeypatch.setattr(compute_cost, "MEASURED_CONTEXTS", (4, 8))
    assert len(finished(compute_cost.Measurement(SMALL)).results) == 1
