"""The route bar without a browser: it leads on, skips what is done, and goes on where it was."""

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from attnviz.compute import due, lessons, mistakes, routes, workshop
from attnviz.compute.view import View
from attnviz.exercises import MISTAKE, CardState
from attnviz.mistakes import all_mistakes
from attnviz.phrases import day as written_day
from attnviz.session.progress import LessonState, MistakeState, Progress, RouteState
from attnviz.session.route import NOT_BEGUN
from attnviz.session.settings import Settings
from tests.pages import FRONT, HEADS, LESSONS, MISTAKES, PRACTICE, checked, linked, opened, said, sentences

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("no_links_to_pages")]

AT = "2026-11-28T07:00:00Z"
TODAY = datetime.now(UTC).date()  # AppTest names no time zone
ROUTE = routes.routes()["interview-20"]


def press(app, key):
    app.button(key=key).click()
    checked(app.run())


def through(*names: str) -> dict:
    return {name: LessonState(len(lessons.lesson(name).steps), "2026-11-28") for name in names}


def test_a_route_begins_on_the_front_page_with_its_first_item():
    app = opened(FRONT)
    press(app, "begin-interview-20")
    assert linked(app)["lesson"] == ROUTE.items[0].link["lesson"] and linked(app)["route"] == "interview-20"
    steps = len(lessons.lesson(ROUTE.items[0].link["lesson"]).steps)
    assert f"Step 1 of {steps} · item 1 of {len(ROUTE.items)}, {ROUTE.minutes} minutes left" in said(app)
    press(app, "lesson-fold")  # all of it
    assert f"{ROUTE.title}, item 1 of 4, {ROUTE.minutes} minutes left (4 items not done)" in said(app)
    (state,) = app.session_state["progress"].routes.values()
    assert state.began == state.at and not state.done


def state_of(app, name: str = ROUTE.name) -> RouteState:
    return app.session_state["progress"].routes[name]


def buttons(app) -> dict:
    return {str(each.key): each.label for each in app.button}


def primaries(app) -> list[str]:
    return [each.label for each in app.button if each.proto.type == "primary" and "route-" in str(each.key)]


def test_it_passes_over_what_is_done_and_next_leaves_an_item_as_skipped():
    first, mistake, aloud, last = ROUTE.items
    kept = Progress(through(first.link["lesson"]), routes={"interview-20": RouteState(AT, AT)})
    app = opened(LESSONS, {"progress": kept})
    press(app, "begin-interview-20")
    assert linked(app)["route_item"] == "2" and f"## {mistake.title}" in said(app)
    left = ROUTE.minutes - first.minutes
    assert f"Item 2 of 4, {left} minutes left" in said(app)
    assert app.button(key="route-next").label == f"Skip to: {aloud.title}"
    press(app, "route-next")
    assert linked(app)["route_item"] == "3"
    assert (state_of(app).done, state_of(app).skipped) == ((), (mistake.id,))
    press(app, "route-back")
    assert linked(app)["route_item"] == "2"
    press(app, "skip-line")
    press(app, "skip-mistake")
    assert state_of(app).done == (mistake.id,) and "skipped" not in said(app)
    assert app.button(key="route-next").label == f"Next: {aloud.title}"


def test_back_leads_to_the_last_step_of_the_lesson_before_and_to_the_item_before_a_lesson():
    of = routes.routes()["interview-60"]
    name, steps = of.items[2].link["lesson"], len(lessons.lesson(of.items[2].link["lesson"]).steps)
    kept = Progress(through(name))
    app = opened(PRACTICE, {"progress": kept}, **of.items[3].link, route=of.name, route_item="4")
    press(app, "route-back")
    assert (linked(app)["lesson"], linked(app)["lesson_step"]) == (name, str(steps))
    app = opened(LESSONS, {"progress": Progress()}, lesson=name, route=of.name, route_item="3")
    press(app, "route-back")
    assert linked(app)["route_item"] == "2" and "lesson" not in linked(app)


def test_the_last_item_ends_it_and_says_so():
    first, mistake, aloud, last = ROUTE.items
    kept = Progress(
        through(first.link["lesson"]), {mistake.link["mistake"]: MistakeState(True, AT, AT)},
        routes={"interview-20": RouteState(AT, AT, (aloud.id,))},
    )  # fmt: skip
    app = opened(MISTAKES, {"progress": kept}, route="interview-20", route_item="4")
    assert app.button(key="route-next").label == "Skip to the end"
    kept = replace(kept, routes={ROUTE.name: RouteState(AT, AT, (aloud.id, last.id))})
    app = opened(MISTAKES, {"progress": kept}, route="interview-20", route_item="4")
    assert f"## {ROUTE.title}: done" in said(app)
    press(app, "route-again")
    assert state_of(app).began > AT and state_of(app).round == 2
    assert linked(app)["lesson"] == first.link["lesson"] and "route_item" not in linked(app)


