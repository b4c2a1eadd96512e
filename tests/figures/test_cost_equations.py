"""Each equation of the Cost page is the number that is computed and drawn, over
invented settings; read back from the printed text by tests/arithmetic.py.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import replace

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from attnviz.config import ModelConfig, MoEConfig, divisors
from attnviz.cost import (
    PRECISIONS,
    Serving,
    comparison,
    count_parameters,
    kv_cache_bytes,
    load_accelerators,
    load_presets,
)
from attnviz.figures import cost as figures
from attnviz.figures.cost.formulas import (
    attention_equation,
    by_part,
    cache_equation,
    fit_equation,
    intensity_equations,
    rate_equation,
    sum_equation,
    totals_formula,
)
from attnviz.figures.cost.rates import rate_text
from tests.arithmetic import NOTHING, check, value_of

pytestmark = pytest.mark.slow

PRESETS, CARDS = load_presets(), load_accelerators()
WINDOWED = ModelConfig(
    n_layers=5, d_model=78, n_heads=6, n_kv_heads=3, head_dim=13, d_ff=41, vocab_size=101, sliding_window=17, n_sinks=3
)
LATENT = ModelConfig(
    n_layers=5, d_model=78, n_heads=7, attention="mla", kv_lora_rank=11, qk_nope_head_dim=13, qk_rope_head_dim=4,
    v_head_dim=3, d_ff=41, vocab_size=101, sliding_window=17, n_sinks=3,
)  # fmt: skip


@st.composite
def models(draw) -> ModelConfig:
    """Generate any model that can be counted: windows, sinks, layers without a window, MLA, experts."""
    whole = lambda low, high: draw(st.integers(low, high))  # noqa: E731
    n_layers, n_heads = whole(1, 12), whole(1, 24)
    window = draw(st.one_of(st.none(), st.integers(1, 300)))
    full = tuple(sorted(draw(st.sets(st.integers(0, n_layers - 1))))) if window else ()
    plain = dict(
        n_layers=n_layers, d_model=whole(1, 300), n_heads=n_heads, d_ff=whole(1, 500), vocab_size=whole(2, 4000),
        tie_embeddings=draw(st.booleans()), sliding_window=window, full_layers=full,
        n_sinks=whole(0, 9) if window else 0, name="Invented 7B (a test)",
        max_context=draw(st.one_of(st.none(), st.integers(1, 3000))),
        moe=draw(st.one_of(st.none(), st.just(MoEConfig(n_routed_experts=7, experts_per_token=2, d_ff_expert=5)))),
    )  # fmt: skip
    if draw(st.booleans()):
        latent = dict(kv_lora_rank=whole(1, 64), qk_nope_head_dim=whole(1, 40), v_head_dim=whole(1, 40))
        return ModelConfig(**plain, **latent, attention="mla", qk_rope_head_dim=2 * whole(1, 20))
    return ModelConfig(
        **plain, n_kv_heads=draw(st.sampled_from(divisors(n_heads))), head_dim=whole(1, 80),
        qkv_bias=draw(st.booleans()),
    )  # fmt: skip


@st.composite
def servings(draw) -> Serving:
    model = draw(st.one_of(models(), st.sampled_from(list(PRESETS.values()))))
    card = draw(st.sampled_from(list(CARDS.values()))).times(draw(st.sampled_from([1, 3, 64])))
    precision, weights = (draw(st.sampled_from(list(PRECISIONS))) for _ in range(2))
    reserve = draw(st.sampled_from([0.0, 0.1, 0.9]))
    return Serving(model, card, draw(TOKENS), precision, weights, reserve)


TOKENS = st.one_of(st.integers(1, 300), st.sampled_from([1, 1000, 8192, 131_072, 2**20]))


def right(text: str) -> bool:
    """Check that the text has at least one equation and that all its equations hold."""
    return check(text, tex=True) == []


def rounds_to(written: str, tex: str) -> bool:
    """Check whether the printed result, with fewer digits, is the written one."""
    result = re.match(r"[\d.{},]+", tex.strip())[0].replace("{,}", "").rstrip("\\")
    decimals = len(written.partition(".")[2])
    return abs(float(result) - float(written.replace(",", ""))) <= 0.5 * 10**-decimals + 1e-9


def last_side(tex: str) -> str:
    return tex.rpartition("=")[2]


@settings(max_examples=25, deadline=None)
@given(models(), TOKENS, st.integers(1, 1024), st.sampled_from(list(PRECISIONS)))
@example(WINDOWED, 128, 1, "bf16")
@example(LATENT, 128, 3, "int4")
@example(WINDOWED, 17, 1, "int4")
@example(LATENT, 1, 1, "fp8")
def test_the_cache_equation_is_the_counted_bytes(model, n_tokens, batch_size, precision):
    bits, block = PRECISIONS[precision]
    equation = cache_equation(model, n_tokens, batch_size, bits, block)
    assert equation.value == kv_cache_bytes(model, n_tokens, batch_size, bits, block_size=block)
    assert right(equation.tex()) and check(equation.text()) == []
    held = model.sliding_window is not None and len(model.full_layers) < model.n_layers
    assert ({"W"} if held else set()) <= equation.legend().keys()
    assert ("A" in equation.legend()) == bool(held and model.n_sinks)


def test_the_window_with_its_sinks_is_in_the_equation():
    model = ModelConfig(n_layers=4, d_model=192, n_heads=8, n_kv_heads=4, head_dim=24, sliding_window=16, n_sinks=4)
    equation = cache_equation(model, 128)
    assert equation.value == kv_cache_bytes(model, 128) == 4 * 20 * 2 * 4 * 24 * 2 == 30_720
    assert right(equation.tex())


@settings(max_examples=12, deadline=None)
@given(models())
def test_parameter_equations_are_the_counted_parameters(model):
    count, attention = count_parameters(model), attention_equation(model)
    assert attention.value == count.attention_per_layer
    whole = sum_equation(count.parts)
    assert whole.value == count.total
    assert right(attention.tex()) or len(count.attention) == 1
    if model.attention == "mla":
        assert right(by_part(attention)) and {"C", "R", "P"} <= attention.legend().keys()
        values = [term.value for term in attention.right.parts]
        assert values == list(count.attention.values())
    assert right(whole.tex_lines()) and whole.tex_lines().count("underbrace") == len(count.parts)


@settings(max_examples=12, deadline=None)
@given(st.lists(models(), min_size=1, max_size=6), TOKENS)
def test_each_line_of_the_totals_is_right(several, n_tokens):
    named = {f"Model {i}B & more": model for i, model in enumerate(several)}
    assert right(totals_formula(named, n_tokens))


@settings(max_examples=20, deadline=None)
@given(servings())
@example(Serving(PRESETS["deepseek-v3"], CARDS["t4"], 8192))
@example(Serving(PRESETS["gpt2-small"], CARDS["b200"].times(64), 1))
@example(Serving(PRESETS["llama-2-7b"], CARDS["t4"], 8192))
@example(Serving(PRESETS["llama-2-7b"], CARDS["t4"], 8192, reserve=0.2))
def test_what_fits_is_what_the_equation_says(serving):
    plan, drawing = serving.plan(), figures.filling(serving)
    equation = fit_equation(plan)
    assert right(drawing.formula)
    bars = {trace.name.split()[0]: trace.x[0] for trace in drawing.figure.data}
    assert bars["weights"] == plan.weights and bars["cache"] == plan.n_users * plan.cache_of_one
    if plan.free >= 0:
        assert equation.value == plan.n_users
        assert sum(bars.values()) == plan.memory
        assert plan.n_users * plan.cache_of_one <= plan.free < (plan.n_users + 1) * plan.cache_of_one
        assert (f"{plan.n_users:,} sequence" in drawing.title) == (plan.n_users > 0)
    else:
        missing = plan.weights + (plan.reserve if plan.weights_fit else 0) - plan.memory
        assert equation.value == missing > 0 and plan.n_users == 0
        assert ("alone" in drawing.title) == (plan.weights > plan.memory)


def test_weights_that_do_not_fit_say_by_how_much():
    drawing = figures.filling(Serving(PRESETS["deepseek-v3"], CARDS["t4"], 8192))
    missing = 2 * count_parameters(PRESETS["deepseek-v3"]).total - 15_360 * 2**20
    assert f"{missing / 2**40:.2f} TiB" in drawing.title
    assert value_of(last_side(drawing.formula), tex=True).low == missing


@settings(max_examples=15, deadline=None)
@given(servings(), st.integers(1, 1024))
@example(Serving(PRESETS["llama-3.1-405b"], CARDS["t4"], 2**20), 1)
def test_the_bound_and_the_intensity_are_those_of_the_step(serving, batch_size):
    step = serving.step(batch_size)
    bound = rate_equation(step, serving.machine)
    flops, intensity = intensity_equations(serving.model, step, serving.n_tokens)
    assert bound.value == pytest.approx(step.tokens_per_second(serving.machine), rel=1e-12)
    assert intensity.value == pytest.approx(step.intensity, rel=1e-12)
    assert flops.value == step.flops
    assert right(bound.tex()) and right(intensity.tex()) and right(flops.tex())


def test_flops_of_a_decode_step_by_hand():
    llama, deepseek = Serving(PRESETS["llama-3-8b"], CARDS["t4"], 8192), Serving(PRESETS["deepseek-v3"], CARDS["t4"], 7)
    layer = 4096 * (2 * 4096 + 2 * 1024 + 3 * 14_336)
    by_hand = 3 * (2 * (32 * layer + 128_256 * 4096) + 4 * 32 * 128 * 32 * 8192)
    assert intensity_equations(llama.model, llama.step(3), 8192)[0].value == by_hand
    short, long = (intensity_equations(deepseek.model, deepseek.step(1), n)[0].value for n in (7, 18))
    assert long - short == 61 * 11 * 128 * 2 * (512 + 64 + 512)


@settings(max_examples=8, deadline=None)
@given(servings(), st.sampled_from([1, 3, 1024]))
@example(Serving(PRESETS["llama-3.1-405b"], CARDS["t4"], 2**20), 1)
@example(Serving(PRESETS["llama-3-8b"], CARDS["h100-sxm"], 8192, "fp8", "fp8"), 64)
def test_titles_points_tables_and_equations_of_speed_are_one_number(serving, batch_size):
    largest = min(serving.plan().n_users, 1024)
    shown = max(largest, 1)
    rate = rate_text(serving.tokens_per_second(shown))
    speed, roof = figures.speed(serving), figures.roof(serving)
    machines = figures.machines(list(CARDS.values()), serving, batch_size)
    assert right(speed.formula) and right(roof.formula) and right(machines.formula)
    assert rate in speed.title and rounds_to(rate, last_side(speed.formula))
    line = [t for t in speed.figure.data if t.line.width == 4]
    points = {x: y for trace in line for x, y in zip(trace.x, trace.y, strict=True)}
    assert rate_text(points[shown]) == rate
    intensity = rate_text(serving.step(shown).intensity)
    assert intensity in roof.title and rounds_to(intensity, last_side(roof.formula))
    assert (f"{largest:,} sequences" in speed.title) == (largest > 1)
    bar = machines.figure.data[0]
    for x, name, fits, said in zip(bar.x, bar.y, machines.table["fits"], bar.text, strict=True):
        card = next(c for c in CARDS.values() if c.name == name)
        assert x == serving.on(card).tokens_per_second(batch_size)
        assert fits == (serving.on(card).plan().n_users >= batch_size) and ("too small" in said) != fits


def test_a_rate_below_one_is_printed_truly():
    speed = figures.speed(Serving(PRESETS["llama-3.1-405b"], CARDS["t4"], 2**20))
    bound = 300e9 / (2 * (405_853_388_800 - 128_256 * 16_384) + 516_096 * 2**20)
    assert bound == pytest.approx(0.222, abs=5e-4)
    assert "0.222 tokens per second" in speed.title and speed.table["tokens per second at 1 M"][0] == 0.222


def test_no_batch_is_named_that_does_not_fit():
    for card, precision in zip(CARDS.values(), itertools.cycle(PRECISIONS)):
        serving = Serving(PRESETS["llama-3-8b"], card, 8192, precision, precision)
        for drawing in (figures.speed(serving), figures.roof(serving)):
            for said in re.findall(r"([\d,]+) sequences", drawing.title):
                assert int(said.replace(",", "")) <= serving.plan().n_users


@settings(max_examples=12, deadline=None)
@given(models(), TOKENS, st.sampled_from([1, 3, 64]), st.sampled_from(list(PRECISIONS)))
@example(WINDOWED, 128, 1, "bf16")
@example(LATENT, 128, 3, "int4")
@example(replace(LATENT, n_layers=1), 1, 1, "int4")
def test_bars_titles_and_equations_of_the_cache_are_one_number(model, n_tokens, batch_size, precision):
    assume(model.attention != "mla" or model.n_heads > 0)
    others = comparison(model)
    chosen = model if model in others else others[0]
    drawing = figures.cache(others, chosen, None, n_tokens, batch_size, precision)
    here = others.index(chosen)
    n_bytes = drawing.table[f"bytes in {precision}"][here]
    bars = [trace for trace in drawing.figure.data if trace.type == "bar"]
    begun = n_bytes - sum(bars[here].x)  # the total is rounded up to whole bytes, the parts are not
    assert -1e-9 * n_bytes <= begun < 1 + 1e-9 * n_bytes
    bits, block = PRECISIONS[precision]
    assert cache_equation(chosen, n_tokens, batch_size, bits, block).value == n_bytes
    assert right(drawing.formula)
    quantised = figures.precisions(chosen, n_tokens, batch_size)
    assert list(quantised.figure.data[0].x) == quantised.table["bytes"] and right(quantised.formula)


def test_the_note_on_a_window_counts_the_sinks():
    note = figures.cache([WINDOWED], WINDOWED, None, 128).more
    assert "at most 20 tokens" in note and "3 attention-sink tokens" in note
    whole = figures.cache([WINDOWED], WINDOWED, None, 20).more
    assert "counted bytes are larger" in note and "counted bytes are larger" not in whole
    assert "1 layer without a window: 128" in figures.cache(
        [other := replace(WINDOWED, full_layers=(2,))], other, None, 128).more  # fmt: skip


def test_equations_of_the_page_are_evaluated_at_all():
    formula = figures.precisions(WINDOWED, 11).formula
    assert right(formula) and check(formula, tex=True) != [NOTHING]
    assert "11," in formula and not right(formula.replace("11,", "12,"))
