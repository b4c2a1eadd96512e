"""A config.json that no reader knows, counted by transformers in a process of its own; never on a hosted server."""

from __future__ import annotations

import json

import pytest

from attnviz.checks import ConfigError
from attnviz.compute import cost as compute_cost
from attnviz.compute import counting
from attnviz.cost import Answer, Serving, count_parameters, kv_cache_bytes, load_accelerators, of_accelerators
from attnviz.cost.by_transformers import counted_model, counted_text
from attnviz.cost.cached import state_bytes
from attnviz.figures import cost as figures
from attnviz.figures.cost.layered import memory_text
from attnviz.session import openable
from tests.cost import decoders

UNKNOWN = "zamba2"  # in the sweep's list of refused ones; attention and Mamba-2, with shared weights
FIELDS = {
    "vocab_size": 211, "hidden_size": 64, "num_hidden_layers": 7,
    "layers_block_type": ["mamba", "hybrid", *["mamba"] * 5],
    "num_attention_heads": 4, "num_key_value_heads": 4, "intermediate_size": 37, "mamba_d_state": 11,
    "n_mamba_heads": 8, "mamba_headdim": 16, "adapter_rank": 5, "num_mem_blocks": 1, "max_position_embeddings": 4099,
}  # fmt: skip
HOSTILE = {
    "layers": {"num_hidden_layers": 10**6},
    "a vocabulary": {"vocab_size": 10**12},
    "a number of many digits": {"hidden_size": 10**400},
    "experts": {"num_experts": 10**5},
    "layer types": {"layers_block_type": ["mamba"] * 30_000},
    "depth": {"rope_parameters": {"a": {"b": {"c": {"d": {"e": {"f": {"g": 1}}}}}}}},
}


@pytest.fixture
def at_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openable, "is_local", lambda: True)
    monkeypatch.setattr(counting, "_counts", {})


def counted(config: dict, seconds: float = 200.0) -> counting.Count:
    count = counting.Count(config, seconds)
    count.join()
    return count


@pytest.mark.slow
def test_a_model_that_no_reader_knows_is_the_one_that_transformers_builds(at_home):
    """Parameters and cache against a model built here; the first request counts, the next ones find it."""
    config = {"model_type": UNKNOWN, **FIELDS}
    counting._counts[json.dumps(config, sort_keys=True)] = counted(config)
    model, description = compute_cost.pasted_model(json.dumps(config))
    live = decoders.built(decoders.configured(UNKNOWN, **FIELDS))
    assert count_parameters(model).total == decoders.n_parameters(live)
    assert 0 < state_bytes(model) < kv_cache_bytes(model, 1)
    for n_tokens in (9, 40):
        held = decoders.held(live, n_tokens)
        numbers = (kv_cache_bytes(model, n_tokens) - state_bytes(model)) // 2 + sum(
            mixer.kept_in_16 + mixer.kept_in_32 for mixer in model.layers[0].mixers
        )
        assert numbers == held
    assert description is not None and "Counted by transformers" in description.counted
    assert "20,011" in description.counted and model.name.startswith("zamba2, counted by transformers")


def found(**changes: object) -> dict:
    """Return what the process prints."""
    return {
        "kind": "new", "version": "5.0", "parameters": 1009, "context": None, "growing": 6, "windows": {"31": 10},
        "fixed": {"32": 13}, "far": True, "sizes": {"vocab_size": 11, "hidden_size": 7, "num_hidden_layers": 3},
    } | changes  # fmt: skip


def test_windows_states_and_sizes_without_an_embedding():
    model = counted_model(found())
    assert count_parameters(model).total == 1009 and model.n_layers == 3
    assert kv_cache_bytes(model, 100) == 2 * (6 * 100 + 10 * 31) + 4 * 13
    assert kv_cache_bytes(model, 20) == 2 * (6 + 10) * 20 + 4 * 13
    assert count_parameters(counted_model(found(parameters=10**12 + 1))).total == 10**12 + 1
    small = counted_model(found(parameters=50))
    assert count_parameters(small).total == 50
    assert "upper bound" in counted_text(found(far=False)) and "upper bound" not in counted_text(found())


def test_no_list_says_what_is_not_known_of_it():
    """No layer counts and no speed; each name says who counted."""
    model = counted_model(found())
    assert figures.layers_text(model) == "3, counted by transformers 5.0 together"
    assert memory_text(model, 20, 1, "bf16") == "640 B of KV cache and 52 B of state"
    drawing = figures.memory_of_layers(model, 20, 1, "bf16")
    assert drawing.table["kind"] == ["counted by transformers 5.0", "counted by transformers 5.0, window 31"]
    asked = Answer(Serving(model, load_accelerators()["h100-sxm"], 20), 1)
    assert asked.tokens_per_second is None and "tokens per second" not in figures.sentence(asked)
    for one in (figures.accelerators_finding(of_accelerators(load_accelerators().values(), asked)), model.name):
        assert "new, counted by transformers 5.0" in one and "per second" not in one


@pytest.mark.parametrize("fields", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_file_is_refused_before_anything_is_built(fields):
    count = counted({"model_type": UNKNOWN, **fields})
    assert count.found is None and 20 < len(count.problem) < 200
    assert count.stage == counting.FIRST_STAGE  # transformers was not even imported


def test_a_count_that_takes_too_long_ends_and_one_can_be_cancelled():
    slow = counted({"model_type": UNKNOWN, **FIELDS}, seconds=0.5)
    assert slow.found is None and "within 0.5 s" in slow.problem
    count = counting.Count({"model_type": UNKNOWN, **FIELDS})
    count.stop()
    count.join()
    assert count.problem == "the count was cancelled"


def test_a_hosted_server_and_one_without_transformers_refuse_and_say_what_to_do(monkeypatch):
    monkeypatch.setattr(counting, "Count", None)  # starting one would fail
    pasted = json.dumps({"model_type": UNKNOWN})
    with pytest.raises(ConfigError, match="does not know the architecture 'zamba2'.*On your own machine"):
        compute_cost.pasted_model(pasted)
    monkeypatch.setattr(openable, "is_local", lambda: True)
    monkeypatch.setattr(counting, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match="pip install transformers"):
        compute_cost.pasted_model(pasted)


def test_while_it_is_counted_the_page_says_so_and_what_failed_can_be_tried_again(at_home, monkeypatch):
    monkeypatch.setattr(counting, "SECONDS", 0.3)
    config = {"model_type": UNKNOWN, **FIELDS}
    with pytest.raises(counting.BeingCounted) as begun:
        counting.counted(config)
    begun.value.count.stop()
    begun.value.count.join()
    with pytest.raises(ConfigError, match="cancelled"):
        counting.counted(config)
    compute_cost.count_again(json.dumps(config))
    assert counting._counts == {}