def test_the_last_step_of_a_lesson_leads_to_the_next_item():
    name = ROUTE.items[0].link["lesson"]
    app = opened(LESSONS, lesson=name, lesson_step="99", route="interview-20")
    press(app, "route-next")
    assert "lesson" not in linked(app) and linked(app)["route_item"] == "2"


def test_a_bare_link_opens_the_item_and_an_unknown_route_is_told():
    app = opened(FRONT, route="interview-20", route_item="3")
    assert linked(app)["card"] == "gqa-same-flops" and f"## {ROUTE.items[2].title}" in said(app)
    app = opened(LESSONS, route="no-such")
    assert "There is no route “no-such”." in sentences(app)
    press(app, "route-leave")
    assert linked(app) == {}


def test_the_list_of_routes_says_how_far_each_is():
    kept = Progress(through("shared-kv-heads"), routes={"interview-20": RouteState(AT, AT)})
    app = opened(LESSONS, {"progress": kept})
    labels = {each.key: each.label for each in app.button if str(each.key).startswith("begin-")}
    assert labels.pop("begin-interview-20") == "Go on"
    assert labels == {f"begin-interview-{name}": "Begin" for name in ("today", "60", "week")}
    assert f"**{ROUTE.title}** · 4 items, 1 of 4 done" in [each.label for each in app.expander]


def test_the_plan_of_a_workshop_has_a_code_for_each_step_and_the_answers_at_its_end():
    app = opened(LESSONS, tab="workshop")
    plan = workshop.plan()
    steps = [step for item in plan.items for step in workshop.steps(item)]
    assert len(app.get("image")) == len(steps)
    text = said(app).replace("\\", "")
    links = [each.value.replace("\\", "") for each in app.main.markdown]
    before, answers = text.partition("## Answers")[::2]
    for step in steps:
        assert f"[/{step.address}](/{step.address})" in links
        for _, answer in step.asked:
            beginning = answer[:20].replace("\\", "")
            assert beginning not in before and beginning in answers
    assert "1:28 · What to take home" in before


def test_a_graded_card_of_a_route_stays_and_says_where_next_leads():
    day = (TODAY + timedelta(days=1)).isoformat()
    app = opened(PRACTICE, tab="aloud", card="gqa-same-flops", route="interview-60", route_item="4")
    press(app, "points")
    press(app, "grade-2")
    assert app.session_state["progress"].cards["gqa-same-flops"].due == day
    assert linked(app)["card"] == "gqa-same-flops"
    (saved,) = app.success
    assert saved.value == f"Saved: comes back on {written_day(day)}. Next: RoPE in six pictures."
    assert {"grade-2", "next-card", "points"}.isdisjoint(each.key for each in app.button)
    press(app, "answer-again")
    assert not app.success and app.button(key="points")


def test_a_route_that_is_through_says_when_and_begins_again_only_when_asked():
    of = routes.routes()["interview-60"]
    due = {item.link["card"]: CardState("2026-11-29", 1, 2.5, 1) for item in of.items if "card" in item.link}
    state = RouteState(AT, AT, tuple(sorted(item.id for item in of.items)), 1, "2026-11-28")
    kept = Progress(cards=due, routes={of.name: state})
    app = opened(FRONT, {"progress": kept})
    assert app.button(key="begin-interview-60").label == "Begin again: 60 minutes"
    assert "Done on 28 November: 60 minutes." in [each.value for each in app.main.caption]
    app = opened(LESSONS, {"progress": kept})
    assert app.button(key="begin-interview-60").label == "Begin again"
    assert f"**{of.title}** · 10 items, done on 28 November" in [each.label for each in app.expander]
    app = opened(MISTAKES, {"progress": kept}, route=of.name, route_item="3")
    assert f"## {of.title}: done on 28 November" in said(app)
    assert app.session_state["progress"].routes[of.name] == state
    press(app, "route-again")
    assert app.session_state["progress"].routes[of.name].round == 2


def next_is_primary(app) -> bool:
    return app.button(key="route-next").proto.type == "primary"


