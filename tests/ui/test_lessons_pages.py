"""Lessons without a browser: elements are on their pages, steps open, the bar navigates; single-element views."""

import itertools
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from importlib import import_module
from urllib.parse import parse_qsl

import pytest
from streamlit.testing.v1 import AppTest

from attnviz.compute import lessons as compute
from attnviz.compute import routes as compute_routes
from attnviz.compute.placeholders import PLACEHOLDERS, filled
from attnviz.compute.spoken import deck
from attnviz.compute.view import View
from attnviz.session.lesson import Lesson, placeholder
from attnviz.session.page import Element
from attnviz.session.pages import ALL, ELEMENTS, PAGES, by_purpose
from attnviz.session.settings import Settings
from attnviz.ui import state
from attnviz.ui.bars import spoken
from attnviz.ui.components import rope_pair
from attnviz.ui.pages.overview import FIRST_LESSON
from tests.pages import COST, FRONT, HEADS, LESSONS, MISTAKES, ROOT, ROPE, linked, opened, said, sentences
from tests.reading import plain
from tests.walk import decode_little

pytestmark = pytest.mark.slow

EACH = compute.lessons()[0]
FACTS = '{"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4}'
ONLY_WITH = {
    "mistake-answers": {"hunt": "0"},
    "figure-mla-content": {"model": "mla"},
    "figure-mla-position": {"model": "mla"},
    "figure-mla-sum": {"model": "mla"},
    "figure-latent-scale": {"model": "mla"},
    **dict.fromkeys(("indexer-maps", "figure-kept-by-k"), {"model": "sparse"}),
    **dict.fromkeys(("sink-maps", "figure-sink-shares"), {"model": "sinks"}),
    "figure-model-pasted": {"facts": FACTS},
    "figure-forms": {"preset": "deepseek-v3"},
    **dict.fromkeys(("figure-tensor", "figure-data"), {"n_machines": "16", "preset": "llama-3-70b"}),
    **dict.fromkeys(("figure-attention", "figure-model", "figure-cache", "figure-precisions"), {"preset": "selected"}),
}


PAGE_OF = {element.key: page for page in ALL for element in page.elements}


def _shown_by(element: Element) -> tuple[str, str, tuple]:
    return PAGE_OF[element.key].path, element.tab, tuple(ONLY_WITH.get(element.key, {}).items())


BY_TAB = [
    (link, list(elements)) for link, elements in itertools.groupby(sorted(ELEMENTS.values(), key=_shown_by), _shown_by)
]


def keyed(block: object) -> Iterator[tuple[str, object]]:
    """Iterate over all elements inside a block that have a key, with it."""
    for child in getattr(block, "children", {}).values():
        proto = getattr(child, "proto", None)
        ids = [getattr(proto, "id", ""), getattr(getattr(proto, "flex_container", None), "id", "")]
        yield from ((each.split("-", 2)[2], child) for each in ids if str(each).startswith("$$ID-"))
        yield from keyed(child)


def keys(app: AppTest) -> set[str]:
    """Return the keys of all elements in the main part of the page."""
    return {key for key, _ in keyed(app.main)}


def texts(block: object) -> str:
    """Return what is written in an element: of a chart its alt text, of a component what it is sent."""
    if children := getattr(block, "children", {}):
        return " ".join(map(texts, children.values()))
    proto = block.proto
    return getattr(proto, "alt", "") or getattr(proto, "bytes", b"").decode(errors="ignore") or str(proto)


