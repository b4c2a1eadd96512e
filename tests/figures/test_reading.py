"""The bytes that a decode step reads, as they are printed: dividing them by the printed bandwidth gives the rate."""

import re

import pytest

from attnviz.compute import lessons, placeholders
from attnviz.compute.view import View
from attnviz.cost import Answer, Serving, load_accelerators, load_presets
from attnviz.figures import cost as figures
from attnviz.figures.cost.reading import memory_text, read_text
from tests.reading import numbers_in, numbers_where

CARDS, PRESETS = load_accelerators(), load_presets()
SIZES = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
RATES = {"GB/s": 1e9, "TB/s": 1e12}


def rate_from(said: str) -> float:
    """Return the tokens per second of one sequence that follow from a sentence's own bytes and bandwidth."""
    weights, unit = re.search(r"reads ([\d.,]+) (\w+) of (?:the [\d.,]+ \w+ of )?weights", said).groups()
    cached, cached_unit = re.search(r"and ([\d.,]+) (\w+) of cache", said).groups()
    bandwidth, of_time = re.search(r"at ([\d.,]+) ([GT]B/s)", said).groups()
    read = float(weights.replace(",", "")) * SIZES[unit] + float(cached.replace(",", "")) * SIZES[cached_unit]
    return float(bandwidth) * RATES[of_time] / read


def test_llama_3_8b_reads_all_weights_but_the_input_embedding() -> None:
    said = figures.sentence(Answer(Serving(PRESETS["llama-3-8b"], CARDS["h100-sxm"], 8192), 1))
    table = 128_256 * 4096 * 2  # bytes of the input embedding; the output layer has a matrix of its own
    weights = 8_030_261_248 * 2
    assert f"{(weights - table) / 2**30:.2f} GiB of the {weights / 2**30:.2f} GiB of weights" in said
    assert "only rows of the input embedding" in said
    tied = figures.sentence(Answer(Serving(PRESETS["llama-3.2-1b"], CARDS["h100-sxm"], 8192), 1))
    assert f"reads {1_235_814_400 * 2 / 2**30:.3f} GiB of weights and" in tied  # the output layer reads it all
    mixture = figures.sentence(Answer(Serving(PRESETS["deepseek-v3"], CARDS["b200"].times(16), 8192), 1))
    assert "only the selected experts" in mixture and "on all 16 together" in mixture


@pytest.mark.parametrize(
    "id", ["llama-3-8b", "mistral-7b-v0.3", "llama-3.2-1b", "gpt2-xl", "gpt-oss-20b", "gemma-2-9b"]
)
@pytest.mark.parametrize("card", ["h100-sxm", "a100-80gb", "mi325x"])
def test_dividing_what_is_printed_gives_the_rate_that_is_printed(id: str, card: str) -> None:
    serving = Serving(PRESETS[id], CARDS[card], 1024)
    said = figures.sentence(Answer(serving, 1))
    shown = re.search(r"at most about ([\d.,]+) tokens per second", said)[1]
    unit = 10.0 ** -len(shown.partition(".")[2])
    assert rate_from(said) == pytest.approx(float(shown.replace(",", "")), abs=unit)
    notes = (
        figures.speed(serving).more,
        figures.machines([CARDS[card]], serving).note + f" at {serving.machine.bandwidth / 1e12:g} TB/s",
    )
    for note in notes:
        assert rate_from(note) == pytest.approx(float(shown.replace(",", "")), abs=unit)


def test_a_step_that_arithmetic_limits_says_the_work_and_the_peak_that_give_its_rate() -> None:
    serving = Serving(PRESETS["llama-2-7b"], CARDS["h100-sxm"].times(8), 16)
    said = figures.sentence(Answer(serving, 4096))
    shown = float(re.search(r"at most about ([\d,.]+) tokens per second", said)[1].replace(",", ""))
    (work, peak) = numbers_where("limit: # TFLOP at # TFLOP/s", said)
    layers = 32 * (4 * 4096**2 + 3 * 4096 * 11_008)
    scores_and_sums = 4 * 32 * 4096 * 16  # FLOPs of 16 keys, in all layers
    by_hand = 4096 * (2 * (layers + 32_000 * 4096) + scores_and_sums)
    assert work == pytest.approx(by_hand / 1e12, rel=1e-3) and peak == 8 * 989
    assert shown == pytest.approx(4096 * peak / work, rel=2e-3)


@pytest.mark.parametrize(
    ("id", "embedding", "looked_up"),
    [
        ("gpt2-xl", "the position embedding", 1024 * 1600 * 2),
        ("gemma-3n-e4b", "the per-layer embeddings", 262_144 * 35 * 256 * 2),
        ("llama-3-8b", "the input embedding", 128_256 * 4096 * 2),
    ],
)
def test_of_an_embedding_that_is_no_output_layer_a_step_reads_only_rows(id: str, embedding: str, looked_up: int):
    serving = Serving(PRESETS[id], CARDS["h100-sxm"], 1024)
    said = read_text(serving, serving.step(1))
    read, weights = numbers_where("# GiB of the # GiB of weights", said)
    assert f"(only rows of {embedding})" in said
    assert weights - read == pytest.approx(looked_up / 2**30, abs=0.001 if weights < 10 else 0.006)


def test_several_accelerators_read_at_their_bandwidth_together() -> None:
    said = figures.sentence(Answer(Serving(PRESETS["llama-3.1-70b"], CARDS["h100-sxm"].times(8), 1024), 1))
    assert "on all 8 together, at 26.8 TB/s" in said  # 8 · 3.35
    assert numbers_where("at most about # tokens per second", said) == [
        pytest.approx(rate_from(said.replace(", on", "")), abs=1)
    ]


def test_the_lesson_on_the_cache_prints_the_bytes_of_its_rate() -> None:
    lesson = lessons.lesson("cache-cost")
    (step,) = (each for each in lesson.steps if "{decode_bound}" in each.text)
    text = placeholders.filled(step.text, View(step.settings()))
    shown = int(re.search(r"at most about ([\d,]+) tokens", text)[1].replace(",", ""))
    said = re.sub(r"TB per second", "TB/s", text)
    assert round(rate_from(said)) == shown
    weights, table = 7_248_023_552 * 2, 32_768 * 4096 * 2
    assert f"{(weights - table) / 2**30:.2f} GiB of the {weights / 2**30:.2f} GiB of weights" in said


def test_what_drivers_report_is_more_than_the_gb_of_the_data_sheet_would_be_as_powers_of_ten() -> None:
    reported = [card for card in CARDS.values() if card.reported_by]
    assert len(reported) >= 14
    for card in reported:
        assert card.data_sheet_gb * 10**9 < card.memory <= card.data_sheet_gb * 2**30, card.name
        assert numbers_in(memory_text(card))[1] == card.data_sheet_gb
    assert numbers_in(memory_text(CARDS["mi325x"]))[0] == 256 and numbers_in(memory_text(CARDS["mi300x"]))[0] == 192
    assert memory_text(CARDS["gaudi-3"]) == "119 GiB, the 128 GB of the data sheet read as 10⁹ bytes"
    assert memory_text(CARDS["h100-sxm"].times(8)).startswith("79.6 GiB each as its driver reports, sold as 80 GB")
