"""The beginning and the end of a route, without a browser: its plan and day, what was skipped, due, and begun again."""

import json
from dataclasses import replace
from datetime import timedelta

import pytest
from streamlit.delta_generator import DeltaGenerator

from attnviz.compute import lessons, routes
from attnviz.exercises import CardState
from attnviz.phrases import day as written_day
from attnviz.practice.drills import KINDS
from attnviz.session.progress import InterviewDay, LessonState, Missed, MistakeState, Progress, RouteState
from tests.pages import COST, FRONT, LESSONS, MISTAKES, PRACTICE, checked, linked, opened, said
from tests.ui.test_lessons_pages import keyed
from tests.ui.test_routes import (
    AT,
    ROUTE,
    TODAY,
    buttons,
    minutes_left,
    next_is_primary,
    press,
    primaries,
    state_of,
    through,
)  # fmt: skip

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("no_links_to_pages")]


def test_what_was_skipped_is_said_at_the_end_and_one_press_leads_back_to_it():
    first, mistake, aloud, last = ROUTE.items
    kept = Progress(through(first.link["lesson"]), routes={ROUTE.name: RouteState(AT, AT, (last.id,))})
    app = opened(MISTAKES, {"progress": kept}, **mistake.link, route=ROUTE.name, route_item="2")
    press(app, "route-next")
    assert linked(app)["route_item"] == "3" and app.button(key="route-next").label == "Skip to the end"
    press(app, "route-next")
    assert f"## {ROUTE.title}: 2 done, 2 skipped" in said(app)
    assert f"Skipped: “{mistake.title}”, “{aloud.title}”." in said(app).replace("\\", "")
    assert primaries(app) == [f"Back to: {mistake.title}"] and "route-again" not in buttons(app)
    assert f"**{ROUTE.title}** · 4 items, 2 of 4 done, 2 skipped" in [each.label for each in app.expander]
    press(app, "route-skipped")
    assert linked(app)["route_item"] == "2" and f"## {mistake.title}" in said(app)
    assert app.button(key="route-next").label == f"Skip to: {aloud.title}"
    front = opened(FRONT, {"progress": app.session_state["progress"]})
    assert front.button(key="go-on-route").label.startswith(f"**Go on with “{ROUTE.title}”: {mistake.title}")


def test_to_begin_again_is_from_the_first_item_with_other_questions():
    of = routes.routes()["interview-60"]
    lesson_names = [item.link["lesson"] for item in of.items if "lesson" in item.link]
    cards = {item.link["card"]: CardState("2199-01-01", 4, 2.5, 1) for item in of.items if "card" in item.link}
    mock = {"at": AT, "id": "x"}
    state = RouteState(AT, AT, tuple(sorted(item.id for item in of.items)), 1, "2026-11-28")
    found = {of.items[1].link["mistake"]: MistakeState(True, AT, AT)}
    kept = Progress(through(*lesson_names), found, cards=cards, mocks=(mock,), routes={of.name: state})
    app = opened(FRONT, {"progress": kept})
    press(app, "begin-interview-60")
    assert (linked(app)["route_run"], linked(app)["lesson"]) == ("2", lesson_names[0])
    assert "route_item" not in linked(app) and linked(app).get("lesson_step", "1") == "1"
    assert f"item 1 of {len(of.items)}, {of.minutes} minutes left" in said(app)
    again = routes.route(of.name, 2)
    for number, (before, item) in enumerate(zip(of.items, again.items, strict=True), 1):
        s = routes.place(again, number, app.session_state["progress"])[1]
        assert s.route_run == 2 and item.id == before.id
        if "mistake" in item.link:
            assert s.mistake != before.opened.mistake
        if "question_set" in item.link:
            assert s.question_set != before.opened.question_set
    s = routes.place(again, 2, app.session_state["progress"])[1]
    app = opened(MISTAKES, {"progress": app.session_state["progress"]}, **s.to_link())
    assert not next_is_primary(app) and f"Item 2 of {len(of.items)}" in said(app)


def test_a_running_interview_says_before_one_leaves_it_that_it_stays_unfinished():
    of = routes.routes()["interview-60"]
    number, item = next((n, each) for n, each in enumerate(of.items, 1) if each.link.get("tab") == "interview")
    app = opened(PRACTICE, **item.link, route=of.name, route_item=str(number))
    press(app, "start-interview")
    assert "Question 1 of 8 is open. “Skip” leaves the interview unfinished" in said(app)
    press(app, "route-next")
    assert state_of(app, of.name).skipped == (item.id,) and item.id not in state_of(app, of.name).done
    assert "practice attempt" not in app.session_state  # so that its clock waits
    app = opened(PRACTICE, {"progress": app.session_state["progress"]}, **item.link)
    assert "question 1 of 8" in app.button(key="go-on-interview").label