WRITTEN = re.compile(r"\{([a-z_0-9]+(?:\?[^{}]*)?)\}")  # placeholders, with the settings that are theirs alone
NUMBER = re.compile(r"\d(?:[\d,.]*\d)?")
WRITTEN_IN_THE_BROWSER = {  # components that are sent arrays and write their numbers themselves
    "text-view", "head-view", "head-path", "head-grid", "rope-pair", "rope-clocks", "decode-player",
}  # fmt: skip
NOT_IN_THE_RING = {  # what the sentence derives, a control or the page's first line shows, or a chart draws
    ("score-to-weight", 2): {"sqrt_head_dim"},
    ("score-to-weight", 4): {"query", "n_allowed", "n_masked"},
    ("score-to-weight", 6): {"tile_difference"},
    ("shared-kv-heads", 8): {"published_heads"},
    ("cache-cost", 2): {"published_cache_short", "published_head_dim", "published_layers"},
    ("cache-cost", 6): {"batch"},
    ("rope-pictures", 3): {"theta"},
    ("longer-contexts", 1): {"early_loss"},
    ("longer-contexts", 4): {"early_loss"},
    ("longer-contexts", 5): {"factor"},
    ("longer-contexts", 6): {"theta"},
    ("mla", 8): {
        "published",
        "published_equal_kv_heads",
        "published_heads",
        "published_layers",
        "published_query_latent",
        "published_query_parameters",
        "published_query_parameters_full",
    },
    ("next-token", 2): {"d_model"},
    ("next-token", 3): {"n_layers"},
    ("next-token", 4): {"vocab_size"},
    ("next-token", 5): {"first_layer"},  # the chart's title says "the last layer"
    ("model-card", 1): {"published_head_dim"},
    ("model-card", 2): {"published_parameters", "published_weights"},
    ("model-card", 3): {"published_cache", "published_head_dim", "published_layers"},
    ("model-card", 4): {"published_cache"},
    ("model-card", 5): {"published_parameters", "published_weights"},  # drawn is the memory of one accelerator
}


DERIVED = {  # what a route's item derives in its sentence, or says of another model than the one that is drawn
    ("interview-today", 3): {
        "published_parameters",
        "fitting_sequences?preset=qwen1.5-7b",
        "published_cache_short?preset=qwen1.5-7b",
    },
    ("interview-today", 4): {"attention_intensity?preset=deepseek-v3", "published_heads?preset=deepseek-v3"},
}
ROUTES = compute_routes.routes()


def not_in_the_ring(app: AppTest, lesson: Lesson, number: int) -> set[str]:
    """Return the placeholders of a step's text with a number that the element it points at does not show."""
    step, view = lesson.step(number), View(lesson.settings(number))
    return set() if step.target in WRITTEN_IN_THE_BROWSER else in_text_alone(app, step.target, step.text, view)


def in_text_alone(app: AppTest, target: str, text: str, view: View) -> set[str]:
    """Return the placeholders of a text with a number that an element, with its alt text, does not show."""
    shown = set(NUMBER.findall(plain(" ".join(texts(block) for key, block in keyed(app.main) if key == target))))
    written = (each for each in WRITTEN.findall(text) if placeholder(each)[0] in PLACEHOLDERS)
    values = {each: filled(f"{{{each}}}", view) for each in written}
    return {name for name, value in values.items() if set(NUMBER.findall(value)) - shown}


def shows(app: AppTest, key: str) -> bool:
    return key in keys(app)


@pytest.fixture
def fewer_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    """Decode fewer tokens than the page does, for tests of where a picture is, not of what it shows."""
    decode_little(monkeypatch, n_read=24)


@pytest.mark.usefixtures("fewer_tokens")
@pytest.mark.parametrize(("link", "elements"), BY_TAB, ids=["-".join((*key[:2], *dict(key[2]))) for key, _ in BY_TAB])
def test_every_element_is_drawn_on_its_page_and_by_itself_it_has_nothing_to_complain_of(
    link: tuple, elements: list[Element]
) -> None:
    page, tab, more = link
    app = opened(PAGES[page].file, bound="16", **dict(more), **({"tab": tab} if tab else {}))
    assert [element.key for element in elements if element.key not in keys(app)] == []
    assert sentences(app) == "" or tab not in ("", *list(PAGES[page].tabs)[:1])


