"""Progress on the pages, without a browser: what is recorded, and what ticks say of it."""

import json
from datetime import UTC, date, datetime, timedelta
from types import SimpleNamespace

import pytest
import streamlit as st

from attnviz.compute.lessons import lessons
from attnviz.exercises import CardState
from attnviz.mistakes import all_mistakes
from attnviz.session.pages.mistakes import CODES
from attnviz.session.progress import LessonState, MistakeState, Progress, TaskState
from attnviz.ui import own_day, progress
from attnviz.ui.components import progress_store
from attnviz.ui.components.progress_store import KEY
from tests.pages import FRONT, HEADS, LESSONS, MISTAKES, PRACTICE, checked, linked, opened, said

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("no_links_to_pages")]

KEPT = Progress(
    {"one-head": LessonState(99, "2026-11-28"), "mla": LessonState(3), "no-such": LessonState(1, "2026-11-28")},
    {"mask_after_softmax": MistakeState(True, "2026-11-28T20:00:00Z")},
    cards={"why-root-d": CardState("2026-11-28", 1, 2.5, 1), "two": CardState("9999-11-28", 1, 2.5, 1)},
    tasks={"gqa": TaskState("2026-11-27", "tiled_kv_heads", "2026-11-28T20:00:00Z")},
)


def kept(app) -> Progress:
    return app.session_state["progress"] if "progress" in app.session_state else Progress()


def stored(app) -> dict:
    """Return what the component is sent."""
    (component,) = [each.proto for each in app.get("bidi_component") if each.proto.component_name == "progress_store"]
    return json.loads(component.bytes)


def test_a_page_writes_nothing_before_anything_is_done():
    app = opened(FRONT)
    assert stored(app)["text"] is None and kept(app) == Progress()
    assert KEY in app.main.get("bidi_component")[-1].proto.id  # the last of the page


def test_a_lessons_steps_are_recorded_and_a_presentation_is_not():
    app = opened(HEADS, lesson="one-head", lesson_step="2")
    assert kept(app).lessons == {"one-head": LessonState(2)}
    assert json.loads(stored(app)["text"])["lessons"] == {"one-head": {"step": 2, "done": ""}}
    app = opened(HEADS, lesson="one-head", lesson_step="2", present="1")
    assert kept(app) == Progress()


def test_the_last_step_ends_a_lesson():
    app = opened(HEADS, lesson="one-head", lesson_step="99")
    (state,) = kept(app).lessons.values()
    assert state.done and state.step > 5


def test_the_list_of_lessons_says_what_is_done_and_where_one_was(monkeypatch):
    links = {}
    monkeypatch.setattr(
        "streamlit.page_link", lambda file, label="", query_params=None, **_: links.update({label: query_params})
    )
    text = said(opened(LESSONS, {"progress": KEPT}))
    assert text.count("Done on 28 November.") == 1 and text.count("You reached step 3: it opens there.") == 1
    ticked = [label for label in links if ":material/check" in label]
    assert len(ticked) == 1 and links[ticked[0]].get("lesson_step") is None
    steps = [link["lesson_step"] for link in links.values() if link and link.get("lesson") == "mla"]
    assert steps == ["3"] * 3  # in the list and in two routes


def test_the_front_page_says_what_is_due_and_done_and_nothing_to_a_new_person():
    app = opened(FRONT, {"progress": KEPT})
    text = said(app)
    assert f"1 of {len(lessons()[0])} lessons done, 1 of " in text and "mistakes found, 1 of " in text
    assert "tasks passed" in text
    assert app.button(key="due").label == "**1 answer due today: Mechanism**"
    app.button(key="due").click()
    checked(app.run())
    assert linked(app) == {"tab": "due"}
    app = opened(FRONT)
    assert "lessons done" not in said(app) and "due" not in [each.key for each in app.button]


