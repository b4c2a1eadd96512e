"""Printed equations and numbers are right on every tab of every page.

Of the settings that tests/walk.py generates, those are opened that together have every trait on every tab. Every
equation on the page is evaluated by tests/arithmetic.py, and every number in a drawing's title is searched for in its
table, formula and alt text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from unicodedata import normalize

import numpy as np
import pytest

from attnviz.cost import Accelerator, load_presets
from attnviz.equations import Equation
from attnviz.figures.chart import Chart
from attnviz.figures.drawing import Caption, Drawing
from attnviz.mechanisms import letter
from attnviz.session.settings import Settings
from tests.arithmetic import NOTHING, check
from tests.walk import (
    COST,
    DECODE,
    GROUPS,
    HEADS,
    LINEAR,
    LONGEST_NOTE,
    ONCE_WRONG,
    ROPE,
    STEPS,
    TABS,
    Page,
    Said,
    Visit,
    length,
    visits,
    walking,
)

pytestmark = pytest.mark.slow

KINDS = {"trained", "mla", "own"}  # of models: those with fewer KV heads run through the same code
ON_EACH_TAB = {*KINDS, "one token", "several tokens", "causal", "not causal", "window", "padding"}


def traits(visit: Visit) -> set[str]:
    """Return what of a visit's settings each tab must be seen with."""
    s = visit.settings
    found = {s.model if s.model in KINDS else "trained", "one token" if s.text == "a" else "several tokens"}
    found |= {
        "causal" if s.causal else "not causal",
        *["window"] * (0 < s.window < 100),
        *["padding"] * bool(s.padding),
    }
    return found


# Tabs with branches that depend on several settings at once. With all of their visits, `fewest` runs the lines of
# attnviz that all visits run.
WHOLE = {
    (HEADS, "does"), (HEADS, "off"), (HEADS, "average"), (GROUPS, "maps"), (DECODE, "with"), (DECODE, "speculate"),
    (COST, "memory"),
}  # fmt: skip


def seen(visit: Visit) -> set[tuple]:
    """Return a visit's traits with its tab, and the values that its page must be seen with at least once."""
    s = visit.settings
    values = {"run": (s.window, s.n_sinks, s.padding, s.causal, s.rope, s.theta)}
    names = ["model", "text", "layer", "query", "fraction", "factor", "colour", "off_way", "temperature", "top_k"]
    names += ["drafter", *(["context", "batch", "precision", "weights", "machine"] if visit.page == COST else [])]
    values |= {name: getattr(s, name) for name in names}
    values |= {"own": s.n_heads} if s.model == "own" else {}
    on_tab = traits(visit)
    on_tab |= {"mha"} if s.model == "mha" and visit.page == GROUPS else set()  # it shares nothing
    if visit.page == COST and s.preset in PRESETS:
        preset = PRESETS[s.preset]
        on_tab |= {
            (preset.attention, bool(preset.sliding_window)),
            ("KV heads", min(preset.n_kv_heads, 9)),
        }
    return {(visit.page, s.tab, trait) for trait in on_tab} | {(visit.page, *each) for each in values.items()}


def fewest(visits: list[Visit]) -> list[Visit]:
    """Return some of the visits, which have seen all that the whole has seen."""
    once_wrong = [Visit(page, Settings(**changes)) for page, changes in ONCE_WRONG]
    news = {visit: seen(visit) for visit in visits}
    chosen = [visit for visit in visits if visit in once_wrong or not TABS[visit.page]]
    chosen += [visit for visit in visits if (visit.page, visit.settings.tab) in WHOLE and visit not in chosen]
    left = set().union(*news.values()).difference(*(news[visit] for visit in chosen))
    while left:
        chosen.append(max(news, key=lambda visit: len(news[visit] & left)))
        left -= news[chosen[-1]]
    return chosen


