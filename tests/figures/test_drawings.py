"""Every figure states its finding, has a table of its numbers, and escapes tokens.

The pages run on a text that is all markup, and every drawing is recorded when it is made.
"""

import importlib
import inspect
import pkgutil
import re
from collections import defaultdict
from collections.abc import Iterator

import numpy as np
import pytest

from attnviz import figures
from attnviz.config import ModelConfig
from attnviz.experiments.measurement import Timing
from attnviz.figures import cost, recorded_groups
from attnviz.figures.drawing import Drawing
from attnviz.session.pages import PAGES
from attnviz.session.settings import Settings
from attnviz.ui.pages.mistakes import ANSWERS, SKIPPED
from tests.pages import MISTAKES, in_the_open
from tests.walk import LONGEST_NOTE, Visit, length, walking

pytestmark = pytest.mark.slow

TEXT = (  # 96 tokens
    "<b>a</b> [b](javascript:c) ![d](e) $f$ `g` **h** _i_ ~~j~~ :red[k] :material/l: <img src=x onerror=m> | # > & \\ "
)
REVEALED = ("mask_after_softmax", "cache_sized_with_n_heads")
SESSION = {ANSWERS: dict.fromkeys(REVEALED, SKIPPED)}  # so that their results are drawn
SETTINGS = {  # that a drawing needs, by the path of its page, and its tab or "" for all
    **dict.fromkeys([("heads", ""), ("rope", ""), ("steps", "")], {"query": 24}),  # a "["
    ("rope", "latent"): {"model": "mla"},
    ("decode", ""): {"bound": 16},
    ("linear", "indexer"): {"model": "sparse"},
    ("linear", "sinks"): {"model": "sinks"},
    ("cost", "published"): {"preset": "selected"},
    ("cost", "facts"): {"facts": '{"model_type": "qwen3_next"}'},
    ("cost", "holders"): {"n_machines": 16},
    ("cost", "speed"): {"preset": "deepseek-v3"},
}
NOTHING_NEW = {  # tabs whose figures other tabs draw too, or that have none
    "heads": ("side", "family", "masks", "cross", "models"), "query_groups": ("equal",), "rope": ("without",),
    "steps": ("walk", "step"), "cost": ("models", "cards", "measured"),
}  # fmt: skip


def settings_of(path: str, tab: str) -> dict[str, object]:
    return SETTINGS.get((path, tab), {})


PLACES = [  # Practice draws its maps itself
    (page, tab)
    for page in PAGES.values()
    for tab in page.tabs
    if page.path != "practice" and tab not in NOTHING_NEW.get(page.path, ())
]
VISITS = [
    Visit(page.file, Settings(text=TEXT, tab=tab, **(settings_of(page.path, "") | settings_of(page.path, tab))))
    for page, tab in PLACES
] + [Visit(MISTAKES, Settings(text=TEXT, mistake=name, hunt=False)) for name in REVEALED]


def functions() -> set[str]:
    """Return every public function under attnviz.figures that returns a drawing, as module.name."""
    found = set()
    for info in pkgutil.walk_packages(figures.__path__, "attnviz.figures."):
        for name, member in inspect.getmembers(importlib.import_module(info.name), inspect.isfunction):
            public = member.__module__ == info.name and not name.startswith("_")
            if public and inspect.signature(member).return_annotation == "Drawing":
                found.add(f"{info.name}.{name}")
    return found


@pytest.fixture(scope="module")
def drawn() -> dict[str, list[Drawing]]:
    """Return every drawing that the pages make of this text, by the functions that drew it."""
    found = defaultdict(list)
    with walking() as opened:
        for visit in VISITS:
            for makers, drawing in opened(visit, SESSION).captions:
                for name in {*makers} if isinstance(drawing, Drawing) else ():
                    found[name].append(drawing)
    model = ModelConfig(n_layers=2, d_model=32, n_heads=4, n_kv_heads=2)
    timings = [Timing(model, n, (0.001, 0.002, 0.003), 4096) for n in (128, 256)]
    found[f"{cost.measured.__module__}.measured"].append(cost.measured(timings, 1))  # the page waits for a click
    cosines = np.array([[1, -0.37, 0.21], [-0.37, 1, 0.05], [0.21, 0.05, 1]])  # of a saved run, which is a file
    drawing = recorded_groups.similarity(cosines, "keys", 2, "KV head")
    found[f"{recorded_groups.similarity.__module__}.similarity"].append(drawing)
    return found


