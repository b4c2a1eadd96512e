"""The tab Due today without a browser: one thing after the other, then what to go on with."""

from datetime import UTC, datetime, timedelta

import pytest
from streamlit.testing.v1 import AppTest

from attnviz.compute import due, routes, spoken
from attnviz.exercises import CardState
from attnviz.phrases import day as written_day
from attnviz.practice.drills.answers import ChoiceAnswer
from attnviz.session.progress import InterviewDay, Missed, MistakeState, Progress, RouteState
from tests.pages import FRONT, MISTAKES, PRACTICE, checked, linked, opened
from tests.practice.forms import forms
from tests.ui.test_practice_spoken import buttons, press, said
from tests.ui.test_routes import ROUTE

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("no_links_to_pages")]

TODAY = datetime.now(UTC).date()  # AppTest names no time zone
TOMORROW = (TODAY + timedelta(days=1)).isoformat()
DECK = spoken.deck()
DRILL, MISTAKE = "drill:size_of_a_group", "mistake:mask_after_softmax"
DUE = CardState(TODAY.isoformat(), 1, 2.5, 1)


def primary(app: AppTest) -> list[str]:
    return [each.key for each in app.main.button if each.proto.type == "primary" and "delete" not in str(each.key)]


def kept(app: AppTest) -> Progress:
    return app.session_state["progress"]


def pressed(app: AppTest, label: str) -> None:
    next(each for each in app.button if each.label == label).click()
    checked(app.run())


def test_what_is_due_is_done_one_after_the_other_and_leads_on() -> None:
    ids = ("why-root-d", "speculative-exactness", DRILL, MISTAKE)
    app = opened(FRONT, {"progress": Progress(cards=dict.fromkeys(ids, DUE))})
    assert app.button(key="due").label == "**4 due today: 2 answers, 1 drill, 1 mistake**" and primary(app) == ["due"]
    app = opened(PRACTICE, {"progress": kept(app)}, tab="due")
    assert "1 of 4 due · Missed drill" in said(app) and linked(app) == {"tab": "due"}
    pressed(app, "I do not know")
    assert "Not answered. The answer is" in said(app) + app.warning[0].value and primary(app) == ["next"]
    assert "Noted: it comes back tomorrow." in said(app)
    assert "1 of 4 due" in said(app) and kept(app).cards[DRILL].due == TOMORROW
    assert kept(app).drills["size_of_a_group"] == (0, 1)
    press(app, "next")
    assert "2 of 4 due · Missed mistake" in said(app)
    asked = due.question(MISTAKE, DUE)
    assert isinstance(asked.answer, ChoiceAnswer)
    app.main.radio[-1].set_value(asked.answer.right)
    pressed(app, "Answer")
    assert app.success and kept(app).cards[MISTAKE].interval_days == 3  # 1 · 2.5, halves up
    (found,) = kept(app).mistakes.items()
    assert found[0] == "mask_after_softmax" and found[1].predicted == ""  # its line; not what it does
    press(app, "next")
    assert DECK["why-root-d"].question in said(app) and "3 of 4 due · Mechanism" in said(app)  # the easier one first
    assert "next-card" not in buttons(app)
    press(app, "points")
    press(app, "grade-0")  # could not be said: once more at the end
    assert DECK["speculative-exactness"].question in said(app) and "3 of 4 due, 1 of them once more · Serving" in said(
        app
    )
    assert [each.value for each in app.info] == ["Noted: the question before comes back once more today."]
    press(app, "points")
    press(app, "grade-2")
    assert "4 of 4 due, 1 of them once more · Mechanism" in said(app)
    in_three_days = written_day((TODAY + timedelta(days=3)).isoformat())
    assert [each.value for each in app.info] == [f"Noted: the question before comes back on {in_three_days}."]
    press(app, "points")
    press(app, "grade-2")
    assert app.success[0].value == "All 4 due today are done. The next 2 are due tomorrow."
    assert primary(app) == ["due-next"] and app.button(key="due-next").label == "**Repeat 1 missed drill**"
    press(app, "due-next")
    assert "Question 1 of 1" in said(app) and linked(app) == {"tab": "drills"}


