"""Every tab of every page with generated settings, run in this process, and all texts on it."""

from __future__ import annotations

import json
import random
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from itertools import combinations, cycle, product
from typing import NamedTuple

import pytest
from streamlit.testing.v1 import AppTest

from attnviz.compute import cost as compute_cost
from attnviz.compute import decode as compute_decode
from attnviz.compute import models as compute_models
from attnviz.cost import PRECISIONS, load_accelerators
from attnviz.decode import comparisons, roofline
from attnviz.decode.comparisons import spreads
from attnviz.equations import Equation
from attnviz.figures.drawing import Caption, Drawing
from attnviz.session.openable import MODELS
from attnviz.session.pages import ALL
from attnviz.session.pages.cost import OWN_MEMORY, PRESETS, SELECTED
from attnviz.session.settings import Settings
from attnviz.session.shared import DEFAULT_TEXT
from attnviz.ui import charts
from tests.legends import ambiguous
from tests.pages import COST, DECODE, FRONT, GROUPS, HEADS, LINEAR, ROPE, STEPS
from tests.pages import opened as opened_page
from tests.reading import plain

OPTIONS = {f.name: getattr(f.metadata["kind"], "options", ()) for f in fields(Settings)}
# Practice prints equations after an answer: tests/practice/test_drills.py evaluates them.
TABS = {  # those of Lessons are lists
    page.file: tuple(page.tabs) if page.path != "lessons" else () for page in ALL if page.path != "practice"
}

TEXTS = (
    DEFAULT_TEXT,
    "a",
    "A king",
    "小女孩 found a 🐈.",
    "The old man laughed. " * 12,
)  # 61 tokens: more than a window and its sinks, except 512
RUNS = (  # how a model runs
    {}, {"window": 7, "n_sinks": 4}, {"window": 1, "n_sinks": 16, "theta": 500.0},
    {"window": 512, "n_sinks": 1, "padding": 5}, {"causal": False}, {"causal": False, "window": 8, "rope": False},
)  # fmt: skip
OWN = (  # untrained models, with distinct sizes where possible
    {"n_layers": 3, "n_heads": 10, "n_kv_heads": 5, "d_model": 140, "qkv_bias": True},
    {"n_layers": 1, "n_heads": 1, "n_kv_heads": 1, "d_model": 8},
    {"n_layers": 2, "n_heads": 7, "n_kv_heads": 7, "d_model": 98},
    {"n_layers": 5, "n_heads": 6, "n_kv_heads": 1, "d_model": 132},
)
CELLS = ({}, {"query": 21, "key": 5}, {"query": 0, "key": 0}, {"query": 5, "key": 21}, {"query": 2, "key": 1})
PLACES = ({}, {"layer": 0, "head": 0}, {"layer": 2, "head": 5}, {"layer": 7, "head": 15})
CONTEXTS = (1, 128, 1000, 4097, 32_768, 2**20)
MACHINES = (("t4", 1), ("h100-sxm", 1), ("h100-sxm", 8), ("mi300x", 3), ("rtx-4090", 64))
ONCE_WRONG = (  # settings with which an equation or number was wrong
    (ROPE, {"model": "mla", "tab": "longer"}),
    (ROPE, {"model": "mla", "layer": 1, "head": 3, "query": 21, "key": 5}),
    (COST, {"preset": SELECTED, "window": 16, "n_sinks": 4, "context": 128}),
    (COST, {"preset": SELECTED, "model": "mla", "window": 16, "n_sinks": 4, "context": 128}),
    (GROUPS, {"tab": "work", "window": 8}),
    (ROPE, {"text": "One two three four"}),
    (COST, {"tab": "memory", "preset": "deepseek-v3", "machine": "t4"}),
    (COST, {"tab": "speed", "preset": "llama-3.1-405b", "machine": "t4", "context": 2**20}),
)

STORY = compute_models.LONG_TEXT[:1100]  # 320 tokens: 64 more than the training context


@dataclass(frozen=True)
class Visit:
    """A page and the settings to open it with."""

    page: str
    settings: Settings

    def __str__(self) -> str:
        link = {name: word if len(word) < 40 else word[:37] + "..." for name, word in self.settings.to_link().items()}
        return f"{self.page} {link}"