def test_a_route_before_an_interview_sets_its_day_unless_one_is_set():
    app = opened(FRONT)
    press(app, "begin-interview-20")
    tomorrow = (TODAY + timedelta(days=1)).isoformat()
    assert app.session_state["progress"].interview.day == tomorrow
    assert f"Your interview is set to {written_day(tomorrow)}." in app.toast[0].value
    app = opened(PRACTICE, {"progress": app.session_state["progress"]}, **ROUTE.items[2].link, route=ROUTE.name,
                 route_item="3")  # fmt: skip
    press(app, "points")
    assert "comes back tomorrow, the day of your interview" in said(app)
    for day, then in (((TODAY - timedelta(days=2)).isoformat(), tomorrow), ("2199-05-03", "2199-05-03")):
        app = opened(FRONT, {"progress": Progress(interview=InterviewDay(day, AT))})
        press(app, "begin-interview-60")
        assert app.session_state["progress"].interview.day == then


def test_what_comes_back_takes_the_minutes_of_what_is_due_and_is_done_once_nothing_is():
    of = routes.routes()["interview-60"]
    number, item = len(of.items), of.items[-1]
    due = {card: CardState(TODAY.isoformat(), 0, 2.5, 1) for card in ("why-root-d", "swiglu")}
    at = item.link | {"route": of.name, "route_item": str(number)}
    app = opened(PRACTICE, {"progress": Progress(cards=due)}, **at)
    assert "2 answers due today." in said(app) and app.button(key="route-next").label != "Finish"
    assert minutes_left(app) == of.minutes - item.minutes + 2 * 3 and not next_is_primary(app)
    press(app, "points")
    press(app, "grade-3")
    press(app, "points")
    press(app, "grade-3")
    assert "This item is done." in said(app) and next_is_primary(app)
    assert state_of(app, of.name).done == (item.id,) and "due-next" not in buttons(app)
    others = RouteState(AT, AT, tuple(each.id for each in of.items[:-1]))
    front = opened(FRONT, {"progress": Progress(cards=due, routes={of.name: others})})
    assert front.button(key="go-on-route").label == f"**Go on with “{of.title}”: {item.title}, 6 minutes**"


def test_the_end_says_what_is_due_today_and_what_more_tomorrow_and_has_one_primary_button():
    tomorrow = (TODAY + timedelta(days=1)).isoformat()
    later = ("swiglu", "drill:wavelength", "mistake:rope_on_values")
    cards = {"why-root-d": CardState(TODAY.isoformat(), 0, 2.5, 1)}
    cards |= {id: CardState(tomorrow, 0, 2.5, 1) for id in later}
    through_ = {ROUTE.name: RouteState(AT, AT, tuple(item.id for item in ROUTE.items))}
    app = opened(LESSONS, {"progress": Progress(cards=cards, routes=through_)}, route=ROUTE.name, route_item="4")
    assert "1 answer due today. Due tomorrow as well: 1 answer, 1 drill and 1 mistake." in said(app)
    assert primaries(app) == ["What is due (1)"]
    press(app, "route-due")
    assert linked(app)["tab"] == "due"
    app = opened(LESSONS, {"progress": Progress(routes=through_)}, route=ROUTE.name, route_item="4")
    assert primaries(app) == ["Leave"] and "due" not in said(app).split(ROUTE.title)[-1]


def test_the_end_begins_the_missed_drills_at_once():
    through_ = {ROUTE.name: RouteState(AT, AT, tuple(item.id for item in ROUTE.items))}
    missed = Missed(2, (("wavelength:17", 0, 4), ("size_of_a_group:19", 0, 5)))
    kept = Progress(drills={"wavelength": (0, 1), "size_of_a_group": (0, 1)}, missed=missed, routes=through_)
    app = opened(LESSONS, {"progress": kept}, route=ROUTE.name, route_item="4")
    assert primaries(app) == ["Repeat 2 missed drills"]
    press(app, "route-missed")
    assert "Question 1 of 2" in said(app) and linked(app)["tab"] == "drills"


