"""An unfinished mock interview or set, without a browser: a reload, another tab, a link to other settings."""

import json
import time
from dataclasses import replace

import pytest
from streamlit.testing.v1 import AppTest

from attnviz.compute import interview, lessons, routes
from attnviz.practice.drills import question_set
from attnviz.practice.drills.answers import SpokenAnswer
from attnviz.session.progress import LessonState, Progress, RouteState, merge, parsed
from attnviz.session.settings import Settings
from attnviz.session.unfinished import Unfinished
from attnviz.ui import progress, this_tab
from tests.pages import FRONT, HEADS, PRACTICE, checked, linked, opened, said, sentences
from tests.practice.forms import forms

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("no_links_to_pages")]

MOCK = {"tab": "interview", "interview": "15", "question_set": "11"}
SET = {"subject": "heads", "questions": "3", "question_set": "7", "level": "1"}


def press(app: AppTest, key: str) -> AppTest:
    app.button(key=key).click()
    return checked(app.run())


def keys(app: AppTest) -> list[str]:
    return [each.key or "" for each in app.button]


def give(app: AppTest, given: str) -> AppTest:
    """Answer the question on screen; "": "I do not know"."""
    if given == "said":
        next(each for each in app.button if each.label == "I have said it").click()
    elif given:
        field = f"answer-{app.session_state['practice serial']}"
        if app.radio:
            app.radio[0].set_value(int(given))
        elif app.text_input:
            app.text_input(key=field).set_value(given)
        else:
            app.session_state[field] = given
        next(each for each in app.button if each.label == "Answer").click()
    else:
        next(each for each in app.button if each.label == "I do not know").click()
    return checked(app.run())


def held(app: AppTest) -> Progress:
    """Return what the browser holds of the progress, through its JSON."""
    read, problem = parsed(app.session_state["progress"].json())
    assert not problem
    return read


def sent(app: AppTest) -> dict:
    (store,) = [each.proto for each in app.get("bidi_component") if each.proto.component_name == "progress_store"]
    return json.loads(store.bytes)


def reloaded(app: AppTest, page: str = PRACTICE, /, seconds_left: float | None = None, **link: str) -> AppTest:
    """Open a page in a new session of the same tab: it has what the browser holds and remembers."""
    kept, here = held(app), sent(app)["here"].split()
    runs = {kind: each.id for kind, each in kept.unfinished.items() if each.id in here}
    noted = f"{here[0]} {seconds_left}" if here and seconds_left is not None else ""
    return opened(page, {"progress": kept, "tab runs": runs, "tab noted": noted}, **link)


def in_another_tab(app: AppTest, page: str = PRACTICE, /, **link: str) -> AppTest:
    return opened(page, {"progress": held(app)}, **link)


def mock_with_two_answers() -> tuple[AppTest, list[str]]:
    app = press(opened(PRACTICE, **MOCK), "start-interview")
    answers = []
    for question in interview.begin(Settings(interview="15", question_set=11), 0.0).questions[:2]:
        answers.append("said" if isinstance(question.answer, SpokenAnswer) else forms(question.answer)[0])
        give(app, answers[-1])
    return app, answers


def test_after_a_reload_the_question_of_the_interview_stands_there_with_the_time_that_was_left():
    app, answers = mock_with_two_answers()
    (mock,) = held(app).unfinished.values()
    assert mock.given == (*answers,) and len(mock.stamps) == 2
    clock = sent(app)["clock"]
    assert clock[0] == mock.id == sent(app)["here"] and 800 < clock[1] <= 900
    again = reloaded(app, seconds_left=321.5, **MOCK)
    assert "Question 3 of 8" in said(again) and "the time away is not counted" in said(again)
    assert again.session_state["practice attempt"].given == (*answers,)
    assert sent(again)["here"] == mock.id and sent(again)["clock"][1] == pytest.approx(321.5, abs=5)
    give(again, "")
    assert "Question 4 of 8" in said(again) and "time away" not in said(again)
    press(again, "end-now")
    (card,) = held(again).mocks
    assert card["asked"] == 8 and card["used"] == pytest.approx(900 - 321.5, abs=7)