def test_found_mistakes_are_recorded_and_ticked():
    name = "mask_after_softmax"
    app = opened(MISTAKES, {"progress": KEPT}, mistake=CODES[name])
    assert f"{len(all_mistakes())} mistakes. 1 found so far." in said(app)
    ticks = [option for radio in app.radio for option in radio.options if ":material/check" in option]
    assert len(ticks) == 1

    app = opened(MISTAKES, mistake="scale_by_d_model")  # a link with an id shows its line
    mistake = all_mistakes()["scale_by_d_model"]
    wrong = (mistake.answer + 1) % len(mistake.answers)
    radio = app.radio(key="answer-scale_by_d_model")
    radio.set_value(wrong)
    checked(app.run())
    assert kept(app).mistakes == {}
    app.radio(key="answer-scale_by_d_model").set_value(mistake.answer)
    checked(app.run())
    assert kept(app).mistakes["scale_by_d_model"].found is False  # not at the first try


def test_the_list_of_tasks_says_what_passed_and_what_was_wrong():
    app = opened(PRACTICE, {"progress": KEPT}, tab="write", task="gqa")
    assert [option for option in app.selectbox(key="control-task").options if "✓" in option] == [
        "Grouped-query attention (gqa) ✓"
    ]
    title = all_mistakes()["tiled_kv_heads"].title
    assert f"Your file passed on 27 November. Your last attempt that failed had this mistake: {title}." in said(app)


def test_the_day_is_the_browsers_where_the_server_agrees_within_two_days(monkeypatch):
    monkeypatch.setattr(own_day.st, "session_state", {})
    server = date(2026, 11, 29)
    monkeypatch.setattr(own_day, "_on_server", lambda: server)
    assert own_day.today() == server
    for sent, day, changes in (
        ("2026-11-30", date(2026, 11, 30), True),
        ("2026-11-30", date(2026, 11, 30), False),
        ("2026-12-02", server, True),  # three days: not believed
        ("2026-11-27", date(2026, 11, 27), True),
        ("no day", date(2026, 11, 27), False),
        ("", date(2026, 11, 27), False),
    ):
        assert (own_day.take(sent), own_day.today()) == (changes, day), sent
    server += timedelta(days=1)  # both clocks go on
    assert own_day.today() == date(2026, 11, 28)


def test_a_message_with_another_day_is_taken_whole(monkeypatch):
    class Ended(Exception):
        """What drawing again does to a callback: it ends it."""

    def redraw() -> None:
        raise Ended

    tomorrow, callbacks = date(2026, 11, 30), {}
    sent = {"number": 1, "text": KEPT.json(), "here": "", "left": "", "day": tomorrow.isoformat()}
    monkeypatch.setattr(st, "session_state", {KEY: SimpleNamespace(stored=sent)})
    monkeypatch.setattr(own_day, "_on_server", lambda: date(2026, 11, 29))
    monkeypatch.setattr(progress.state, "redraw_progress", redraw)
    monkeypatch.setattr(progress_store, "_component", lambda **given: callbacks.update(given))
    progress_store.progress_store(
        {}, on_stored=progress._take_stored, on_blocked=progress._say_blocked, on_day=progress._take_day
    )
    with pytest.raises(Ended):
        callbacks["on_stored_change"]()
    assert own_day.today() == tomorrow and progress._own() == KEPT


def test_what_is_due_tomorrow_is_due_once_the_browser_has_that_day():
    tomorrow = (datetime.now(UTC).date() + timedelta(days=1)).isoformat()
    kept_ = Progress(cards={"why-root-d": CardState(tomorrow, 1, 2.5, 1)})
    app = opened(PRACTICE, {"progress": kept_}, tab="due")
    assert "Nothing is due today." in app.success[0].value
    app = opened(PRACTICE, {"progress": kept_, "days ahead": 1}, tab="due")
    assert not app.success and stored(app)["day"] == tomorrow and app.button(key="points")


def test_the_practice_page_loads_a_file_says_what_is_done_and_deletes_it():
    app = opened(PRACTICE, {"progress": KEPT})
    assert f"1 answer due today. 1 of {len(lessons()[0])} lessons done" in said(app)
    app.button(key="delete-progress-now").click()
    checked(app.run())
    assert kept(app) == Progress() and "lessons done" not in said(app)
    day = datetime.now(UTC).date().isoformat()  # AppTest names no time zone
    sent = {"heard": 0, "forgets": 1, "text": None, "here": "", "clock": None, "day": day}
    assert stored(app) | {"session": ""} == {"session": "", **sent}
