"""Figures of decoders whose layers differ: their numbers are the counts, as each printed equation evaluates."""

import pytest

from attnviz.cost import (
    cache,
    count_parameters,
    decode_cost,
    decode_step,
    kv_cache_bytes,
    parameters,
    prefill,
    prefill_cost,
)
from attnviz.cost.cached import state_bytes
from attnviz.cost.hf_architectures import LAYERED
from attnviz.cost.hf_config import read_hf_config
from attnviz.figures.cost import growth_text, memory_of_layers, only_costs, parts_of_layers
from tests.arithmetic import check
from tests.cost.decoders import NEEDED

S = 41
COUNTED = sorted(LAYERED)
DRAWN = (
    "qwen3_next kimi_linear jamba nemotron_h gemma4_text llama4_text deepseek_v32 deepseek_v4 lfm2_moe minimax rwkv "
    "zamba falcon_h1"
).split()


def model_of(model_type):
    return read_hf_config({"model_type": model_type, **NEEDED.get(model_type, {})}).model


@pytest.mark.parametrize("model_type", COUNTED)
def test_numbers_equations_and_legends_agree(model_type):
    """The counted numbers are the expressions' values, and in a legend each letter has one value."""
    model = model_of(model_type)
    for found, number in (
        (parameters(model), count_parameters(model).total),
        (cache(model, S, 3, 16), kv_cache_bytes(model, S, 3)),
        (decode_cost(model, S, 3), decode_step(model, S, 3).flops),
        (prefill_cost(model, S), prefill(model, S).flops),
    ):
        assert found.value == number
        values: dict[str, set] = {}
        for value in found.values():
            values.setdefault(value.symbol, set()).add(value.number)
        assert all(len(numbers) == 1 for symbol, numbers in values.items() if symbol), values


@pytest.mark.parametrize("model_type", DRAWN)
def test_what_is_drawn_adds_up_and_is_printed_right(model_type):
    model = model_of(model_type)
    parts, memory = parts_of_layers(model), memory_of_layers(model, S, 3, "bf16")
    assert parts.figure and memory.figure
    assert sum(parts.table["parameters"]) == count_parameters(model).total
    cached = sum(memory.table["bytes of cache in bf16"])
    assert cached + sum(memory.table["bytes of state"]) == kv_cache_bytes(model, S, 3)
    assert sum(memory.table["bytes of state"]) == state_bytes(model, 3)
    for found in (parameters(model), cache(model, S, 3, 16)):
        assert check(found.text()) == [] and check(found.tex(), tex=True) == []
    assert all(sentence.endswith(".") and "AttnViz counts" in sentence for sentence in only_costs(model))
    assert ("state" in growth_text(model)) == bool(state_bytes(model))


def test_compressed_entries_are_added_on_average():
    """23 layers with an entry of 512 numbers per 128 tokens, 20 with one of 512 + 128 per 4."""
    text = growth_text(model_of("deepseek_v4"))
    assert "after the first 128 adds **6,584 B** to the cache on average" in text
    assert 23 * 512 * 2 / 128 + 20 * (512 + 128) * 2 / 4 == 6_584


def test_the_precision_of_the_cache_does_not_change_the_state():
    model = model_of("qwen3_next")
    drawn = {precision: memory_of_layers(model, S, 1, precision).table for precision in ("bf16", "int4")}
    assert drawn["bf16"]["bytes of state"] == drawn["int4"]["bytes of state"]
    assert drawn["bf16"]["bytes of cache in bf16"] > drawn["int4"]["bytes of cache in int4"]
