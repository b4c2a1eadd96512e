"""A cache's bytes agree in equation, bar and table.

They are counted here layer by layer, token by token and vector by vector, for invented models.
"""

from __future__ import annotations

import math

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from attnviz.config import ModelConfig
from attnviz.cost import PRECISIONS, comparison, kv_cache_bytes, load_presets
from attnviz.figures import cost as figures
from attnviz.figures.cost.formulas import cache_equation
from tests.arithmetic import check

PRESETS = load_presets()
SINKS = ModelConfig(
    n_layers=4, d_model=192, n_heads=8, n_kv_heads=8, head_dim=24, d_ff=512, vocab_size=101, sliding_window=16,
    n_sinks=4,
)  # fmt: skip


@st.composite
def invented(draw) -> ModelConfig:
    """Generate models of every attention, with windows and sinks; their dimensions share few factors."""
    n_layers, window = draw(st.sampled_from([1, 3, 5])), draw(st.sampled_from([None, 1, 7, 16, 4096]))
    plain = dict(
        n_layers=n_layers, d_model=29, d_ff=41, vocab_size=101, sliding_window=window,
        full_layers=tuple(draw(st.sets(st.integers(0, n_layers - 1)))) if window else (),
        n_sinks=draw(st.sampled_from([0, 1, 4])) if window else 0,
    )  # fmt: skip
    if draw(st.booleans()):
        return ModelConfig(
            **plain, n_heads=5, attention="mla", kv_lora_rank=draw(st.sampled_from([11, 13, 37])), qk_nope_head_dim=7,
            qk_rope_head_dim=6, v_head_dim=3,
        )  # fmt: skip
    return ModelConfig(**plain, n_heads=6, n_kv_heads=draw(st.sampled_from([1, 2, 6])), head_dim=14)


def vectors(model: ModelConfig) -> list[int]:
    """Return the widths of the vectors that one token adds to one layer's cache, in drawing order."""
    if model.attention == "mla":
        return [model.kv_lora_rank, model.qk_rope_head_dim]
    return [model.head_dim] * 2 * model.n_kv_heads


def cached(model: ModelConfig, layer: int, n_tokens: int) -> int:
    """Return the tokens that a later query of this layer may still read: the sinks and the window."""
    if model.sliding_window is None or layer in model.full_layers:
        return n_tokens
    return sum(t < model.n_sinks or t >= n_tokens - model.sliding_window for t in range(n_tokens))


def bits_by_vector(model: ModelConfig, n_tokens: int, batch: int, precision: str) -> list[int]:
    bits, block = PRECISIONS[precision]
    n = batch * sum(cached(model, layer, n_tokens) for layer in range(model.n_layers))
    return [n * (width * bits + (16 * len(range(0, width, block)) if block else 0)) for width in vectors(model)]


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(invented(), st.sampled_from([1, 5, 17, 20, 21, 128]), st.sampled_from([1, 3]), st.sampled_from([*PRECISIONS]))
@example(SINKS, 128, 1, "bf16")
@example(SINKS, 128, 3, "int4")
def test_bytes_equation_bar_and_table_are_one_number(model, n_tokens, batch, precision):
    bits, block = PRECISIONS[precision]
    expected = bits_by_vector(model, n_tokens, batch, precision)
    n_bytes = math.ceil(sum(expected) / 8)
    models = comparison(model)
    row = models.index(model)
    drawing = figures.cache(models, model, None, n_tokens, batch, precision)
    bar = [trace for trace in drawing.figure.data if trace.type == "bar"][row]
    assert kv_cache_bytes(model, n_tokens, batch, bits, block_size=block) == n_bytes
    assert cache_equation(model, n_tokens, batch, bits, block).value == n_bytes
    assert drawing.table[f"bytes in {precision}"][row] == n_bytes
    assert list(bar.x) == pytest.approx([n / 8 for n in expected], rel=1e-12)
    assert check(drawing.formula) == []


EACH_KIND = ("gpt2-small", "llama-3-8b", "mistral-7b-v0.1", "falcon-7b", "gemma-3-27b", "deepseek-v3")


@pytest.mark.parametrize("id", EACH_KIND)
def test_a_line_is_dotted_exactly_beyond_the_context_a_model_was_made_for(id):
    model = PRESETS[id]
    *solid, dotted = figures.totals([model], 8192).figure.data
    assert dotted.x[0] == model.max_context and dotted.line.dash == "dot"
    assert [line.x[-1] for line in solid] == [model.max_context] * (model.max_context > 1024)  # where the axis begins


@pytest.mark.parametrize("id", EACH_KIND)
def test_bars_beyond_the_context_a_model_was_made_for_are_hatched(id):
    for n_more in (0, 1):
        drawing = figures.alternatives(PRESETS[id], PRESETS[id].max_context + n_more)
        assert (drawing.figure.data[0].marker.pattern.shape == "/") == ("Hatched" in drawing.note) == bool(n_more)


@pytest.mark.parametrize("n_tokens, beyond", [(256, False), (257, True)])
def test_the_selected_model_beyond_its_context_is_said_so(n_tokens, beyond):
    model = ModelConfig(n_layers=3, d_model=35, n_heads=6, head_dim=14, d_ff=41, vocab_size=101, max_context=256)
    assert ("beyond" in figures.cache(comparison(model), model, None, n_tokens).note) == beyond
