"""The claims in the notes on memory and decode speed are what was computed."""

from __future__ import annotations

import random
import re

import pytest

from attnviz.cost import Serving, decode_step, load_accelerators, load_presets
from attnviz.figures import cost as figures
from tests.reading import numbers_in, numbers_where

PRESETS, CARDS = load_presets(), load_accelerators()
LLAMA, GPT2, MIXTRAL = (PRESETS[id] for id in ("llama-3-8b", "gpt2-small", "mixtral-8x7b"))


@pytest.mark.parametrize("id", CARDS)
@pytest.mark.parametrize("n", [1, 7])
def test_the_data_sheets_gigabytes_are_those_of_one_device(id, n):
    note = figures.filling(Serving(LLAMA, CARDS[id].times(n), 8192)).more
    sheet = CARDS[id].data_sheet_gb
    assert re.findall(r"([\d.,]+) GB(?: each)? (?:of|on|by) (?:the|its) data sheet", note) == [f"{sheet:g}"]
    assert (" GB each" in note) == (n > 1)


def test_lines_beyond_the_context_are_named_whatever_context_is_chosen():
    for n_tokens in (512, 8192):
        note = figures.speed(Serving(GPT2, CARDS["t4"], n_tokens)).note
        assert {1, 8, 32} <= {*numbers_in(note)} and 512 not in numbers_in(note.partition("beyond")[0])
    assert "beyond" not in figures.speed(Serving(PRESETS["llama-3.1-405b"], CARDS["t4"], 512)).note


def drawn_experts(n_experts: int, per_token: int, n_tokens: int, rounds: int = 4000) -> float:
    """Simulate the mean number of distinct experts that tokens choose, each at random."""
    dice = random.Random(5)
    chosen = (
        len({expert for _ in range(n_tokens) for expert in dice.sample(range(n_experts), per_token)})
        for _ in range(rounds)
    )
    return sum(chosen) / rounds


@pytest.mark.parametrize("n_sequences", [1, 3, 11])
def test_the_experts_said_to_be_read_are_those_that_random_choices_need(n_sequences):
    experts = MIXTRAL.experts
    expected = drawn_experts(experts.n_routed, experts.per_token, n_sequences)
    assert experts.read(n_sequences) == pytest.approx(expected, abs=0.05)


def test_a_bound_with_experts_says_which_are_counted_as_read():
    serving = Serving(MIXTRAL, CARDS["h100-sxm"].times(8), 8192)
    largest = serving.plan().n_users
    drawings = figures.speed(serving), figures.roof(serving), figures.machines(list(CARDS.values()), serving, 3)
    for drawing, n_sequences in zip(drawings, (largest, largest, 3), strict=True):
        read = pytest.approx(MIXTRAL.experts.read(n_sequences), abs=0.05)
        assert numbers_where("# of # routed experts", drawing.more) == [read, MIXTRAL.moe.n_routed_experts] == [read, 8]
    dense = Serving(LLAMA, CARDS["h100-sxm"], 8192)
    assert not any("expert" in drawing.note + drawing.more for drawing in (figures.speed(dense), figures.roof(dense)))
    assert decode_step(MIXTRAL, 8192, 1).weight_bytes < decode_step(MIXTRAL, 8192, 3).weight_bytes


@pytest.mark.parametrize("precision", ["bf16", "fp8"])
@pytest.mark.parametrize("n", [1, 8, 64])
def test_a_peak_is_printed_in_full(precision, n):
    card = CARDS["h200-sxm"].times(n)
    note = figures.speed(Serving(LLAMA, card, 8192, precision, precision)).more
    assert numbers_where("# TFLOP/s", note) == [n * (1979 if precision == "fp8" else 989)]