@pytest.mark.usefixtures("fewer_tokens")
@pytest.mark.parametrize(
    "element", [*[e for e in ELEMENTS.values() if e.drawing][::11], ELEMENTS["answer"]], ids=lambda e: e.key
)
def test_one_drawing_alone_runs_only_the_part_that_has_it(element: Element) -> None:
    tab = {"tab": element.tab} if element.tab else {}
    app = opened(PAGE_OF[element.key].file, only=element.key, bound="16", **ONLY_WITH.get(element.key, {}), **tab)
    there = keys(app)
    assert element.key in there
    assert not app.title and not app.sidebar.text_area and sentences(app) == ""
    others = {e.key for e in PAGE_OF[element.key].elements if e.part != element.part}
    assert others & there == set()


def test_the_part_of_every_element_is_found_also_where_another_module_of_its_page_has_it(monkeypatch) -> None:
    """That of Cost's question, above its tabs, has a file of its own."""
    drawn: list[tuple[str, str]] = []
    for page in PAGES.values():
        if page.elements:
            import_module(page.module)
    stubs = {place: partial(drawn.append, place) for place in state._PARTS}
    monkeypatch.setattr(state, "_PARTS", stubs)
    for page in PAGES.values():
        for element in page.elements:
            state.draw_part(page.module, element.part)
            module, key = drawn[-1]
            assert key == element.part and module.startswith(page.module)


def test_an_element_of_another_page_is_not_shown_alone() -> None:
    app = opened(ROPE, only="head-grid")
    assert "does not show" in sentences(app) and app.title[0].value == "RoPE"


def test_a_link_to_one_drawing_opens_the_tab_that_has_it() -> None:
    app = opened(COST, only="figure-cache", tab="memory")  # from when each tab had it
    assert shows(app, "figure-cache") and sentences(app) == ""
    shown = {tab: shows(opened(COST, tab=tab, preset="selected"), "figure-cache") for tab in ("published", "memory")}
    assert shown == {"published": True, "memory": False}


def opened_step(lesson: Lesson, number: int, **session: object) -> AppTest:
    return opened(lesson.step(number).page.file, session, **lesson.settings(number).to_link())


@pytest.mark.usefixtures("fewer_tokens")
@pytest.mark.parametrize("name", EACH)
def test_every_step_opens_and_draws_what_it_points_at(name: str) -> None:
    lesson = EACH[name]
    for number in range(1, len(lesson.steps) + 1):
        app, step = opened_step(lesson, number), lesson.step(number)
        wrong = [each.value for each in (*app.warning, *app.error)]
        assert wrong == [] or "theta" in step.link, (
            number,
            wrong,
        )  # a base other than the trained one causes a warning
        assert shows(app, step.target), (number, step.target, keys(app))
        assert not_in_the_ring(app, lesson, number) == NOT_IN_THE_RING.get((name, number), set()), number
        assert step.title in said(app) and f"Step {number} of {len(lesson.steps)}" in said(app)
        assert not app.button(key="lesson-next").disabled


@pytest.mark.parametrize("name", [name for name, route in ROUTES.items() if any(item.target for item in route.items)])
def test_the_numbers_of_a_route_s_items_are_drawn_where_they_point(name: str) -> None:
    """Those of the item's own model, unless the sentence says what they follow from."""
    for number, item in enumerate(ROUTES[name].items, 1):
        if not item.target:
            continue
        app, view = opened(item.page.file, **item.link), View(Settings.from_link(dict(item.link), item.page)[0])
        assert in_text_alone(app, item.target, item.text, view) == DERIVED.get((name, number), set()), number


def test_the_bar_leads_on_shows_the_answer_and_notices_that_one_has_left() -> None:
    lesson = EACH["one-head"]
    app = opened_step(lesson, 3)
    assert "The mask is causal" not in said(app)
    assert "Its induction score" not in said(app)  # the page's own sentence on its example
    app.button(key="lesson-answer").click().run()
    assert "The mask is causal" in said(app)
    assert "lesson-return" not in keys_of_buttons(app)
    app.selectbox(key="control-model").set_value("mqa").run()
    assert "lesson-return" in keys_of_buttons(app)
    app.button(key="lesson-return").click().run()
    assert linked(app) == {"lesson": "one-head", "lesson_step": "3"} and not app.exception
    app.button(key="lesson-next").click().run()
    assert linked(app)["lesson_step"] == "4" and lesson.step(4).title in said(app)
    app.button(key="lesson-leave").click().run()
    assert "lesson" not in app.query_params and "lesson-next" not in keys_of_buttons(app)
    assert "Its induction score" in said(app)