def test_missed_drills_that_are_due_are_counted_and_asked_once():
    """On the day of the interview what is missed is due the same day: 12 due, 10 of them drills, and no other count."""
    day = TODAY.isoformat()
    kinds = [*KINDS][:11]
    waiting = Missed(11, tuple((f"{kind}:17", 0, 14) for kind in kinds))
    again = {f"drill:{kind}": CardState(day, 0, 2.3, 1) for kind in kinds[:10]}
    cards = again | dict.fromkeys(("swiglu", "why-root-d"), CardState(day, 1, 2.5, 1))
    through_ = {ROUTE.name: RouteState(AT, AT, tuple(item.id for item in ROUTE.items))}
    kept = Progress(drills=dict.fromkeys(kinds, (0, 1)), missed=waiting, cards=cards, routes=through_,
                    interview=InterviewDay(day, AT))  # fmt: skip
    app = opened(LESSONS, {"progress": kept}, route=ROUTE.name, route_item="4")
    assert "12 due today: 2 answers, 10 drills." in said(app)
    assert buttons(app)["route-due"] == "What is due (12)" and "route-missed" not in buttons(app)
    app = opened(PRACTICE, {"progress": kept})
    assert "12 due today: 2 answers, 10 drills." in said(app) and buttons(app)["again"] == "Repeat 1 missed drill"
    press(app, "again")
    assert app.session_state["practice attempt"].questions[0].kind == kinds[10] and "Question 1 of 1" in said(app)
    many = [*KINDS][:13]
    waiting = Missed(13, tuple((f"{kind}:17", 0, 14) for kind in many))
    app = opened(PRACTICE, {"progress": Progress(drills=dict.fromkeys(many, (0, 1)), missed=waiting)})
    assert buttons(app)["again"] == "Repeat 10 of 13 missed drills"


def test_while_missed_drills_are_repeated_in_the_place_of_an_items_set_the_bar_says_so():
    number, item = next((n, each) for n, each in enumerate(ROUTE.items, 1) if "subject" in each.link)
    missed = Missed(1, (("wavelength:17", 0, 4),))
    kept = Progress(drills={"wavelength": (0, 1)}, missed=missed)
    app = opened(PRACTICE, {"progress": kept}, **item.link, route=ROUTE.name, route_item=str(number))
    press(app, "again")
    assert "Question 1 of 1" in said(app) and "Press Start" not in said(app) and "missed are repeated" in said(app)
    next(button for button in app.button if button.label == "I do not know").click()
    press(checked(app.run()), "next")
    assert "0 of 1 right" in said(app) and "Press Start" not in said(app) and not next_is_primary(app)
    press(app, "leave")
    assert "Press Start" in said(app) and app.button(key="start-set")


def test_a_routes_title_is_a_name_and_what_is_due_changes_the_minutes_beside_it():
    of = routes.routes()["interview-60"]
    due = {"swiglu": CardState(TODAY.isoformat(), 0, 2.3, 2)}
    state = RouteState(AT, AT, (of.items[0].id,))
    app = opened(MISTAKES, {"progress": Progress(cards=due, routes={of.name: state})}, **of.items[1].link,
                 route=of.name, route_item="2")  # fmt: skip
    press(app, "route-fold")
    assert f"{of.title}, item 2 of 10, {60 - 8 + 3} minutes left" in said(app)
    labels = [each.label for each in opened(LESSONS, {"progress": Progress(cards=due)}).expander]
    assert f"**{of.title}** · 10 items" in labels and "**Interview today** · 4 items, 9 minutes today" in labels


def test_the_plan_of_60_minutes_or_of_the_route_that_was_begun_is_open_first(monkeypatch):
    first = []
    tabs = DeltaGenerator.tabs
    monkeypatch.setattr(DeltaGenerator, "tabs", lambda *a, **k: first.append(k.get("default")) or tabs(*a, **k))
    for kept in (Progress(), Progress(routes={"interview-week": RouteState(AT, AT)})):
        app = opened(FRONT, {"progress": kept})
        app.session_state["plans"] = True
        checked(app.run())
    assert [each for each in first if each] == ["60 minutes", "a week"]


def test_the_plan_is_shown_before_one_begins(monkeypatch):
    links = []
    monkeypatch.setattr("streamlit.page_link", lambda file, label="", query_params=None, **_: links.append(label))
    app = opened(FRONT)
    assert not any("Lesson: " in label for label in links)
    app.session_state["plans"] = True
    checked(app.run())
    planned = [routes.route(name) for name in ("interview-20", "interview-60", "interview-week")]
    assert all(any(of.items[-1].title in label for label in links) for of in planned)
    assert len(links) > sum(len(of.items) for of in planned)