def test_the_score_card_whose_points_are_not_ticked_stands_there_too_until_it_is_closed():
    app, _ = mock_with_two_answers()
    press(app, "end-now")
    app.checkbox(key="said-0-1").check()
    checked(app.run())
    again = reloaded(app, **MOCK)
    assert again.checkbox(key="said-0-1").value and not again.checkbox(key="said-0-0").value
    assert in_another_tab(app, FRONT).button(key="go-on-interview").label.endswith("15 minutes: tick what you said**")
    press(again, "keep-card")
    assert held(again).cards and len(held(again).mocks) == 1
    assert not sent(again)["here"] and "go-on-interview" not in keys(in_another_tab(again, FRONT))
    assert "Start the interview" in [each.label for each in reloaded(again, **MOCK).button]


def test_a_set_stands_there_at_its_answer_and_goes_on():
    app = press(opened(PRACTICE, **SET), "start-set")
    first, second, _ = question_set("heads", 1, 3, 7)
    give(app, forms(first.answer)[0])
    again = reloaded(app, **SET)
    assert "Question 1 of 3" in said(again) and len(again.success) == 1
    assert sent(again)["clock"] is None and "time away" not in said(again)
    press(again, "next")
    assert "Question 2 of 3" in said(again)
    give(again, forms(second.answer)[0])
    assert held(again).drills[first.kind] == held(again).drills[second.kind] == (1, 1)  # each is counted once
    press(press(again, "next"), "end-now")
    assert "2 of 3 right" in said(reloaded(again, **SET))
    assert "go-on-set" not in keys(in_another_tab(again, **SET))  # nothing is left to do


def test_another_tab_offers_it_and_goes_on_where_it_was_begun():
    in_route = {"route": "interview-20", "route_item": "4"}
    app = press(opened(PRACTICE, **SET, **in_route), "start-set")
    give(app, "")
    other = in_another_tab(app, FRONT)
    assert other.button(key="go-on-set").label == "**Go on with the set of 3 questions: question 1 of 3**"
    press(other, "go-on-set")
    assert linked(other) == {**SET, **in_route} and "Question 1 of 3" in said(other)


def test_the_front_page_offers_what_runs_in_its_own_tab_too():
    app, _ = mock_with_two_answers()
    front = app.switch_page(FRONT)
    front.query_params.clear()
    checked(front.run())
    assert "question 3 of 8, 15 minutes left" in front.button(key="go-on-interview").label
    front.session_state["tab clock"] = (held(front).unfinished["interview"].id, time.monotonic() + 301)
    assert "5 minutes left" in checked(front.run()).button(key="go-on-interview").label
    attempt = front.session_state["practice attempt"]
    press(front, "go-on-interview")
    assert front.session_state["practice attempt"] is attempt and "Question 3 of 8" in said(front)

    for front in (reloaded(app, FRONT), app):
        checked(front.switch_page(FRONT).run())
        press(front, "drop-interview-now")
        assert "go-on-interview" not in keys(front)
        checked(front.switch_page(PRACTICE).run())
        assert {"start-interview", "start-set"} & {*keys(front)} and "another tab" not in sentences(front)
        assert not sent(front)["here"] and sent(front)["clock"] is None


def test_an_item_of_a_route_and_a_step_of_a_lesson_go_on_as_such():
    route = routes.routes()["interview-60"]
    n, item = next((n, each) for n, each in enumerate(route.items, 1) if each.link.get("tab") == "interview")
    at = {**item.link, "route": route.name, "route_item": str(n)}
    app = give(press(opened(PRACTICE, **at), "start-interview"), "")
    assert "Question 2 of 8 is open." in said(app)
    again = reloaded(app, **at)
    assert "Question 2 of 8 is open." in said(again) and "Question 2 of 8 · " in said(again)
    other = press(in_another_tab(app, FRONT), "go-on-interview")
    assert linked(other) == at and "Question 2 of 8 is open." in said(other)
    press(press(other, "end-now"), "keep-card")
    assert item.is_done(held(other), RouteState("2026-11-28T20:00:00Z", ""), "2026-11-29")

    lesson = lessons.lessons()[0]["cache-cost"]
    step = next(n for n in range(1, 99) if lesson.step(n).page.path == "practice")
    in_lesson = lesson.settings(step).to_link()
    app = give(press(opened(PRACTICE, **in_lesson), "start-set"), "")
    other = press(in_another_tab(app, FRONT), "go-on-set")
    assert linked(other) == in_lesson and "Question 1 of 5" in said(other)
    bare = {name: value for name, value in in_lesson.items() if not name.startswith("lesson")}
    same_tab = reloaded(app, **bare)  # asks what no lesson has to explain
    assert "Question 1 of 5" not in said(same_tab) and same_tab.button(key="start-set")
    assert "go-on-set" in keys(same_tab)