def test_next_is_not_primary_in_a_set_until_it_is_ended():
    of = routes.routes()["interview-20"]
    number, item = next((n, each) for n, each in enumerate(of.items, 1) if "subject" in each.link)
    app = opened(PRACTICE, **item.link, route=of.name, route_item=str(number))
    assert not next_is_primary(app) and "Press Start." in said(app)
    press(app, "start-set")
    for n, label in ((1, "Next question"), (2, "Score card")):
        assert (
            not next_is_primary(app) and f"Question {n} of 2 is open." in said(app) and "Press Start" not in said(app)
        )
        next(button for button in app.button if button.label == "I do not know").click()
        checked(app.run())
        assert not next_is_primary(app) and f"Question {n} of 2 is answered: “{label}” goes on." in said(app)
        press(app, "next")
    assert next_is_primary(app) and "This item is done." in said(app)
    assert app.session_state["progress"].routes[of.name].done == (item.id,)
    again = {"progress": Progress(routes={of.name: RouteState(AT, AT)})}  # it is the page that tells that it has ended
    again |= {name: app.session_state[name] for name in ("practice attempt", "practice kept form")}
    again["progress"] = replace(again["progress"], unfinished=app.session_state["progress"].unfinished)
    app = opened(PRACTICE, again, **item.link, route=of.name, route_item=str(number))
    assert "of 2 right" in said(app) and "Press Start" not in said(app) and next_is_primary(app)


def test_next_is_not_primary_in_a_mistake_until_its_question_is_answered():
    app = opened(MISTAKES, mistake="groups_mixed_up", hunt="1", route="interview-60", route_item="2")
    assert not next_is_primary(app)
    name, of = "groups_mixed_up", routes.route("interview-60")
    line = min(mistakes.excerpt(View(Settings(mistake=name))).mistaken)
    checked(app.radio(key=f"line-{name}").set_value(line).run())
    assert not next_is_primary(app) and "Now answer the question below it" in said(app)
    assert app.button(key="route-next").label.startswith("Skip to: ") and "Item 2 of 10, 60 minutes left" in said(app)
    assert MISTAKE + name not in app.session_state["progress"].cards
    answer = all_mistakes()[name].answer
    for given in ((answer + 1) % 3, answer):
        checked(app.radio(key=f"answer-{name}").set_value(given).run())
    assert next_is_primary(app) and "This item is done." in said(app)
    kept = app.session_state["progress"]
    assert kept.mistakes[name].predicted and of.item(2).is_done(kept, NOT_BEGUN, TODAY.isoformat())
    tomorrow = (TODAY + timedelta(days=1)).isoformat()
    card = kept.cards[MISTAKE + name]
    assert (card.due, card.missed) == (tomorrow, due.EFFECT)  # what was missed comes back
    asked = due.question(MISTAKE + name, card)
    assert asked.answer.options == all_mistakes()[name].answers and due.missed_in(asked, "") == due.EFFECT
    assert due.question(MISTAKE + name, replace(card, missed="")).answer.code  # a missed line is asked for

    app = opened(MISTAKES, mistake=name, hunt="1", route="interview-60", route_item="2")
    press(app, "skip-line")
    assert not next_is_primary(app) and "The line is shown. Now answer the question below it" in said(app)
    press(app, "skip-mistake")
    assert next_is_primary(app) and "This item is done." in said(app)


def test_next_is_not_primary_in_an_answer_aloud_until_it_is_graded():
    app = opened(PRACTICE, tab="aloud", card="gqa-same-flops", route="interview-60", route_item="4")
    assert not next_is_primary(app)
    press(app, "points")
    assert not next_is_primary(app) and "choose how well you said it" in said(app)
    press(app, "grade-0")
    assert next_is_primary(app) and app.success[0].value.startswith("Saved: comes back today.")
    (item,) = app.session_state["progress"].routes["interview-60"].done
    assert item == "aloud-why-gqa-decodes-faster", "done, although it is due again today"


def test_a_set_that_runs_does_not_stand_in_the_place_of_another_items_set():
    at, other = {"subject": "cost", "level": "2", "questions": "2"}, {"subject": "shapes", "level": "2"}
    app = opened(PRACTICE, **at, question_set="3", route="interview-20", route_item="4")
    press(app, "start-set")
    running = app.session_state["practice attempt"]
    app = opened(PRACTICE, {"practice attempt": running}, **other, route="interview-week", route_item="9")
    assert "Question 1 of 2" not in said(app) and app.button(key="start-set")
    assert "is running, at question 1 of 2. Its answers are counted" in app.info[0].value
    press(app, "go-on")
    assert linked(app)["subject"] == "cost" and "start-set" not in [each.key for each in app.button]