PRESETS = load_presets()
VISITS = fewest(visits())
LONGER = {"map_caption", "head_map"}  # if rows are masked, the scale is logarithmic and a token is excluded from it
ARRAYS = {(LINEAR, tab) for tab in ("state", "remembers", "indexer", "sinks", "shared")}  # drawings of arrays and sizes
WALKS = {(STEPS, "walk"), (STEPS, "step")}  # drawn by a component: test_step_captions.py, test_decode_step.py


@dataclass
class Found:
    """Results of a walk: problems with their visits, and how many equations were evaluated per page."""

    wrong: dict[str, str] = field(default_factory=dict)
    unequal: dict[str, str] = field(default_factory=dict)
    unnamed: dict[str, str] = field(default_factory=dict)
    long: dict[str, str] = field(default_factory=dict)
    ambiguous: dict[str, str] = field(default_factory=dict)
    with_letters: Counter = field(default_factory=Counter)
    evaluated: Counter = field(default_factory=Counter)
    compared: Counter = field(default_factory=Counter)


def found_on(visits: list[Visit]) -> Found:
    """Evaluate each equation and compare each title."""
    found = Found()
    with walking() as opened:
        for visit in visits:
            look_at(visit, opened(visit), found)
    return found


def look_at(visit: Visit, page: Page, found: Found) -> None:
    view = visit.page, visit.settings.tab
    found.ambiguous |= {problem: str(visit) for problem in page.ambiguous}
    for said in page.said:
        if "=" not in said.text and "≈" not in said.text:
            continue
        problems = evaluated(said)
        if problems != [NOTHING]:
            found.evaluated[view] += 1
            found.wrong |= {problem: str(visit) for problem in problems}
    for said, beside in zip(page.said, [*page.said[1:], Said("")], strict=True):
        if said.tex and letters(said.text):
            found.with_letters[view] += 1
            missing = letters(said.text) - named(beside.text)
            found.unnamed |= {f"{letter} in {said.text}, beside it: {beside.text}": str(visit) for letter in missing}
    everything = "\n".join(said.text for said in page.said)
    for makers, caption in page.captions:
        maker = next(name for each in makers if (name := each.rpartition(".")[2]) != "drawn")
        if length(caption.note) > LONGEST_NOTE and maker not in LONGER:
            found.long[f"{maker}: {length(caption.note)} characters: {caption.note}"] = str(visit)
        line = getattr(caption, "line", "")
        if line and line in everything:  # plain text in place of TeX, for small screens
            missing = letters(caption.formula) - named(caption.legend if caption.legend in everything else "")
            found.unnamed |= {f"{letter} in {line}, {maker}": str(visit) for letter in missing}
        numbers = list(quantities(caption.title))
        found.compared[maker] += len(numbers)
        if numbers and maker not in SHOWN_ONCE:
            beside = shown_beside(caption)
            found.unequal |= {f"{n.text} in “{caption.title}”": str(visit) for n in numbers if not n.is_among(beside)}


@cache
def evaluated(said: Said) -> list[str]:
    """Return the errors in a text's equations; cached, since many texts are on many pages."""
    return check(said.text, said.tex or None)


def report(problems: dict[str, str]) -> str:
    return "\n".join(f"{visit}\n    {problem}" for problem, visit in problems.items())


def test_every_view_is_visited_with_every_kind_of_model_run_and_text():
    assert len(VISITS) > 150
    for page, tabs in TABS.items():
        found = {(v.settings.tab, trait) for v in VISITS if v.page == page for trait in traits(v)}
        wanted = ON_EACH_TAB - ({"one token"} if page == COST else set())  # which reads no text
        assert found >= {(tab, trait) for tab in tabs for trait in wanted}


LEAST = {  # lower bounds of equations evaluated and numbers compared per page, far below the counts, so that a check
    # that finds nothing is noticed, and not a tab that takes some visits from the others
    HEADS: (50, 4), GROUPS: (75, 100), ROPE: (200, 2), STEPS: (250, 2), DECODE: (50, 5), COST: (60, 60), LINEAR: (8, 8),
}  # fmt: skip