def test_every_figure_is_drawn_by_some_page(drawn):
    assert len(functions()) > 30
    missing = functions() - set(drawn)
    assert not missing, f"no page draws {missing}, or it needs settings that SETTINGS does not have"


def test_every_figure_states_its_finding_in_words_with_a_number(drawn):
    for name in functions():
        for drawing in drawn[name]:
            assert len(drawing.alt) > 40 and re.search(r"\d", drawing.alt), f"{name}: {drawing.alt}"
            assert drawing.title and drawing.note, name


def test_no_note_is_long(drawn):
    """Also of what no page of the walk in tests/test_printed_equations.py draws: measurements and mistakes."""
    for name in functions():
        for drawing in drawn[name]:
            assert length(drawing.note) <= LONGEST_NOTE, f"{name}: move details to `more`: {drawing.note}"


def test_sources_and_tolerances_are_behind_the_question_mark(drawn):
    for name in functions():
        for drawing in drawn[name]:
            assert in_the_open(drawing.note) + in_the_open(drawing.below) == [], name


def numbers(text: str) -> list[float]:
    return [float(n.replace(",", "")) for n in re.findall(r"\d(?:[\d,.]*\d)?", text)]


def test_who_hears_a_figure_is_told_the_numbers_of_its_title(drawn):
    for name in functions() - {"attnviz.figures.heads.head_map"}:  # its title names the KV head
        for drawing in drawn[name]:
            stated = numbers(drawing.alt)
            missing = [n for n in numbers(drawing.title) if not any(abs(n - m) < 0.005 for m in stated)]
            assert missing == [], f"{name}: {drawing.title} / {drawing.alt}"


def test_every_figure_has_its_numbers_beside_it(drawn):
    for name in functions():
        for drawing in drawn[name]:
            lengths = {len(column) for column in drawing.table.values()}
            assert len(drawing.table) > 1 and len(lengths) == 1 and lengths != {0}, name
            numbers = [v for column in drawing.table.values() for v in column if isinstance(v, int | float)]
            assert numbers, name


def test_logarithmic_axes_say_where_their_labels_are(drawn):
    """By default plotly adds 2 and 5 between powers of ten, at three quarters of the size of the other labels."""
    logarithmic = 0
    for name in functions():
        for drawing in drawn[name]:
            for axis in (part for key, part in drawing.chart.sent().to_dict()["layout"].items() if "axis" in key):
                if axis.get("type") == "log" and axis.get("showticklabels", True):
                    logarithmic += 1
                    assert isinstance(axis.get("dtick"), int) or len(axis.get("tickvals", ())) > 1, (name, axis)
    assert logarithmic > 10


def lists(part: object) -> Iterator[list]:
    """Yield every list in a figure's JSON."""
    if isinstance(part, dict):
        part = list(part.values())
    elif isinstance(part, list):
        yield part
    for each in part if isinstance(part, list) else ():
        yield from lists(each)


def test_no_array_is_an_element_of_a_list(drawn):
    """plotly.js reads an array's bytes only as a whole: it drew nothing for a map given as a list of one row."""
    for name in functions():
        for drawing in drawn[name]:
            inside = [each for found in lists(drawing.chart.sent().to_dict()) for each in found]
            assert not any("bdata" in each for each in inside if isinstance(each, dict)), name


def strings(part: object) -> Iterator[str]:
    """Yield every string in a figure."""
    if isinstance(part, str):
        yield part
    elif isinstance(part, dict):
        for each in part.values():
            yield from strings(each)
    elif isinstance(part, list | tuple):
        for each in part:
            yield from strings(each)


OUR_TAGS = re.compile(r"</?(?:b|i|br|sup|sub|extra)>")


def test_no_token_is_markup_in_a_figure_or_its_words(drawn):
    for name in functions():
        for drawing in drawn[name]:
            for text in strings(drawing.chart.sent().to_dict()):
                assert "<" not in OUR_TAGS.sub("", text), f"{name}: {text}"
            for text in (drawing.title, drawing.note, drawing.more):
                plain = re.sub(r"\\[!-/:-@\[-`{-~]", "", text)  # undo the escapes of quoted()
                assert not re.search(r"[<`$\[\]]|:\w+:|:\w+\[|javascript:", plain), f"{name}: {text}"