def test_the_front_page_goes_on_with_the_next_item_and_what_is_due():
    assert {"due", "go-on-route"}.isdisjoint(each.key for each in opened(FRONT).button)
    first, mistake, aloud, _ = ROUTE.items
    kept = Progress(through(first.link["lesson"]), routes={ROUTE.name: RouteState(AT, AT)})
    app = opened(FRONT, {"progress": kept})
    button = app.button(key="go-on-route")
    assert button.label == f"**Go on with “{ROUTE.title}”: {mistake.title}, {mistake.minutes} minutes**"
    assert button.proto.type == "primary"
    card = {aloud.link["card"]: CardState(TODAY.isoformat(), 1, 2.5, 1)}
    app = opened(FRONT, {"progress": replace(kept, cards=card)})
    assert app.button(key="due").label == "**1 answer due today: Sharing keys and values**"
    assert [app.button(key=key).proto.type for key in ("due", "go-on-route")] == ["primary", "secondary"]
    press(app, "go-on-route")
    assert linked(app)["route_item"] == "2"


def test_the_items_of_a_route_are_links_with_what_is_done_and_what_is_next(monkeypatch):
    links = []
    monkeypatch.setattr(
        "streamlit.page_link", lambda file, label="", query_params=None, **_: links.append((label, query_params))
    )
    first, mistake, aloud, questions = ROUTE.items
    kept = Progress(through(first.link["lesson"]), routes={ROUTE.name: RouteState(AT, AT, (aloud.id,))})
    opened(LESSONS, {"progress": kept})
    of = {link.get("route_item", "1"): label for label, link in links if link and link.get("route") == ROUTE.name}
    assert len(of) == 4 and "8 minutes · done" in of["1"]
    assert of["2"].replace("\\", "") == f"0:08 · {mistake.title}, 3 minutes · **next**"
    assert of["3"].endswith("· done") and of["4"] == f"0:14 · {questions.title}, 6 minutes"


def test_only_the_mistake_of_the_item_is_shown_until_one_asks_for_the_list():
    at = {"mistake": "groups_mixed_up", "hunt": "1", "route": "interview-60", "route_item": "2"}
    app = opened(MISTAKES, **at)
    assert not [each for each in app.radio if str(each.key).startswith("list-")]
    press(app, "skip-line")
    press(app, "skip-mistake")
    assert "next-mistake" not in [each.key for each in app.button]
    app = opened(MISTAKES, **at)
    press(app, "list-all")
    assert [each for each in app.radio if str(each.key).startswith("list-")]
    assert [each for each in opened(MISTAKES).radio if str(each.key).startswith("list-")]
    other = opened(MISTAKES, **(at | {"mistake": "tiled_kv_heads"}))
    press(other, "route-return")
    assert linked(other)["mistake"] == linked(app)["mistake"]


def test_a_route_for_tomorrow_suggests_the_day_and_the_easiest_grade_comes_back_before():
    app = opened(PRACTICE, tab="aloud", card="gqa-same-flops", route="interview-60", route_item="4")
    press(app, "interview-tomorrow")
    tomorrow = (TODAY + timedelta(days=1)).isoformat()
    assert app.session_state["progress"].interview.day == tomorrow
    press(app, "points")
    assert [app.button(key=f"grade-{n}").label for n in range(4)] == ["Again: today", "Hard", "Good", "Easy"]
    assert "After Hard, Good or Easy it comes back tomorrow, the day of your interview. After that, the" in said(app)
    press(app, "grade-3")
    assert (
        f"comes back on {written_day(tomorrow)}. Your interview is on {written_day(tomorrow)}" in app.success[0].value
    )
    assert app.session_state["progress"].cards["gqa-same-flops"].interval_days == 4  # as without an interview
    assert "interview-tomorrow" not in [each.key for each in opened(PRACTICE, tab="aloud").button]


def test_the_front_page_names_the_next_lesson_where_no_route_is_open(monkeypatch):
    links = []
    monkeypatch.setattr(
        "streamlit.page_link", lambda file, label="", query_params=None, **_: links.append((label, query_params))
    )
    opened(FRONT)
    assert any(label.startswith("New to attention?") for label, _ in links)
    links.clear()
    first, second = list(lessons.lessons()[0].values())[:2]
    opened(FRONT, {"progress": Progress({**through(first.name), second.name: LessonState(3)})})
    assert not any(label.startswith("New to attention?") for label, _ in links)
    label, link = next(each for each in links if each[0].startswith("Next lesson"))
    assert label == f"Next lesson: **{second.title}**, step 3 of {len(second.steps)}"
    assert (link["lesson"], link["lesson_step"]) == (second.name, "3")