def test_the_end_leads_to_a_missed_mistake_or_a_mock_and_so_does_the_front_page() -> None:
    done = {"why-root-d": CardState(TOMORROW, 1, 2.5, 1), MISTAKE: CardState(TOMORROW, 1, 2.3, 1)}
    app = opened(FRONT, {"progress": Progress(cards=done)})
    assert primary(app) == ["due-next"] and app.button(key="due-next").label == "**Find the mistake that you missed**"
    press(app, "due-next")
    found = {"mask_after_softmax": MistakeState(True, "2026-11-28T20:00:00Z")}
    app = opened(PRACTICE, {"progress": Progress(cards=done, mistakes=found)}, tab="due")
    assert "Nothing is due today. The next 2 are due tomorrow." in app.success[0].value
    assert app.button(key="due-next").label == "**A mock interview of 15 minutes**"
    press(app, "due-next")
    assert linked(app)["tab"] == "interview" and linked(app)["interview"] == "15"


def test_a_card_that_could_not_be_said_is_one_card_with_a_new_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    timed: list[str] = []
    monkeypatch.setattr("attnviz.ui.pages.practice_spoken.spoken_timer", lambda about, **_: timed.append(about))
    app = opened(PRACTICE, {"progress": Progress(cards={"why-root-d": DUE})}, tab="due")
    for grade, once_more, noted in ((0, "", []), (2, ", 1 of them once more", ["Noted: it comes back once more now."])):
        assert f"1 of 1 due{once_more} · Mechanism" in said(app)
        assert [each.value for each in app.info] == noted
        press(app, "points")
        press(app, f"grade-{grade}")
    first, second = dict.fromkeys(timed)  # the points do not begin it anew; the second showing does
    assert first != second and "What was due today is done." in app.success[0].value


def test_the_timer_and_the_recording_stay_while_a_graded_card_of_a_route_does(monkeypatch: pytest.MonkeyPatch) -> None:
    timed: list[str] = []
    monkeypatch.setattr("attnviz.ui.pages.practice_spoken.spoken_timer", lambda about, **_: timed.append(about))
    number, item = next((n, each) for n, each in enumerate(ROUTE.items, 1) if "card" in each.link)
    app = opened(PRACTICE, **item.link, route=ROUTE.name, route_item=str(number))
    press(app, "points")
    press(app, "grade-0")
    assert len(set(timed)) == 1
    press(app, "answer-again")
    assert len(set(timed)) == 2


def test_one_press_on_the_front_page_opens_the_missed_drills() -> None:
    waiting = Missed(2, (("size_of_a_group:17", 0, 4), ("width_of_a_head:19", 0, 5)))
    cards = {DRILL: CardState(TOMORROW, 1, 2.3, 1)}
    counts = {"size_of_a_group": (0, 1), "width_of_a_head": (0, 1)}
    app = opened(FRONT, {"progress": Progress(drills=counts, missed=waiting, cards=cards)})
    assert app.button(key="due-next").label == "**Repeat 2 missed drills**"
    press(app, "due-next")
    assert "Question 1 of 2" in said(app) and linked(app) == {"tab": "drills"}


def test_the_next_day_the_missed_drills_are_those_that_are_not_right_now_either() -> None:
    kinds = ("size_of_a_group", "width_of_a_head", "wavelength")
    cards = {f"drill:{kind}": DUE for kind in kinds}
    waiting = Missed(3, tuple((f"{kind}:17", 0, 5) for kind in kinds))
    before = Progress(drills=dict.fromkeys(kinds, (0, 1)), missed=waiting, cards=cards)
    app = opened(PRACTICE, {"progress": before}, tab="due")
    for n in range(3):
        id = due.queue(kept(app), TODAY.isoformat())[0]
        answer = due.question(id, kept(app).cards[id]).answer
        app.main.text_input[-1].set_value(forms(answer)[0])
        pressed(app, "I do not know" if n == 2 else "Answer")
        press(app, "next")
    assert due.counted_tomorrow(kept(app), TODAY.isoformat()) == "1 drill"
    assert app.button(key="due-next").label == "**Repeat 1 missed drill**"