@pytest.mark.parametrize("path", [path for path, tabs in TABS.items() if tabs])
def test_what_every_view_prints_is_right(path):
    """Equations are right, their letters are in the legend, and quantities in titles equal those in the table."""
    visits = [visit for visit in VISITS if visit.page == path]
    found = found_on(visits)
    assert found.wrong == {}, report(found.wrong)
    missing = {(path, tab) for tab in TABS[path]} - set(found.evaluated) - WALKS - ARRAYS
    assert not missing, f"no equation was evaluated on {missing}: print one there, or add the tab to WALKS"
    least = LEAST.get(path, (1, 1))
    assert found.evaluated.total() >= least[0], "fewer equations were found on this page: does the walk still see them?"
    assert found.unnamed == {}, report(found.unnamed)
    assert found.ambiguous == {}, report(found.ambiguous)
    assert {page for page, _ in found.with_letters} == {path}
    assert found.long == {}, f"move details of a note to the drawing's `more`:\n{report(found.long)}"
    assert found.compared.total() >= least[1], "fewer numbers of titles were compared on this page"
    assert found.unequal == {}, report(found.unequal)


def test_what_pages_without_views_print_is_right():
    found = found_on([visit for visit in VISITS if not TABS[visit.page]])
    assert (found.wrong, found.unnamed, found.unequal, found.long) == ({}, {}, {}, {})


def test_a_wrong_equation_is_noticed(monkeypatch):
    right, value = look_at_one(COST), Equation.value.fget
    monkeypatch.setattr(Equation, "value", property(lambda self: value(self) * 1.01 + 1))
    wrong = look_at_one(COST)
    assert right.wrong == {} and len(wrong.wrong) >= 1 and right.evaluated == wrong.evaluated