def minutes_left(app) -> int:
    (said_in,) = (each.value for each in app.caption if "minute" in each.value and "left" in each.value)
    return int(re.search(r"(\d+) minutes? left", said_in)[1])


def test_the_minutes_left_are_those_of_the_items_that_are_not_done_whatever_showed_that_they_are():
    of = routes.routes()["interview-20"]
    lesson, mistake, aloud, questions = of.items
    app = opened(FRONT)
    press(app, "begin-interview-20")
    seen = [minutes_left(app)]
    for _ in range(len(lessons.lesson(lesson.link["lesson"]).steps) - 1):
        press(app, "lesson-next")
        seen.append(minutes_left(app))
    press(app, "route-next")
    for key in ("skip-line", "skip-mistake"):  # its answer is shown, and nothing is found
        seen.append(minutes_left(app))
        press(app, key)
    assert "This item is done." in said(app) and mistake.id in app.session_state["progress"].routes[of.name].done
    seen.append(minutes_left(app))
    press(app, "route-back")
    seen.append(minutes_left(app))
    after_lesson = of.minutes - lesson.minutes
    after_mistake = after_lesson - mistake.minutes
    steps = len(lessons.lesson(lesson.link["lesson"]).steps)
    assert seen == [of.minutes] * (steps - 1) + [after_lesson] * 3 + [after_mistake] * 2


@pytest.mark.parametrize("run", [1, 2])
def test_a_lesson_whose_set_is_not_answered_is_left_as_skipped_and_is_done_once_it_is(run):
    of = routes.route("interview-60", run)
    number, item = next((n, each) for n, each in enumerate(of.items, 1) if each.link.get("lesson") == "cache-cost")
    lesson = lessons.lesson("cache-cost")
    lessons_done = {} if run == 1 else through(lesson.name)
    at = {"lesson": lesson.name, "route": of.name, "route_item": str(number), "route_run": str(run)}
    before = Progress(lessons_done, routes={of.name: RouteState(AT, AT, round=run)})
    last = routes.place(of, number, Progress({lesson.name: LessonState(len(lesson.steps))}))[1].to_link()
    app = opened(PRACTICE, {"progress": before}, **last)
    assert linked(app).items() >= {k: v for k, v in at.items() if v != "1"}.items()
    press(app, "start-set")
    next(button for button in app.button if button.label == "I do not know").click()
    checked(app.run())
    following = of.items[number].title
    assert app.button(key="route-next").label == f"Skip to: {following}" and not next_is_primary(app)
    assert "done once answered" in said(app) and "or with “Next”" not in said(app)
    press(app, "next")
    while not_known := [button for button in app.button if button.label == "I do not know"]:
        not_known[0].click()  # also what is repeated, as it was missed
        checked(app.run())
        press(app, "next")
    assert app.button(key="route-next").label == f"Next: {following}" and next_is_primary(app)
    kept = app.session_state["progress"]
    assert item.is_done(kept, state_of(app, of.name), TODAY.isoformat()) and state_of(app, of.name).skipped == ()

    app = opened(PRACTICE, {"progress": before}, **last)
    press(app, "route-next")
    assert linked(app)["route_item"] == str(number + 1)
    assert (state_of(app, of.name).done, state_of(app, of.name).skipped) == ((), (item.id,))
    assert bool(app.session_state["progress"].lessons.get(lesson.name, LessonState(1)).done) == (run == 2)


def test_from_the_end_of_another_lesson_than_the_items_it_leads_to_the_item_and_skips_nothing():
    of = routes.routes()["interview-60"]
    last = lessons.lesson("one-head").settings(7).to_link()
    app = opened(HEADS, **last, route=of.name)
    assert "lesson done · item 1 of" in said(app) and next_is_primary(app)
    assert app.button(key="route-next").label == f"Next: {of.items[0].title}"
    press(app, "route-next")
    assert linked(app)["lesson"] == of.items[0].link["lesson"] and "route_item" not in linked(app)
    kept = app.session_state["progress"]
    assert kept.routes.get(of.name, RouteState(AT, AT)).skipped == () and kept.lessons["one-head"].done


def test_a_lesson_of_a_route_that_there_is_not_is_a_lesson_without_one():
    app = opened(PRACTICE, **lessons.lesson("mla").settings(9).to_link(), route="of-nobody")
    (bar,) = (each.value for each in app.caption if each.value.startswith("Step 9 of 9"))
    assert bar == "Step 9 of 9 · lesson done" and app.button(key="lesson-home").label == "All lessons"
    assert app.button(key="lesson-next").label == "Next lesson" and "route-next" not in buttons(app)