def left(app: AppTest, name: str, number: int) -> AppTest:
    """Open a lesson's step by its link, on the page that is open, and leave it."""
    app.query_params.clear()
    app.query_params.update(EACH[name].settings(number).to_link())
    app.run()
    return app.button(key="lesson-leave").click().run()


def test_the_whole_text_is_shown_from_the_step_on_at_which_it_was_asked_for_with_an_answer_and_while_presenting() -> (
    None
):
    lesson = EACH["one-head"]
    app = opened_step(lesson, 3)
    assert is_brief(app) and f"## {lesson.step(3).title}" in said(app)
    app.button(key="lesson-answer").click().run()
    assert not is_brief(app) and lesson.step(3).answer[:20] in said(app)
    app.button(key="lesson-fold").click().run()
    assert is_brief(app) and lesson.step(3).answer[:20] not in said(app)
    app.button(key="lesson-next").click().run()
    assert is_brief(app)
    app.button(key="present").click().run()
    assert not is_brief(app) and "lesson-fold" not in keys_of_buttons(app)
    app.button(key="present-leave").click().run()
    app.button(key="lesson-fold").click().run()
    app.button(key="lesson-next").click().run()
    assert not is_brief(app) and f"Step 5 of 7 · Look at: {ELEMENTS[lesson.step(5).target].name}" in said(app)


def is_brief(app: AppTest) -> bool:
    keys = {key for key, _ in keyed(app._tree[3])}  # streamlit's container at the bottom
    return bool({"bar-brief", "bar-read"} & keys)


def last_step(name: str) -> AppTest:
    """Open a lesson's last step with the whole text asked for before it, and say that it is not done."""
    app = opened_step(EACH[name], len(EACH[name].steps), **{"whole text in a bar": (name, 1)})
    assert is_brief(app)  # it asks something on the page
    assert "done once answered, or with “Next”" in said(app) and done(app, name) == ""
    return app


def done(app: AppTest, name: str) -> str:
    return app.session_state["progress"].lessons[name].done


def test_a_lesson_with_questions_at_its_end_is_done_when_they_are_answered() -> None:
    app = last_step("cache-cost")
    app.button(key="start-set").click().run()
    assert "Question 1 of 5 is open." in said(app)
    while "next" in keys_of_buttons(app) or not done(app, "cache-cost"):  # what is missed is asked again
        next(button for button in app.button if button.label == "I do not know").click().run()
        app.button(key="next").click().run()
    assert "0 of 5 right" in said(app) and "Step 7 of 7 · lesson done" in said(app)


def test_a_lesson_with_a_mistake_at_its_end_is_done_when_it_is_answered_or_shown() -> None:
    app = last_step("score-to-weight")
    app.button(key="skip-mistake").click().run()
    assert done(app, "score-to-weight") and "lesson done" in said(app)


def test_a_lesson_with_an_optional_task_at_its_end_is_done_there() -> None:
    app = opened_step(EACH["mla"], 99)
    assert done(app, "mla") and app.button(key="lesson-next").proto.type == "primary"
    assert "Optional" in said(app) and "done once answered" not in said(app)


def test_a_lesson_without_questions_at_its_end_is_done_there() -> None:
    app = opened_step(EACH["one-head"], len(EACH["one-head"].steps))
    assert done(app, "one-head") and "Step 7 of 7 · lesson done" in said(app)


def test_the_first_step_on_rope_names_the_controls_of_its_element() -> None:
    step = EACH["rope-pictures"].step(1)
    assert step.target == "rope-pair" and "“Shift only k by”" in step.text
    assert "Shift only k by <input" in rope_pair.HTML and "Play</button>" in rope_pair.HTML