def visits(seed: int = 20) -> list[Visit]:
    """Return several hundred visits: on each page, pairwise combinations of its settings."""
    rng = random.Random(seed)
    found = [Visit(FRONT, Settings())]
    found += [Visit(page, Settings(**changes)) for page, changes in ONCE_WRONG]
    traced = {"model": MODELS, "run": RUNS, "text": TEXTS, "cell": CELLS, "place": PLACES}
    for page in (HEADS, GROUPS, ROPE, STEPS):
        found += [_traced(page, row, rng) for row in pairwise({"view": TABS[page], **traced}, rng)]
    rest = zip(cycle(RUNS), cycle(TEXTS), cycle((0.0, 0.8, 1.3)), cycle((0, 5)), strict=False)  # if the page has tabs
    for (view, model), (run, text, temperature, top_k) in zip(product(TABS[DECODE], MODELS), rest, strict=False):
        chosen = {
            "temperature": temperature,
            "top_k": top_k,
            "drafter": rng.choice(("mqa", "n-grams")),
            "bound": 16,  # fewer than the tokens that are read (`walking`), so that caches of limited size slide
            **rng.choice(OWN),
        }
        found.append(Visit(DECODE, Settings(tab=view, model=model, text=text, **run, **chosen).normalised()))
    costs = {
        "view": TABS[COST], "model": MODELS, "run": RUNS[:6], "context": CONTEXTS, "batch": (1, 3, 1024),
        "precision": tuple(PRECISIONS), "weights": tuple(PRECISIONS), "machine": MACHINES,
    }  # fmt: skip
    presets = cycle(id for pair in zip(PRESETS, cycle((SELECTED,)), strict=False) for id in pair)
    found += [_cost(row, next(presets), rng) for row in pairwise(costs, rng)]
    found += [_traced(LINEAR, row, rng) for row in pairwise({"view": TABS[LINEAR], **traced}, rng)]
    return found


def _traced(page: str, row: Mapping, rng: random.Random) -> Visit:
    heads = tuple(f"{rng.randrange(3)}.{rng.randrange(6)}" for _ in range(rng.randrange(4)))
    changes = {
        "tab": row["view"], "model": row["model"], "text": row["text"],
        **row["run"], **row["cell"], **row["place"], **rng.choice(OWN),
        "fraction": rng.choice((0.0, 0.35, 1.0)), "factor": rng.choice((1.0, 2.5, 8.0)),
        "colour": rng.choice(("root", "linear", "log")), "sink_aside": rng.random() < 0.5, "tiled": rng.random() < 0.5,
        "alike": rng.choice(("keys", "values")), "off_way": rng.choice(("zero", "mean")),
        "pinned": heads, "off": heads, "mask_window": rng.choice((1, 8, 40)), "mask_sinks": rng.choice((1, 16)),
        "mask_padding": rng.choice((1, 3, 30)), "merged": rng.random() < 0.5,
    }  # fmt: skip
    return Visit(page, Settings(**changes).normalised())


def _cost(row: Mapping, preset: str, rng: random.Random) -> Visit:
    machine, n_machines = row["machine"]
    machine = rng.choice((machine, OWN_MEMORY, *load_accelerators()))
    changes = {
        **{name: row[name] for name in ("model", "context", "batch", "precision", "weights")}, **row["run"],
        "tab": row["view"], **rng.choice(OWN), "preset": preset, "machine": machine, "n_machines": n_machines,
        "reserve": rng.choice((0, 10, 90)), "compare": tuple(rng.sample(PRESETS, rng.randrange(7))),
    }  # fmt: skip
    if row["view"] == "facts":
        from attnviz.facts import facts_of

        changes["facts"] = facts_of(rng.choice(PRESETS))
    return Visit(COST, Settings(**changes).normalised())


def pairwise(parameters: Mapping[str, Sequence], rng: random.Random, tries: int = 20) -> Iterator[dict]:
    """Return pairwise test rows: every combination of two parameters' values occurs in some row."""
    names = list(parameters)
    open_pairs = {
        (a, b, i, j)
        for a, b in combinations(range(len(names)), 2)
        for i, j in product(range(len(parameters[names[a]])), range(len(parameters[names[b]])))
    }
    while open_pairs:
        wanted = min(open_pairs)
        rows = [_row(parameters, wanted, rng) for _ in range(tries)]
        row, covered = max(((row, _pairs(row) & open_pairs) for row in rows), key=lambda found: len(found[1]))
        open_pairs -= covered
        yield {name: parameters[name][i] for name, i in zip(names, row, strict=True)}


def _row(parameters: Mapping[str, Sequence], wanted: tuple[int, int, int, int], rng: random.Random) -> list[int]:
    row = [rng.randrange(len(values)) for values in parameters.values()]
    a, b, row[wanted[0]], row[wanted[1]] = wanted
    return row


def _pairs(row: list[int]) -> set[tuple[int, int, int, int]]:
    return {(a, b, row[a], row[b]) for a, b in combinations(range(len(row)), 2)}


LONGEST_NOTE = 300  # characters; about two sentences and a warning
ESCAPES = re.compile(r"\\([!-/:-@\[-`{-~])|\*\*")


def length(note: str) -> int:
    """Return the characters of a note that are seen: without markdown's escapes and bold."""
    return len(ESCAPES.sub(r"\1", note))


class Said(NamedTuple):  # several times faster to create than a dataclass: a page has thousands
    """A text on a page; `tex` marks LaTeX."""

    text: str
    tex: bool = False