def test_a_link_to_other_settings_shows_its_own_start_and_offers_what_is_kept():
    app = press(opened(PRACTICE, **SET), "start-set")
    other = in_another_tab(app, subject="cost", questions="2")
    assert "**2 questions**" in said(other) and "Question 1 of 3" not in said(other)
    assert other.button(key="go-on-set") and "starting another one drops this one" in said(other)
    press(other, "start-set")
    assert "Question 1 of 2" in said(other)
    assert held(other).unfinished["set"].link["subject"] == "cost"
    assert merge(held(app), held(other)) == held(other)

    same_tab = reloaded(app, subject="cost", questions="2")
    assert "Question 1 of 3" not in said(same_tab) and "is running, at question 1 of 3" in sentences(same_tab)
    press(same_tab, "go-on")
    assert "Question 1 of 3" in said(same_tab)


def test_of_an_interview_that_is_kept_the_start_of_another_is_offered_once_it_is_dropped():
    app, _ = mock_with_two_answers()
    other = in_another_tab(app, tab="interview", interview="30")
    labels = [each.label for each in other.button]
    assert "**Go on with the mock interview of 15 minutes: question 3 of 8, 15 minutes left**" in labels
    assert "Start the interview" not in labels
    press(other, "drop-interview-now")
    assert "Start the interview" in [each.label for each in other.button]
    assert merge(held(app), held(other)).unfinished["interview"].ended  # the first tab does not bring it back
    assert held(other).mocks == () and held(other).drills == {}
    app.session_state["progress"] = merge(held(app), held(other))
    assert "Question 3 of 8" not in said(checked(app.run())) and "ended in another tab" in sentences(app)


def test_both_a_set_and_an_interview_are_kept():
    app, _ = mock_with_two_answers()
    other = press(in_another_tab(app, **SET), "start-set")
    assert {*held(other).unfinished} == {"set", "interview"}
    front = in_another_tab(other, FRONT)
    assert [key for key in keys(front) if key.startswith("go-on-")] == ["go-on-interview", "go-on-set"]
    press(front, "go-on-set")
    assert "Question 1 of 3" in said(front)
    front.segmented_control[0].set_value("interview")
    press(checked(front.run()), "go-on-interview")
    assert "Question 3 of 8" in said(front)
    assert not any(each.ended for each in held(front).unfinished.values())


def test_each_button_that_goes_on_says_with_what_and_one_of_them_is_primary():
    app, _ = mock_with_two_answers()
    begun = {"interview-20": RouteState("2026-11-28T20:00:00Z", "2026-11-28T20:00:00Z")}
    kept = replace(held(app), routes=begun, lessons={"mla": LessonState(3)})
    front = opened(FRONT, {"progress": kept})
    labels = [each.label.strip("*") for each in front.button if each.label.strip("*").startswith("Go on")]
    first = routes.routes()["interview-20"].items[0]
    assert labels == [
        "Go on with the mock interview of 15 minutes: question 3 of 8, 15 minutes left",
        f"Go on with “Interview tomorrow: 20 minutes”: {first.title}, {first.minutes} minutes",
        "Go on: 20 minutes, item 1 of 4",
    ]
    primary = [each.key for each in front.main.button if each.proto.type == "primary" and "drop" not in str(each.key)]
    assert primary == ["go-on-interview"]