def test_after_a_lesson_the_settings_before_it_can_be_restored_on_the_tab_that_is_open_by_then() -> None:
    before = {"text": "A king", "model": "mqa", "layer": "2"}
    app = left(opened(ROPE, **before), "longer-contexts", 6)
    assert linked(app)["theta"] == "500000" and "lesson" not in linked(app)
    assert app.button(key="lesson-restore").label == "Settings from before the lesson"
    app.session_state["settings"] = replace(app.session_state["settings"], tab="without")  # as the fragment does
    app.button(key="lesson-restore").click().run()
    assert linked(app) == {**before, "tab": "without"} and not app.exception
    assert not {"lesson-restore", "lesson-keep"} & keys_of_buttons(app)


def test_after_a_lesson_its_settings_can_be_kept_and_a_link_of_another_is_opened_as_it_is() -> None:
    app = left(opened(ROPE, model="mqa"), "longer-contexts", 6)
    app.button(key="lesson-keep").click().run()
    assert linked(app)["theta"] == "500000" and "lesson-restore" not in keys_of_buttons(app)
    app.query_params.clear()
    app.query_params["model"] = "mqa"
    app = left(app.run(), "longer-contexts", 6)
    app = left(app, "rope-pictures", 6)  # before anything was chosen: the settings before both
    app.button(key="lesson-restore").click().run()
    assert linked(app) == {"model": "mqa", "tab": "without"}


def test_a_lesson_opened_by_its_link_is_left_for_the_defaults_and_one_without_settings_asks_nothing() -> None:
    lesson = EACH["longer-contexts"]
    app = opened_step(lesson, 6)
    app.button(key="lesson-leave").click().run()
    assert app.button(key="lesson-restore").label == "Default settings"
    app.button(key="lesson-restore").click().run()
    assert linked(app) == {}
    app = opened_step(EACH["rope-pictures"], 4)
    app.button(key="lesson-leave").click().run()
    assert linked(app) == {"tab": "distance"} and "lesson-restore" not in keys_of_buttons(app)


def test_the_last_step_leads_to_the_next_lesson() -> None:
    first, second = list(EACH.values())[:2]
    app = opened_step(first, len(first.steps))
    assert app.button(key="lesson-next").label == "Next lesson"
    app.button(key="lesson-next").click().run()
    assert linked(app)["lesson"] == second.name and second.steps[0].title in said(app)


def test_the_last_lesson_leads_to_the_exercises() -> None:
    last = list(EACH.values())[-1]
    app = opened_step(last, len(last.steps))
    app.button(key="lesson-next").click().run()
    assert "lesson" not in app.query_params and app.title[0].value == "Practice"


def test_a_lesson_is_announced_as_it_is_read_aloud() -> None:
    assert spoken(r"Token 21 “·red” gives **83\.1 %**; `W_o` and n\_heads stay") == (
        "Token 21 “·red” gives 83.1 %; W_o and n_heads stay"
    )
    assert spoken("## A route: done\n\nAll 4 items are done.") == "A route: done\n\nAll 4 items are done."


def keys_of_buttons(app: AppTest) -> set[str]:
    return {button.key for button in app.button}


def test_any_name_of_a_lesson_is_answered() -> None:
    for name in ("9" * 300, "../one-head", "a\0b", "none"):
        assert "no lesson" in sentences(opened(FRONT, lesson=name, layer="1")), name


def test_a_lesson_that_is_not_there_is_said_and_can_be_closed() -> None:
    app = opened(HEADS, lesson="<b>none</b>")
    assert "no lesson" in sentences(app) and shows(app, "head-grid")
    app.button(key="lesson-close").click().run()
    assert "lesson" not in app.query_params


def numbered(lessons: dict[str, Lesson]) -> list[str]:
    return [f"**{i} · {lesson.title}**" for i, lesson in enumerate(lessons.values(), 1)]


def test_the_lessons_are_listed_and_a_broken_file_is_said(tmp_path, monkeypatch) -> None:
    (tmp_path / "broken.md").write_text("# Title\n\nMinutes: 5\n")
    monkeypatch.setenv(compute.FOLDER, str(tmp_path))
    app = opened(LESSONS)
    links = [label for link in app.main.get("page_link") if (label := link.proto.label).startswith("**")]
    assert links == numbered(EACH)  # in the order on a phone, and for a screen reader
    assert "broken" in app.error[0].value and "line 3" in app.error[0].value