@pytest.mark.parametrize("n_sequences", [1, 3, 151, 10_007])
def test_what_fits_on_so_many_accelerators_is_named(n_sequences):
    drawing = figures.machines(list(CARDS.values()), Serving(LLAMA, CARDS["t4"], 8192), n_sequences)
    n_fit = sum(drawing.table["fits"])
    rates = zip(drawing.table["tokens per second at most"], drawing.table["fits"], strict=True)
    highest = max(rate for rate, fits in rates if fits or not n_fit)
    assert numbers_in(drawing.title) == [*[n_fit] * (n_fit > 0), len(CARDS), n_sequences, highest]


@pytest.mark.parametrize(
    "id, n, held, times, even",  # by hand
    [
        ("llama-3-8b", 8, "1 of 8 KV heads", "", True),  # 32 query heads, 8 KV heads
        ("llama-3-8b", 32, "1 of 8 KV heads", "4", True),
        ("llama-3-8b", 33, "0 to 1 of 8 KV heads", "4", False),  # one has no query head
        ("llama-3-8b", 64, "0 to 1 of 8 KV heads", "4", False),
        ("falcon-7b", 64, "the one KV head", "64", False),  # 71 query heads
        ("falcon-7b", 71, "the one KV head", "71", True),
        ("gpt2-small", 64, "0 to 1 of 12 KV heads", "", False),
        ("qwen2.5-7b", 14, "1 to 2 of 4 KV heads", "4", False),  # 14 pairs of 28 query heads; two read two KV heads
        ("deepseek-v3", 16, "the whole latent and RoPE key", "16", True),
        ("deepseek-v3", 48, "the whole latent and RoPE key", "48", False),  # 128 query heads
    ],
)
def test_the_note_says_what_each_accelerator_holds_and_what_engines_refuse(id, n, held, times, even):
    note = figures.filling(Serving(PRESETS[id], CARDS["h100-sxm"].times(n), 512)).more
    assert re.findall(r"each accelerator holds (.+?)(?:, so|\.)", note) == [held]
    assert re.findall(r"is held ([\d.]+) times", note) == [times] * bool(times)
    assert ("cannot be divided evenly" not in note) == even


def test_the_roofline_says_where_batching_stops_helping():
    drawing = figures.roof(Serving(LLAMA, CARDS["h100-sxm"], 32_768))
    assert numbers_where("approach #", drawing.more) == [7.49]
    latent = figures.roof(Serving(PRESETS["deepseek-v3"], CARDS["b200"], 8192))
    for drawn, intensity in ((drawing, 4), (latent, 242)):  # in sight, where batches of all bytes are drawn as points
        assert numbers_where("attention alone, # FLOPs per byte of cache", drawn.note) == [intensity]
        (line,) = (each for each in drawn.figure.layout.shapes if each.line.dash == "dash")
        assert line.x0 == line.x1 == pytest.approx(intensity, rel=3e-3)


def test_a_peak_of_fp16_is_said_where_bf16_is_chosen():
    for id, card in CARDS.items():
        for precision in ("bf16", "fp32"):
            serving = Serving(LLAMA, card, 8192, precision, precision)
            notes = figures.speed(serving).more, figures.first_token(serving).more
            expected = id in ("t4", "v100-32gb") and precision == "bf16"
            assert all(("fp16, as its tensor cores do not multiply bf16" in note) == expected for note in notes)
    several = [CARDS["t4"], CARDS["h100-sxm"], CARDS["v100-32gb"]]
    note = figures.machines(several, Serving(LLAMA, CARDS["t4"], 8192), 1).more
    assert "fp16 for NVIDIA T4 and NVIDIA V100 SXM2 32 GB, whose" in note  # slowest first
    assert "fp16" not in figures.machines([CARDS["h100-sxm"]], Serving(LLAMA, CARDS["t4"], 8192), 1).more


def test_one_accelerator_holds_and_several_hold():
    for n, verb, not_here in ((1, "holds", "hold "), (4, "hold", "holds")):
        machine = CARDS["h100-sxm"].times(n)
        for tokens in (8192, 2**20):
            title = figures.filling(Serving(LLAMA, machine, tokens)).title
            assert f"{machine.name} {verb} " in title and not_here not in title, title