def test_a_drill_missed_in_a_set_and_a_mistake_shown_in_a_hunt_are_due_tomorrow() -> None:
    app = opened(PRACTICE, subject="heads", questions="2")
    press(app, "start-set")
    asked = app.session_state["practice attempt"].question
    pressed(app, "I do not know")
    assert kept(app).cards == {f"drill:{asked.kind}": CardState(TOMORROW, 1, 2.3, 1, str(asked.seed))}
    app = opened(MISTAKES, {"progress": kept(app)}, mistake="mask_after_softmax", hunt="1")
    press(app, "skip-line")
    assert kept(app).cards[MISTAKE] == CardState(TOMORROW, 1, 2.3, 1) and len(kept(app).cards) == 2


def test_on_the_interviews_day_a_wrong_answer_moves_the_count_and_the_end_leads_to_the_numbers() -> None:
    day = InterviewDay(TODAY.isoformat(), "2026-11-28T08:00:00Z")
    cards = dict.fromkeys((DRILL, "drill:wavelength"), DUE)
    app = opened(PRACTICE, {"progress": Progress(cards=cards, interview=day)}, tab="due")
    seen = []
    for label in ("I do not know", "Answer", "Answer"):
        seen.append(next(each.value.partition(" · ")[0] for each in app.caption if " due" in each.value))
        id = due.queue(kept(app), TODAY.isoformat())[0]
        app.main.text_input[-1].set_value(forms(due.question(id, kept(app).cards[id]).answer)[0])
        pressed(app, label)
        assert ("Noted: it comes back once more today." in said(app)) is (label == "I do not know")
        press(app, "next")
    assert seen == ["1 of 2 due", "1 of 2 due, 1 of them once more", "2 of 2 due, 1 of them once more"]
    assert app.button(key="due-next").label == "**The numbers to remember: 6 minutes**"
    press(app, "due-next")
    assert linked(app)["route"] == "interview-today"
    of = {"interview-today": RouteState("2026-11-28T08:00:00Z", "2026-11-28T08:00:00Z",
                                        tuple(item.id for item in routes.route("interview-today").items), 1,
                                        TODAY.isoformat())}  # fmt: skip
    app = opened(PRACTICE, {"progress": Progress(interview=day, routes=of)}, tab="due")
    assert "due-next" not in buttons(app) and "Nothing is due today." in app.success[0].value


def test_what_is_not_known_again_and_again_comes_in_turn() -> None:
    """On the day of the interview, when it is due again at once: the one with the lowest ease came each time."""
    day = InterviewDay(TODAY.isoformat(), "2026-11-28T08:00:00Z")
    ids = (DRILL, "drill:wavelength", MISTAKE)
    app = opened(PRACTICE, {"progress": Progress(cards=dict.fromkeys(ids, DUE), interview=day)}, tab="due")
    asked = []
    for _ in range(9):
        pressed(app, "I do not know")
        asked.append(due.id_of(app.session_state["due answered"][0]))
        press(app, "next")
    assert {*asked[:3]} == {*ids} and asked == 3 * asked[:3]


def test_a_route_leads_on_from_the_queues_end_itself() -> None:
    done = {"why-root-d": CardState(TOMORROW, 1, 2.5, 1)}
    app = opened(PRACTICE, {"progress": Progress(cards=done)}, tab="due", route="interview-week", route_item="10")
    assert "Nothing is due today." in app.success[0].value and "due-next" not in buttons(app)


def test_a_line_is_asked_for_by_its_number_and_code_on_a_card_is_code() -> None:
    app = opened(PRACTICE, {"progress": Progress(cards={"drill:wrong_line": DUE})}, tab="due")
    assert app.main.text_input[-1].label == "Number of the line"
    app = opened(PRACTICE, {"progress": Progress(cards={"drill:times_smaller": DUE})}, tab="due")
    assert "expression" in app.main.text_input[-1].label
    name = "mistake:attribute_before_assignment"
    app = opened(PRACTICE, {"progress": Progress(cards={name: DUE})}, tab="due")
    pressed(app, "I do not know")
    assert "`self.x` is looked up when the line runs" in said(app)