def test_on_the_day_of_the_interview_the_front_page_offers_what_is_due_and_the_numbers():
    day, of = TODAY.isoformat(), routes.route("interview-today")
    cards = {id: CardState(day, 1, 2.5, 1) for id in ("why-root-d", "drill:wavelength", "mistake:rope_on_values")}
    kept = Progress(cards=cards, interview=InterviewDay(day, AT))
    app = opened(FRONT, {"progress": kept})
    assert [b.key for b in app.button if b.proto.type == "primary"] == ["begin-interview-today"]
    press(app, "begin-interview-today")
    assert linked(app)["tab"] == "due" and "3 due today: 1 answer, 1 drill, 1 mistake." in said(app)
    assert minutes_left(app) == of.minutes - of.items[0].minutes + 3 + 2 + 2
    cost = opened(COST, **of.items[1].link, route=of.name, route_item="2")
    assert "2 × 32 × 8 KV heads × 128 × 2 bytes = 128 KiB per token." in " ".join(said(cost).split())  # 131,072 bytes
    through_ = RouteState(AT, AT, tuple(item.id for item in of.items), 1, day)
    gone = buttons(opened(FRONT, {"progress": replace(kept, routes={of.name: through_})}))
    assert gone["begin-interview-today"].startswith("Begin again: ") and "begin-interview-60" not in gone
    assert "begin-interview-today" not in buttons(opened(FRONT, {"progress": replace(kept, interview=InterviewDay())}))


def test_the_front_page_announces_the_minutes_of_the_day_as_they_are_one_press_later():
    day = TODAY.isoformat()
    aloud = ("why-root-d", "swiglu", "absorption", "bytes-per-token", "gqa-same-flops")
    ids = (*aloud, "drill:wavelength", "mistake:rope_on_values")
    kept = Progress(cards={id: CardState(day, 1, 2.5, 1) for id in ids}, interview=InterviewDay(day, AT))
    app = opened(FRONT, {"progress": kept})
    minutes = 5 * 3 + 2 * 2 + 3 * 2  # answers, missed ones, three items with numbers
    label = f"**Your interview is today: {minutes} minutes for 7 questions that are due, and the numbers to remember**"
    assert app.button(key="begin-interview-today").label == label
    assert "## Interview today" in said(app) and "Interview tomorrow?" not in said(app)
    press(app, "begin-interview-today")
    assert minutes_left(app) == minutes
    press(app, "route-fold")
    assert f"Interview today, item 1 of 4, {minutes} minutes left" in said(app)
    app = opened(FRONT, {"progress": replace(kept, cards={})})
    label = "**Your interview is today: 6 minutes for the numbers to remember**"
    assert app.button(key="begin-interview-today").label == label
    press(app, "begin-interview-today")
    assert minutes_left(app) == 6


def test_once_the_day_is_done_the_front_page_says_so_and_what_is_due_is_not_done():
    day, of = TODAY.isoformat(), routes.route("interview-today")
    through_ = RouteState(AT, AT, tuple(item.id for item in of.items), 1, day)
    kept = Progress(interview=InterviewDay(day, AT), routes={of.name: through_})
    assert (
        "All that is planned for the day of your interview is done."
        in opened(FRONT, {"progress": kept}).success[0].value
    )
    app = opened(FRONT, {"progress": replace(kept, cards={"swiglu": CardState("2199-01-01", 40, 2.5, 1)})})
    assert "due-next" not in buttons(app) and not [key for key in buttons(app) if "60" in key]  # nothing more is asked
    due = opened(FRONT, {"progress": replace(kept, cards={"swiglu": CardState(day, 1, 2.5, 1)})})
    assert not due.success and " done" not in due.info[0].value and "1 question has come back" in due.info[0].value
    assert due.button(key="due").label.startswith("**1 answer due today")


def test_the_button_that_the_message_on_the_day_names_is_in_the_bar_of_a_lesson_too():
    app = opened(FRONT)
    press(app, "begin-interview-20")
    assert "lesson" in linked(app) and "“All items” in the bar" in app.toast[0].value
    assert app.button(key="lesson-home").label == "All items"


def test_each_number_of_the_day_is_marked_where_it_is_drawn_and_is_said_as_the_page_says_it():
    of = routes.route("interview-today")
    marked = []
    for number, item in enumerate(of.items[1:], 2):
        shown = {element.key for element in item.page.shown(item.link["tab"]) if element.drawing}
        assert item.target in shown
        marked.append(item.target)
        assert not opened(COST, **item.link, route=of.name, route_item=str(number)).exception
    assert len({*marked}) == 3
    step = " ".join(said(opened(COST, **of.items[3].link, route=of.name, route_item="4")).split())
    assert "reads 13.98 GiB of weights and 1 GiB of cache at 3.35 TB" in step and "16.1 GB" not in step


