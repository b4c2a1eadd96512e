"""When a card comes back, by the grade that its answer was given: intervals as in SM-2, with Anki's four grades."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import date, timedelta

from attnviz.exercises import CardState

__all__ = ["AGAIN", "EASY", "GOOD", "GRADES", "HARD", "CardState", "after", "after_mock", "due", "missed", "urgency"]

AGAIN, HARD, GOOD, EASY = GRADES = range(4)
FIRST = (0, 1, 1, 4)  # days until a card that is new, or was not known, comes back, by grade
EASE, LEAST_EASE, MOST_EASE = 2.5, 1.3, 3.0  # by which an interval grows
EASE_CHANGES = (-0.2, -0.15, 0.0, 0.15)  # by grade
HARD_GROWTH, EASY_BONUS = 1.2, 1.3
MOST_DAYS = 365


def after(state: CardState | None, grade: int, today: date) -> CardState:
    """Return a card's state after an answer of this grade. None: it is new. Grade 0 leaves it due today."""
    if grade not in GRADES:
        raise ValueError(f"A grade is a number from {AGAIN} to {EASY}, not {grade!r}.")
    before = state or CardState(today.isoformat(), 0, EASE, 0)
    ease = min(max(round(before.ease + EASE_CHANGES[grade], 2), LEAST_EASE), MOST_EASE)
    days = _interval(before, grade)
    return CardState((today + timedelta(days=days)).isoformat(), days, ease, before.seen + 1)


def after_mock(state: CardState | None, grade: int, today: date) -> CardState:
    """Return a card's state after a mock interview, which does not postpone a card that was answered the same day."""
    later = after(state, grade, today)
    if state is None or later.due <= state.due or not _answered_on(state, today):
        return later
    return replace(state, seen=later.seen)


def missed(state: CardState | None, today: date) -> CardState:
    """Return the state of a drill or mistake that was missed: due the next day, however often it is missed today."""
    if state and state.interval_days == 1 and _answered_on(state, today):
        return state
    again = after(state, AGAIN, today)
    return replace(again, due=(today + timedelta(days=1)).isoformat(), interval_days=1)


def _answered_on(state: CardState, day: date) -> bool:
    return date.fromisoformat(state.due) - timedelta(days=state.interval_days) == day


def _interval(before: CardState, grade: int) -> int:
    """Return the days until the card comes back; of a card that was known, longer than the last time."""
    last = before.interval_days
    if grade == AGAIN or last == 0:
        return FIRST[grade]
    growth = {HARD: HARD_GROWTH, GOOD: before.ease, EASY: before.ease * EASY_BONUS}[grade]
    return min(max(int(last * growth + 0.5), last + 1), MOST_DAYS)


def due(cards: Mapping[str, CardState], today: date) -> list[str]:
    """Return the ids of the cards that are due, the most urgent first."""
    waiting = [id for id, state in cards.items() if state.due <= today.isoformat()]
    return sorted(waiting, key=lambda id: (*urgency(cards[id], today), id))


def urgency(state: CardState, today: date) -> tuple[bool, float, float, int]:
    """Return the key that orders what is due: first what is most likely forgotten.

    That is what is overdue by the largest share of its interval (two days are much after one, little after twenty),
    then the hardest (the lowest ease), then what was known for the shortest time. What was answered today and not known
    comes last: at once, it would be read off from memory.
    """
    again = state.interval_days == 0 and state.due == today.isoformat()
    overdue = (today - date.fromisoformat(state.due)).days / max(state.interval_days, 1)
    return again, -overdue, state.ease, state.interval_days