def test_another_tab_that_goes_on_is_followed():
    app, _ = mock_with_two_answers()
    other = press(in_another_tab(app, **MOCK), "go-on-interview")
    give(other, "")
    app.session_state["progress"] = merge(held(app), held(other))
    assert "Question 4 of 8" in said(checked(app.run()))


def test_a_card_whose_points_are_half_ticked_stands_there_again_until_it_is_graded():
    link = {"tab": "aloud", "card": "bytes-per-token"}
    app = press(opened(PRACTICE, **link), "points")
    for i in (0, 2):
        app.main.checkbox[i].check()
        checked(app.run())
    again = reloaded(app, **link)
    assert [box.value for box in again.main.checkbox][:4] == [True, False, True, False]
    again.segmented_control[0].set_value("drills")
    checked(again.run()).segmented_control[0].set_value("aloud")  # a box that is not drawn loses its value in Streamlit
    assert [box.value for box in checked(again.run()).main.checkbox][:4] == [True, False, True, False]
    other = in_another_tab(app, **link)
    assert not other.main.checkbox and other.button(key="points")  # the points would give the answer away
    assert not [key for key in keys(in_another_tab(app, FRONT)) if key.startswith("go-on-")]
    press(again, "grade-2")
    assert held(again).unfinished["aloud"].ended and not reloaded(again, **link).main.checkbox
    press(press(other, "points"), "next-card")
    assert merge(held(again), held(other)).unfinished["aloud"].ended


def test_code_that_was_typed_stands_there_after_a_reload_and_in_its_own_task(monkeypatch):
    monkeypatch.setattr("attnviz.ui.local_session.refusal", lambda: "")
    code = "def rms_norm(x, scale, eps):\n    return x  # 未完\n"
    app = opened(PRACTICE, tab="write", task="rms-norm")
    app.main.text_area[0].set_value(code)
    checked(app.run())  # not judged
    assert held(app).draft.code == code and "kept in this browser" in said(app)
    assert reloaded(app, tab="write", task="rms-norm").main.text_area[0].value == code
    assert reloaded(app, tab="write", task="gqa").main.text_area[0].value == ""
    app.segmented_control[0].set_value("drills")
    checked(app.run()).segmented_control[0].set_value("write")  # a box that is not drawn loses its value in Streamlit
    assert checked(app.run()).main.text_area[0].value == code
    app.main.text_area[0].set_value("")
    assert checked(app.run()).main.text_area[0].value == "" and held(app).draft.code == ""


def test_of_code_one_is_told_whether_it_stays(monkeypatch):
    monkeypatch.setattr("attnviz.ui.local_session.refusal", lambda: "")
    app = opened(PRACTICE, tab="write", task="rms-norm")
    app.main.text_area[0].set_value("x" * 16_001)
    checked(app.run())
    assert "More than 16,000 bytes are not kept" in said(app) and held(app).draft.code == ""
    assert app.main.text_area[0].value == "x" * 16_001
    blocked = progress._Store()
    blocked.problem = progress.BLOCKED
    refused = opened(PRACTICE, {"progress store": blocked}, tab="write", task="rms-norm")
    assert "loses what is typed here" in said(refused) and "kept in this browser" not in said(refused)


def test_what_this_version_cannot_build_is_dropped_with_a_sentence():
    app = press(opened(PRACTICE, **SET), "start-set")
    kept = held(app).unfinished["set"]
    for changed in (replace(kept, check="00"), Unfinished(kept.id, kept.turn, kept.began, version=2)):
        app.session_state["progress"] = Progress(unfinished={"set": changed})
        again = reloaded(app, **SET)
        assert "cannot be continued" in sentences(again) and again.button(key="start-set")
        assert held(again).unfinished["set"].ended
        press(again, "start-set")
        assert "Question 1 of 3" in said(again) and "cannot be continued" not in sentences(again)