def test_ones_own_lessons_come_first(tmp_path, monkeypatch) -> None:
    (tmp_path / "my-week.md").write_text("# Mine\n\nMinutes: 1\n\n## One\n\nLink: heads\n\n$\\sqrt{d}$ of `{}`.\n")
    monkeypatch.setenv(compute.FOLDER, str(tmp_path))
    app = opened(LESSONS)
    links = [label for link in app.main.get("page_link") if (label := link.proto.label).startswith("**")]
    assert links == ["**1 · Mine**", *numbered(EACH)]
    assert "1 step, about 1 minute." in app.main.caption[1].value and not app.error


def test_a_plan_lists_its_lessons_alone_in_its_order(tmp_path, monkeypatch) -> None:
    (tmp_path / "my-week.md").write_text("# Mine\n\nMinutes: 4\n\n## One\n\nLink: heads\n\nSee.\n")
    (tmp_path / "order.txt").write_text("mla\nmy-week.md\nnone\n../order\none-head\n")
    monkeypatch.setenv(compute.FOLDER, str(tmp_path))
    app = opened(LESSONS)
    titles = [f"**1 · {EACH['mla'].title}**", "**2 · Mine**", f"**3 · {EACH['one-head'].title}**"]
    assert [link.proto.label for link in app.main.get("page_link")] == titles
    minutes = EACH["mla"].minutes + 4 + EACH["one-head"].minutes
    assert f"3 lessons in the order of your order.txt, about {minutes} minutes." in [
        caption.value for caption in app.main.caption
    ]
    assert [each.value.partition(" ")[0] for each in app.error] == ["**none**", "**order**"]
    app = opened(HEADS, lesson="my-week")
    app.button(key="lesson-next").click().run()
    assert linked(app)["lesson"] == "one-head"


def test_a_link_that_names_a_lesson_alone_opens_its_step() -> None:
    app = opened(FRONT, lesson="one-head", lesson_step="4")
    assert app.title[0].value == "Heads" and linked(app)["tab"] == "lines"
    assert EACH["one-head"].step(4).title in said(app) and "lesson-return" not in keys_of_buttons(app)
    app = opened(FRONT, lesson="one-head", lesson_step="4", present="1")
    assert linked(app)["only"] == "lines" and shows(app, "lines") and not shows(app, "head-grid")
    app = opened(LESSONS, lesson="one-head")  # the list, loaded again
    assert app.title[0].value == "Lessons"


def test_presenting_shows_one_drawing_and_goes_through_the_page() -> None:
    app = opened(ROPE, present="1")
    assert shows(app, "rope-pair") and not app.sidebar.text_area
    app.button(key="present-following").click().run()
    assert linked(app)["only"] == "rope-clocks" and not app.exception
    assert shows(app, "rope-clocks") and not shows(app, "rope-pair")
    app.button(key="present-leave").click().run()
    assert not app.query_params and app.title[0].value == "RoPE"


def test_presenting_goes_on_with_the_next_tab() -> None:
    app = opened(HEADS, present="1", only="lines", tab="lines")
    (before,) = re.findall(r", (\d+) of (\d+)", said(app))
    app.button(key="present-following").click().run()
    (after,) = re.findall(r", (\d+) of (\d+)", said(app))
    assert int(after[0]) == int(before[0]) + 1 and after[1] == before[1]  # of all tabs
    assert (linked(app)["tab"], linked(app)["only"]) == ("writes", "figure-norms") and shows(app, "figure-norms")
    app.button(key="present-previous").click().run()
    assert linked(app).get("only") == "lines" and shows(app, "lines")  # and back
    app = opened(HEADS, present="1", only="masks", tab="masks")  # the tabs after it have no drawings
    assert app.button(key="present-following").disabled and not app.button(key="present-previous").disabled


