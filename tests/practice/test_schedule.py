"""The schedule of the spoken questions, by cases counted by hand."""

from datetime import date

import pytest

from attnviz.practice.spoken.schedule import AGAIN, EASY, GOOD, HARD, CardState, after, after_mock, due

TODAY = date(2026, 11, 29)


def answered(*grades: int) -> list[CardState]:
    """Return the states of a card that is answered on the day on which it is due, each time."""
    states: list[CardState] = []
    for grade in grades:
        on = date.fromisoformat(states[-1].due) if states else TODAY
        states.append(after(states[-1] if states else None, grade, on))
    return states


def test_a_card_that_is_known_comes_back_the_next_morning_then_later_and_later() -> None:
    states = answered(GOOD, GOOD, GOOD, GOOD)
    assert [state.interval_days for state in states] == [1, 3, 8, 20]  # 1, 2.5, 7.5 and 20, halves up
    assert [state.due for state in states] == ["2026-11-30", "2026-12-03", "2026-12-11", "2026-12-31"]
    assert [(state.ease, state.seen) for state in states] == [(2.5, 1), (2.5, 2), (2.5, 3), (2.5, 4)]


def test_a_card_that_was_not_known_stays_due_today_and_starts_again() -> None:
    assert after(None, AGAIN, TODAY) == CardState("2026-11-29", 0, 2.3, 1)
    assert after(CardState("2026-11-29", 20, 2.5, 4), AGAIN, TODAY) == CardState("2026-11-29", 0, 2.3, 5)
    assert [state.interval_days for state in answered(AGAIN, GOOD, GOOD)] == [0, 1, 2]  # 1 · 2.3


def test_hard_and_easy_change_the_ease_within_bounds() -> None:
    assert [(s.interval_days, s.ease) for s in answered(EASY, EASY)] == [(4, 2.65), (14, 2.8)]  # 4 · 2.65 · 1.3 = 13.8
    assert [(s.interval_days, s.ease) for s in answered(HARD, HARD, HARD)] == [(1, 2.35), (2, 2.2), (3, 2.05)]
    assert after(CardState("2026-11-29", 10, 1.3, 9), HARD, TODAY) == CardState("2026-12-11", 12, 1.3, 10)
    assert after(CardState("2026-11-29", 300, 3.0, 9), EASY, TODAY).interval_days == 365


def test_what_is_due_begins_with_what_is_overdue_by_the_largest_share_of_its_interval_then_the_hardest() -> None:
    cards = {
        "tomorrow": CardState("2026-11-30", 1, 2.5, 1),
        "today": CardState("2026-11-29", 1, 2.5, 1),
        "hard": CardState("2026-11-29", 1, 1.9, 1),
        "late": CardState("2026-11-02", 8, 2.2, 1),
        "long": CardState("2026-11-26", 20, 2.2, 4),
        "again": CardState("2026-11-29", 0, 2.8, 3),
        "yesterday": CardState("2026-11-28", 0, 2.3, 1),
    }
    # 27 days of 8; one day of less than one; 3 of 20; not overdue: ease 1.9, 2.5; answered today, and not known
    assert due(cards, TODAY) == ["late", "yesterday", "long", "hard", "today", "again"]
    assert due({}, TODAY) == []


def test_another_grade_is_refused() -> None:
    with pytest.raises(ValueError, match="0 to 3, not 4"):
        after(None, 4, TODAY)


def test_a_mock_does_not_postpone_a_card_that_was_answered_the_same_day() -> None:
    today = date(2026, 11, 29)
    good = after(None, GOOD, today)
    assert good.due == "2026-11-30"
    assert after(good, GOOD, today).due == "2026-12-02"
    for grade in (HARD, GOOD):
        assert after_mock(good, grade, today) == CardState("2026-11-30", 1, 2.5, 2)
    assert after_mock(good, AGAIN, today) == after(good, AGAIN, today)  # it comes back earlier
    for before in (None, CardState("2026-11-29", 3, 2.5, 2), CardState("2026-12-03", 7, 2.5, 2)):
        assert after_mock(before, GOOD, today) == after(before, GOOD, today)