def test_an_interview_of_another_version_is_removed_by_the_press_that_would_go_on_and_one_says_so():
    app, _ = mock_with_two_answers()
    mock = held(app).unfinished["interview"]
    for kept, lost in (
        (replace(mock, check="00"), "Its answers so far do not count."),
        (replace(mock, check="00", given=("",) * 8), "Its score card stays."),
    ):
        front = opened(FRONT, {"progress": Progress(unfinished={"interview": kept})})
        press(front, "go-on-interview")
        (why,) = [each.value for each in front.warning]
        assert why.startswith(
            "The mock interview of 15 minutes cannot be continued: this version of AttnViz asks other"
        )
        assert "It was removed from this browser. " + lost in why and why.endswith("Start a new one.")
        assert front.button(key="start-interview") and "go-on-interview" not in keys(front)
        assert "go-on-interview" not in keys(in_another_tab(front, FRONT))


def test_a_set_that_is_begun_before_the_browser_has_said_anything_goes_on(monkeypatch):
    app = press(opened(PRACTICE, **SET), "start-set")
    press(press(app, "end-now"), "leave")
    monkeypatch.setattr("attnviz.ui.progress.now", lambda: "2099-11-28T20:00:00Z")
    early = give(press(opened(PRACTICE, **SET), "start-set"), "")
    (id,) = [each.id for each in held(early).unfinished.values()]
    early.session_state["progress"] = kept = merge(held(app), held(early))
    assert "Question 1 of 3" in said(checked(early.run())) and sent(early)["here"] == id
    monkeypatch.setattr("streamlit.session_state", {"tab runs": {"set": id}})
    this_tab.take("other", "", kept.unfinished, first=True)
    assert this_tab.runs("set") == id


@pytest.mark.parametrize(
    "left", ["", "7f", "7f nan", "7f inf", "7f -3", "7f 1e999", "other 3", "7f 12 13", " ", "9" * 10**6]
)
def test_a_time_that_cannot_be_read_changes_nothing(left, monkeypatch):
    monkeypatch.setattr("streamlit.session_state", {})
    kept = Unfinished("7f", asked=("k:1",), seconds=900, spent=20.0)
    this_tab.take("7f", left, {"set": kept}, first=True)
    assert this_tab.with_time(kept) == kept and this_tab.runs("set") == "7f"
    this_tab.take("7f", "7f 301.5", {"set": kept}, first=False)
    assert this_tab.with_time(kept).spent == 598.5
    this_tab.take("7f", "7f 900", {"set": kept}, first=False)
    assert this_tab.with_time(kept).spent == 20.0  # no more is left than after the last answer


def test_what_cannot_be_read_is_ignored_on_all_pages():
    nonsense = {"attnviz progress": 1, "unfinished": {"set": {"id": "7f", "asked": ["k:1"], "given": "x"}, "mock": 3}}
    read, problem = parsed(json.dumps(nonsense))
    assert not problem and read == Progress()
    session = {"progress": read, "tab runs": {"set": "7f", "interview": "none"}, "tab noted": "7f nan"}
    for page in (FRONT, HEADS, PRACTICE):
        checked(opened(page, session))


def test_a_file_of_progress_has_nothing_of_it_and_deleting_ends_it():
    app = press(opened(PRACTICE, **SET), "start-set")
    assert held(app).for_file() == Progress()
    app.session_state["progress"] = Progress()  # deleted in another tab
    assert "Question 1 of 3" not in said(checked(app.run()))


def test_where_the_browser_stores_nothing_the_page_says_so_and_the_browser_asks_before_it_closes():
    def asks(app: AppTest) -> bool:
        (clock,) = [each.proto for each in app.get("bidi_component") if each.proto.component_name == "countdown"]
        return json.loads(clock.bytes)["asks"]

    app = opened(PRACTICE, **MOCK)
    assert "its clock stands still while the page is closed" in said(app)
    assert not asks(press(app, "start-interview"))
    blocked = progress._Store()
    blocked.problem = progress.BLOCKED
    refused = opened(PRACTICE, {"progress store": blocked}, **MOCK)
    alone = opened(PRACTICE, **MOCK, only="practice-interview")  # without the component that keeps anything
    for app in (refused, alone):
        assert "to load the page again ends it" in said(app) and "stands still" not in said(app)
    assert asks(press(refused, "start-interview"))