def test_a_long_note_is_noticed():
    found, drawing = Found(), Drawing(Chart(), "", "a**b**" * (LONGEST_NOTE // 2) + "\\$", "", {})
    captions = [(["long"], drawing), (["short"], replace(drawing, note=drawing.note[:-2]))]
    look_at(VISITS[0], Page([Said("")], captions), found)
    assert [problem.partition(": ")[0] for problem in found.long] == ["long"] and str(VISITS[0]) in report(found.long)


def test_a_letter_without_a_name_is_noticed(monkeypatch):
    monkeypatch.setattr(Equation, "legend", lambda self: {})
    found = look_at_one("pages/3_rope.py")
    assert {"θ", "m", "q", "k", "r", "φ"} <= {problem.split()[0] for problem in found.unnamed}


def test_a_letter_with_two_values_is_noticed(monkeypatch):
    monkeypatch.setattr(Accelerator, "rate", lambda self: letter("Π", self.bandwidth, scientific=True))
    found = found_on([Visit(COST, Settings(tab="speed"))])
    assert {problem.split()[0] for problem in found.ambiguous} == {"Π"}


GREEK = {"theta": "θ", "lambda": "λ", "alpha": "α", "beta": "β", "varphi": "φ", "ell": "ℓ"}
CONSTANTS = {"e", "π"}
NO_LETTERS = re.compile(  # words, layouts, subscripts, and the imaginary unit in an exponent
    r"\\text\{[^{}]*\}|\\(?:begin|end)\{\w+\}|\\(?:mathrm|operatorname)\{[^{}]*\}|(?<=e\^\{)\\,i\b"
)


def letters(tex: str) -> set[str]:
    """Return the letters of a formula, each without its index."""
    indexed = re.sub(r"_(?:\{[^{}]*\}|\w)", " ", NO_LETTERS.sub(" ", tex))
    found = re.findall(r"\\([A-Za-z]+)|([A-Za-z])", indexed)
    return {GREEK.get(command, "") if command else letter for command, letter in found} - CONSTANTS - {""}


def named(legend: str) -> set[str]:
    """Return the letters that a legend defines: "L = 4: layers; D = 24: head_dim."."""
    symbols = (re.split(r" = |: ", entry)[0] for entry in normalize("NFD", legend).split("; "))
    return {letter for symbol in symbols for letter in re.findall(r"(?<![A-Za-z])[A-Za-zα-ωℓ](?![A-Za-z])", symbol)}


def test_letters_are_found_in_a_formula_and_in_a_legend():
    assert letters(r"\varphi = m\cdot \theta_{3} = \tfrac{e^{\,i\,d}}{\max(W_q, \text{no})} \text{ rad}") == {
        "φ", "m", "θ", "d", "W",
    }  # fmt: skip
    assert named("φ = 4.5 rad: angle of a; θ₃ = 0.1: b; q′₁₅ = 2: c; |s| ≤ B₁₆ = 3: d; D: e.") == {*"φθqsBD"}


def look_at_one(path: str) -> Found:
    """Check a page with its default settings."""
    return found_on([Visit(path, Settings())])


# ---- one quantity shown twice

SHOWN_ONCE = {  # titles with a number that follows from several columns, or is not repeated in the table
    "model_parameters",  # the share of all attention's parts
    "filling",  # what is missing of the memory
    "roof",  # the machine's own ridge
}
SCALES = {"%": (0.01,)} | {
    f"{letter}{end}": (base**power,)
    for letters, end, base in (("KMGTPE", "iB", 1024), ("kMGTPE", "B", 1000))
    for power, letter in enumerate(letters, 1)
}
UNITS = "|".join(
    [*SCALES, "B", "ms", "bits", "nats", "parameters", "numbers", "FLOPs", "times", "tokens (?:per|a) second"]
)
NUMBER = re.compile(rf"(?<![\w.-])([-−+]?\d[\d,]*(?:\.\d+)?(?:e[-+]\d+)?)(?: ?(%)| ({UNITS})(?!\w))?")


@dataclass(frozen=True)
class Quantity:
    """A printed number with a unit, and its rounding interval."""

    text: str
    value: float
    half: float  # of the last digit that is printed
    scales: tuple[float, ...]

    def is_among(self, numbers: np.ndarray) -> bool:
        """Check whether one of the numbers rounds to this one; its sign may be given in words."""
        return any(
            (np.abs(numbers - abs(self.value) * s) <= (self.half + 1e-9 * abs(self.value)) * s).any()
            for s in self.scales
        )


def quantities(text: str, unit_needed: bool = True) -> Iterator[Quantity]:
    plain = re.sub(r"“[^”]*”", "", re.sub(r"\\([!-/:-@\[-`{-~])|[{}]", r"\1", text))
    for match in NUMBER.finditer(plain):
        written, unit = match[1].replace(",", "").replace("−", "-"), match[2] or match[3]
        if unit or not unit_needed:
            mantissa, _, exponent = written.partition("e")
            digits = len(mantissa.partition(".")[2]) - int(exponent or 0)
            yield Quantity(match[0], float(written), 0.5 * 10.0**-digits, (1.0, *SCALES.get(unit, ())))


def shown_beside(caption: Caption | Drawing) -> np.ndarray:
    """Return the numbers in a drawing's table, formula and alt text, and the ratio, difference, mean and sum of those
    in a column."""
    texts = [caption.formula.replace("{,}", ","), caption.alt.replace(caption.title, ""), getattr(caption, "line", "")]
    found = [np.array([q.value * s for text in texts for q in quantities(text, unit_needed=False) for s in q.scales])]
    for values in caption.table.values():
        column = np.array([v for v in values if isinstance(v, int | float)], float)
        column = column[np.isfinite(column)][:200]
        if len(column):
            with np.errstate(divide="ignore", invalid="ignore"):
                found += [np.divide.outer(column, column).ravel(), np.subtract.outer(column, column).ravel()]
            found += [column, [column.mean(), column.sum()]]
    numbers = np.abs(np.concatenate(found))
    return numbers[np.isfinite(numbers)]


def test_a_title_that_says_another_number_is_noticed():
    caption = Caption("MHA caches 30,720 B", "", "MHA caches 30,720 B. MQA 3,840 B.", table={"bytes": [24_576, 3_840]})
    (number,) = quantities(caption.title)
    assert not number.is_among(shown_beside(caption))
    assert Quantity("24 KiB", 24, 0.5, (1, 1024)).is_among(shown_beside(caption))