def announced(app) -> tuple[str, str]:
    """Return what a screen reader is told of a route: the name of its bar, and its item."""
    sent = [json.loads(each.proto.bytes) for each in app.get("bidi_component") if b'"announcement"' in each.proto.bytes]
    (mark,) = sent
    return mark["label"], mark["announcement"]


def test_each_item_is_announced_also_one_without_a_mark_and_so_is_the_end():
    of, number = routes.route("interview-today"), 2
    app = opened(COST, **of.items[number - 1].link, route=of.name, route_item=str(number))
    label, text = announced(app)
    assert label == f"Route: {of.title}" and text.startswith(f"Item 2 of 4: {of.items[1].title}. Two vectors × ")
    assert "= 128 KiB" in text and "{" not in text
    mistake = ROUTE.items[1]
    app = opened(MISTAKES, **mistake.link, route=ROUTE.name, route_item="2")
    assert announced(app) == (f"Route: {ROUTE.title}", f"Item 2 of 4: {mistake.title}. {mistake.text}")
    through_ = {ROUTE.name: RouteState(AT, AT, tuple(item.id for item in ROUTE.items))}
    app = opened(LESSONS, {"progress": Progress(routes=through_)}, route=ROUTE.name, route_item="4")
    assert announced(app)[1].startswith(f"{ROUTE.title}: done on ") and "All 4 items are done." in announced(app)[1]


def test_a_link_to_an_item_scrolls_to_what_it_marks_and_not_to_the_tabs_as_well(monkeypatch):
    marks = []
    monkeypatch.setattr("attnviz.ui.frame.tab_mark", lambda *_, **__: marks.append("tabs"))
    of = routes.route("interview-today")
    opened(COST, **of.items[1].link, route=of.name, route_item="2")
    assert marks == []
    opened(COST, **of.items[1].link)
    assert marks == ["tabs"]


def test_what_this_version_does_not_ask_any_more_is_due_nowhere():
    day, of = TODAY.isoformat(), routes.route("interview-today")
    gone = dict.fromkeys(("no-such-card", "drill:no_such_kind", "mistake:no_such"), CardState(day, 1, 2.5, 1))
    kept = Progress(cards=gone, interview=InterviewDay(day, AT))
    app = opened(FRONT, {"progress": kept})
    minutes = of.minutes - of.items[0].minutes  # nothing is due
    label = f"**Your interview is today: {minutes} minutes for the numbers to remember**"
    assert app.button(key="begin-interview-today").label == label and "due" not in buttons(app)
    through_ = {of.name: RouteState(AT, AT, tuple(item.id for item in of.items), 1, day)}
    done = replace(kept, routes=through_)
    assert (
        "All that is planned for the day of your interview is done."
        in opened(FRONT, {"progress": done}).success[0].value
    )
    assert primaries(opened(LESSONS, {"progress": done}, route=of.name, route_item="4")) == ["Leave"]
    cards = gone | {"swiglu": CardState(day, 1, 2.5, 1), "why-root-d": CardState(day, 1, 2.5, 1)}
    app = opened(COST, {"progress": Progress(cards=cards)}, **of.items[1].link, route=of.name, route_item="2")
    assert minutes_left(app) == minutes + 2 * 3


def test_an_item_that_asks_nothing_is_shown_whole_in_a_wide_window() -> None:
    for route, number, frame in (("interview-today", 4, "bar-read"), ("interview-20", 2, "bar-brief")):
        item = routes.route(route).item(number)
        app = opened(item.page.file, **item.link, route=route, route_item=str(number))
        below = {key for key, _ in keyed(app._tree[3])}  # streamlit's container at the bottom
        assert {frame} == {"bar-read", "bar-brief", "bar-whole"} & below


def test_a_lessons_step_whose_set_is_done_asks_for_nothing() -> None:
    step = lessons.lesson("cache-cost").step(7)
    at = {**step.link, "lesson": "cache-cost", "lesson_step": "7"}
    assert "Press Start." in said(opened(PRACTICE, **at))
    through = Progress({"cache-cost": LessonState(7, "2026-11-28")})
    assert "This step is done." in said(app := opened(PRACTICE, {"progress": through}, **at))
    assert "Press Start." not in said(app)