def test_a_lesson_s_step_is_presented_with_its_own_drawing() -> None:
    app = opened_step(EACH["one-head"], 2)
    app.button(key="present").click().run()
    assert linked(app)["only"] == "head-grid" and shows(app, "head-grid") and not shows(app, "text-view")
    app.button(key="lesson-next").click().run()
    assert linked(app)["only"] == "head-view" and not {"lesson-leave", "present-following"} & keys_of_buttons(app)
    app.button(key="present-leave").click().run()
    assert linked(app) == {"lesson": "one-head", "lesson_step": "3"}


def test_a_step_on_a_drawing_that_not_every_model_has_is_presented_with_it_alone() -> None:
    """Among the whole page it would be cut off."""
    steps = [(lesson, i) for lesson in EACH.values() for i in range(1, len(lesson.steps) + 1)]
    found = [(lesson, i) for lesson, i in steps if lesson.step(i).target in ("figure-latent-scale", "latent-checks")]
    assert len(found) >= 2
    for lesson, number in found:
        app = opened_step(lesson, number)
        app.button(key="present").click().run()
        assert shows(app, lesson.step(number).target) and linked(app)["only"] == lesson.step(number).target
        assert not shows(app, "diagram") and not app.title


def test_a_step_on_a_control_is_presented_with_its_whole_page() -> None:
    name, number = next(
        (lesson.name, i)
        for lesson in EACH.values()
        for i, step in enumerate(lesson.steps, 1)
        if step.target.startswith("control-")
    )
    step = EACH[name].step(number)
    app = opened(step.page.file, **EACH[name].settings(number).to_link(), present="1")
    assert shows(app, step.target) and step.drawing == "" and app.title[0].value == step.page.name


def test_the_front_door_leads_every_way_and_to_every_page() -> None:
    app = opened(FRONT)
    found = [link.proto.page for link in app.main.get("page_link")]
    assert len(found) == 1 + len(PAGES) - 1
    name, title = FIRST_LESSON
    first = EACH[name].step(1)
    assert title == EACH[name].title and name == next(iter(EACH)) and found[0] == first.page.path
    assert EACH[name].settings(1).to_link() == {"lesson": name}, "what the overview links to"
    there = said(app)
    assert len(by_purpose()) > 2 and all(way in there for way in by_purpose())
    assert shows(app, "front-grid")


def test_registered_keys_are_what_streamlit_makes_classes_of() -> None:
    assert [key for key in ELEMENTS if not key.replace("-", "").isalnum()] == []
    assert ROOT.joinpath(LESSONS).exists()


def test_the_bar_leaves_the_list_of_lessons_free() -> None:
    """It stands above the list, in the page; on other pages at the bottom of the window."""
    place = {"lesson": "many-heads", "lesson_step": "3"}
    found = [key for key, _ in keyed(opened(LESSONS, **place).main)]
    assert found.index("lesson-bar") < found.index("lesson-next") < found.index("lesson-keys")
    assert not {"lesson-bar", "lesson-next"} & keys(opened(HEADS, **place))


def test_a_step_on_a_mistake_shows_the_lines_and_the_answers_that_its_text_is_about() -> None:
    on_mistakes = [
        (lesson, n)
        for lesson in EACH.values()
        for n, step in enumerate(lesson.steps, 1)
        if step.target == "mistake-code"
    ]
    assert on_mistakes
    for lesson, n in on_mistakes:
        app = opened(MISTAKES, **lesson.settings(n).to_link())
        assert {"mistake-code", "mistake-answers"} <= keys(app)


def test_a_bar_to_scale_that_is_pointed_at_has_another_one_beside_it() -> None:
    """One alone is as long for 1 GiB as for 32."""
    steps = [(step.link, step.target) for lesson in EACH.values() for step in lesson.steps]
    items = [(item.link, item.target) for route in ROUTES.values() for item in route.items]
    cards = [(dict(parse_qsl(card.link.partition("?")[2])), card.target) for card in deck().values()]
    compared = [{*link["compare"].split(","), link.get("preset", Settings.preset)}
                for link, target in steps + items + cards if target == "compared"]  # fmt: skip
    assert len(compared) >= 4 and all(len(models) > 1 for models in compared)
