"""The answer on top of the Cost page: its numbers are those of the cost formulas, its bar is to scale."""

import itertools
import re
from dataclasses import replace

import pytest

from attnviz.cost import Answer, Serving, load_accelerators, load_presets, of_accelerators, of_memory, of_models
from attnviz.cost.hf_config import read_hf_config
from attnviz.cost.units import bytes_text
from attnviz.figures import cost as figures

PRESETS, CARDS = load_presets(), load_accelerators()
ASKED = [  # it fits; it does not; the weights do not; the reserve does not; several accelerators; a typed memory
    Answer(Serving(PRESETS["llama-3-8b"], CARDS["h100-sxm"], 8_192), 3),
    Answer(Serving(PRESETS["llama-3-8b"], CARDS["rtx-4090"], 20_000), 10),
    Answer(Serving(PRESETS["llama-3-70b"], CARDS["rtx-4090"], 8_192), 1),
    Answer(Serving(PRESETS["llama-3-8b"], CARDS["t4"], 1_000), 1),
    Answer(Serving(PRESETS["deepseek-v3"], CARDS["h200-sxm"].times(16), 131_072, "fp8", "fp8"), 700),
    Answer(Serving(PRESETS["gemma-3-27b"], of_memory(64, 900), 4_096, "int4", reserve=0.0), 2),
    Answer(Serving(PRESETS["llama-3-8b"], CARDS["rtx-4090"], 131_072), 1),
    Answer(Serving(read_hf_config({"model_type": "qwen3_next"}).model, CARDS["h200-sxm"].times(2), 8_192), 5),
]


@pytest.mark.parametrize("answer", ASKED, ids=range(len(ASKED)))
def test_the_sentence_says_what_is_needed_and_whether_it_fits(answer):
    said = figures.sentence(answer)
    for size in (
        answer.needed,
        answer.plan.weights,
        answer.cached - answer.state,
        abs(answer.spare),
        answer.plan.memory,
    ):
        assert bytes_text(size) in said
    assert ("**It fits**" in said) == answer.fits == ("Decoding" in said)
    if answer.fits:
        assert f"at most {answer.most:,} such sequence" in said
    else:
        number = [int(n.replace(",", "")) for n in re.findall(r"([\d,]+) × [^,;.]+ would hold it", said)]
        assert number == [answer.smallest_number] * (answer.smallest_number is not None)
        assert number or "no number of accelerators" in said


@pytest.mark.parametrize("answer", ASKED, ids=range(len(ASKED)))
def test_the_bar_is_to_scale_and_its_pieces_are_what_is_needed(answer):
    panel, plan = figures.panel(answer), answer.plan
    whole = max(plan.memory, answer.needed + plan.reserve)
    by_colour = {}
    for _, _, width, height, colour, _, _ in panel["rects"]:
        if height == 1:
            by_colour[colour] = by_colour.get(colour, 0) + width * whole
    sizes = [
        n for n in (plan.weights, answer.state, answer.cached - answer.state, plan.reserve, max(answer.spare, 0)) if n
    ]
    assert list(by_colour.values()) == pytest.approx(sizes, rel=1e-9)
    edges = [(x, width) for x, _, width, height, *_ in panel["rects"] if height == 1]
    for (x, width), (following, _) in itertools.pairwise(edges):
        assert following == pytest.approx(x + width)
    marks = [x + width / 2 for x, _, width, height, *_ in panel["rects"] if height > 1]
    assert marks == pytest.approx([] if answer.fits else [plan.memory / whole])


def test_the_labels_of_the_bar_do_not_overlap():
    for answer in (*ASKED, *of_models(PRESETS.values(), ASKED[1]), *of_accelerators(CARDS.values(), ASKED[0])):
        places = sorted(x for x, *_ in figures.panel(answer)["labels"])
        assert all(b - a >= 0.15 for a, b in itertools.pairwise(places))