NESTED = {str, list, dict}


@dataclass
class Page:
    """Results of a visit: all texts on the page, and all drawings and captions."""

    said: list[Said]
    captions: list[tuple[list[str], Caption | Drawing]]  # with the functions under attnviz.figures that made them
    ambiguous: Sequence[str] = ()  # letters that a legend gives two values


def decode_little(patch: pytest.MonkeyPatch, n_read: int) -> None:
    """Let the page Decode compute fewer tokens and time fewer runs, for tests of what is on it, not of what it says.

    n_read: of the text that seven caches read, one token at a time; more than the cache of limited size holds.
    """
    patch.setattr(compute_decode, "N_READ", n_read)
    patch.setattr(compute_decode, "N_SHARED", 5)  # each of the continuations is generated twice
    patch.setattr(compute_decode, "N_SPECULATED", 7)  # each equation is of one pass, or of their count
    patch.setattr(compute_decode, "AHEAD", 5)
    for module in (comparisons, roofline):
        patch.setattr(module, "spreads", lambda *runs, n=9: spreads(*runs, n=2))  # any quartiles will do


@contextmanager
def walking() -> Iterator:
    """Return a function that opens a visit's page with all its expanders open."""
    made: list[tuple[list[str], Caption | Drawing]] = []
    twice: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Equation, "legend", _checking(Equation.legend, twice))
        for kind in (Caption, Drawing):
            patch.setattr(kind, "__init__", _keeping(kind.__init__, made))
        patch.setattr(charts, "is_open", lambda expander: True)
        decode_little(patch, n_read=21)
        patch.setattr(compute_models, "LONG_TEXT", STORY)  # every method of context extension reads it
        patch.setattr(charts, "_numbers", lambda drawing, key: None)  # tables take most of the time

        def opened(visit: Visit, session: dict[str, object] | None = None) -> Page:
            for kept in vars(compute_cost).values():  # or drawings of earlier visits would not be recorded
                getattr(kept, "cache_clear", lambda: None)()
            made.clear()
            twice.clear()
            app = opened_page(visit.page, session, **visit.settings.to_link())
            return Page(list(_said(app)), list(made), list(twice))

        yield opened


def _checking(legend, twice: list[str]):
    def legend_and_check(self):
        together = sys._getframe(1).f_locals.get("equations", (self,))  # those that share a legend: figures/phrases.py
        twice.extend(ambiguous(*together))
        return legend(self)

    return legend_and_check


def _keeping(create, made: list):
    def create_and_keep(self, *args: object, **kwargs: object) -> None:
        create(self, *args, **kwargs)
        made.append((_makers(), self))

    return create_and_keep


def _makers() -> list[str]:
    """Return the functions under attnviz.figures that are running, the innermost first, as module.name."""
    frame, found = sys._getframe(2), []
    while frame:
        module = frame.f_globals.get("__name__", "")
        if module.startswith("attnviz.figures."):
            found.append(f"{module}.{frame.f_code.co_name}")
        frame = frame.f_back
    return found


def _said(app: AppTest) -> Iterator[Said]:
    for node in app._tree:
        proto = getattr(node, "proto", None)
        if proto is None:
            continue
        if node.type == "plotly_chart":
            yield Said(proto.alt)
            yield from _strings(json.loads(proto.spec))
        elif node.type == "bidi_component":
            yield from _strings(_sent(proto.bytes))
        elif node.type == "latex":
            yield Said(proto.body.strip("$\n"), tex=True)
        elif node.type not in ("page_link", "html", "code"):  # whose equals signs belong to addresses, CSS and Python
            yield from map(Said, map(plain, _texts(proto)))


def _sent(data: bytes) -> object:
    """Return the JSON in a component's message: the whole message, or the header after its length."""
    try:
        return json.loads(data or b"{}")
    except ValueError:
        return json.loads(data[4 : 4 + int.from_bytes(data[:4], "little")])


def _texts(message) -> Iterator[str]:
    """Return all strings in a protobuf message."""
    for field, value in message.ListFields():
        values = value if field.is_repeated else [value]
        for each in values:
            if isinstance(each, str):
                yield each
            elif hasattr(each, "ListFields"):
                yield from _texts(each)


def _strings(part: object) -> list[Said]:
    """Return all strings in a JSON value, except packed numbers."""
    found: list[Said] = []
    _add_strings(part, found)
    return found


def _add_strings(part: object, found: list[Said]) -> None:
    """Add them to a list: a generator in each of a million parts takes six times as long."""
    if type(part) is str:
        found.append(Said(plain(part)))
    elif type(part) is dict:
        for name, each in part.items():
            if type(each) in NESTED and name not in ("bdata", "source"):  # nor source code
                _add_strings(each, found)
    elif type(part) is list:
        for each in part:
            if type(each) in NESTED:
                _add_strings(each, found)