def test_the_lists_have_a_row_for_each_answer_with_its_numbers():
    for answers, columns in (
        (models := of_models(PRESETS.values(), ASKED[0]), figures.models_list(models)),
        (cards := of_accelerators(CARDS.values(), ASKED[0]), figures.accelerators_list(cards)),
    ):
        assert columns["needs, GiB"] == [round(a.needed / 2**30, 2) for a in answers]
        assert columns["sequences that fit"] == [a.most for a in answers]
        assert [mark == "✓" for mark in columns["fits"]] == [a.fits for a in answers]
        rates = [a.tokens_per_second if a.fits else None for a in answers]
        assert columns["tokens/s at most"] == [r if r is None else pytest.approx(r, rel=5e-3) for r in rates]
        assert None in rates and any(rates)
        assert list(columns)[1:4] == ["fits", "tokens/s at most", "needs, GiB"]  # a phone shows two
        assert {len(column) for column in columns.values()} == {len(answers)}


def test_the_findings_count_what_fits():
    for asked in ASKED[:4]:
        models = of_models(PRESETS.values(), asked)
        said = figures.models_finding(models)
        n = sum(a.fits for a in models)
        assert (f"{n} of {len(models)} models fit" in said) if n else ("none of" in said)
        assert f"weights in {asked.serving.weights}" in said
        cards = of_accelerators(CARDS.values(), asked)
        n = sum(a.fits for a in cards)
        assert figures.accelerators_finding(cards).startswith(f"{n} of {len(cards)}" if n else "None of")
        assert f"weights in {asked.serving.weights}" in figures.accelerators_finding(cards)


def test_that_engines_refuse_the_division_stands_beside_the_verdict_and_in_the_lists():
    """32 query heads on 3 and on 2; with data-parallel attention no head is divided."""
    three, two = (Serving(PRESETS["llama-3-8b"], CARDS["l40s"].times(n), 8_192) for n in (3, 2))
    said = figures.sentence(Answer(three, 10))
    assert (
        "**It fits** in memory, but **32 query heads cannot be divided evenly by 3, which vLLM refuses** (3 ×" in said
    )
    assert said.count("vLLM refuses") == 1 and said.count("accelerator that holds most") == 1
    for serving in (two, replace(three, parallel="data")):
        assert "**It fits** (" in figures.sentence(Answer(serving, 10))
    columns = figures.accelerators_list(of_accelerators(CARDS.values(), Answer(three, 10)))
    assert set(columns["heads divide evenly"]) == {"–"}
    assert "heads divide evenly" not in figures.accelerators_list([Answer(two, 10)])


@pytest.mark.parametrize("id, n", [("l40s", 1), ("l40s", 3), ("t4", 1)])
def test_the_number_of_accelerators_names_them(id, n):
    answer = Answer(Serving(PRESETS["llama-3-70b"], CARDS[id].times(n), 8_192), 10)
    assert f" {answer.smallest_number} × {CARDS[id].name} would hold it" in figures.sentence(answer)
    typed = Answer(Serving(PRESETS["llama-3-8b"], of_memory(12), 8_192), 1)
    assert f" {typed.smallest_number} × 12 GiB would hold it" in figures.sentence(typed)


def test_what_has_no_room_for_a_label_stands_below_the_bar():
    for answer in (*ASKED, *of_accelerators(CARDS.values(), ASKED[0])):
        panel, plan = figures.panel(answer), answer.plan
        labelled = {name for *_, name, _ in panel["labels"]}
        sizes = {
            "weights": plan.weights, "state": answer.state, "cache": answer.cached - answer.state,
            "reserve": plan.reserve, "left over": max(answer.spare, 0),
            "memory": 0 if answer.fits else plan.memory,
        }  # fmt: skip
        rest = [f"{name} {bytes_text(n)}" for name, n in sizes.items() if n and name not in labelled]
        assert panel["rest"] == (f"Also in the bar: {' · '.join(rest)}." if rest else "")
