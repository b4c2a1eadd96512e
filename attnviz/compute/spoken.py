"""The questions to answer aloud: their cards with numbers filled in, and which of them comes next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import date, timedelta
from functools import lru_cache
from pathlib import Path
from urllib.parse import urlencode

from attnviz.compute import choices, placeholders
from attnviz.compute.view import View
from attnviz.exercises import SPOKEN
from attnviz.phrases import day
from attnviz.practice.spoken import card as cards
from attnviz.practice.spoken.card import Card, CardError
from attnviz.practice.spoken.schedule import GRADES, CardState, after, after_mock, due
from attnviz.session.lesson import LessonError, check_placeholders, page_and_link, target_on
from attnviz.session.pages import ELEMENTS
from attnviz.session.pages.practice import DUE
from attnviz.session.settings import Settings

__all__ = [
    "DUE", "GRADES", "SPOKEN", "Card", "CardState", "after", "after_mock", "deck", "due", "filled", "of", "place",
    "queue",
]  # fmt: skip

FOLDER = Path(cards.__file__).parent


@lru_cache(maxsize=1)
def deck() -> dict[str, Card]:
    """Return the cards by id, subject by subject. CardError names the line of a mistake in a file."""
    found: dict[str, Card] = {}
    for subject in SPOKEN:
        for card in read(subject, (FOLDER / f"{subject}.md").read_text(encoding="utf-8")):
            if card.id in found:
                raise CardError(card.lines[""], f"“{card.id}” is also a card of {found[card.id].subject}.md")
            found[card.id] = card
    for card in found.values():
        if unknown := [each.card for each in card.follow_ups if each.card and each.card not in found]:
            raise CardError(card.lines["Follow-ups"], f"there is no card “{unknown[0]}”")
    return found


def read(subject: str, written: str) -> list[Card]:
    """Parse a file of cards, and check its addresses and placeholders. Raises CardError."""
    parsed = cards.parse(subject, written)
    try:
        check_placeholders(written, placeholders.PLACEHOLDERS)
        for card in parsed:
            page, link = page_and_link(card.lines["Link"], card.link)
            target_on((card.lines["Look at"], card.target) if card.target else None, page, link)
    except LessonError as error:
        raise CardError(error.line, error.reason) from None
    return parsed


def of(deck: Mapping[str, Card], which: str, states: Mapping[str, CardState], today: date) -> list[Card]:
    """Return the cards of a subject, "" for all, or those that are due."""
    if which == DUE:
        return [deck[id] for id in due(states, today) if id in deck]
    return [card for card in deck.values() if which in ("", card.subject)]


def queue(chosen: list[Card], states: Mapping[str, CardState], today: date) -> list[Card]:
    """Return cards in the order in which they are asked: those due, then new ones, then the others by their date.

    New ones change their subject each time.
    """
    waiting = {id: place for place, id in enumerate(due(states, today))}
    of_subject: Counter[str] = Counter()
    places: dict[str, int] = {}
    for card in chosen:
        places[card.id] = of_subject[card.subject]
        of_subject[card.subject] += 1

    def order(card: Card) -> tuple[int, int, str]:
        if card.id in waiting:
            return 0, waiting[card.id], ""
        state = states.get(card.id)
        return (2, 0, state.due) if state else (1, places[card.id], "")

    return sorted(chosen, key=order)


def following(card: Card, asked: list[Card]) -> Card | None:
    """Return the card that comes after this one in a queue; the first if it is not in it or is its last."""
    others = [each for each in asked if each.id != card.id]
    if not others:
        return None
    ids = [each.id for each in asked]
    at = ids.index(card.id) if card.id in ids else -1
    return others[at % len(others)] if at >= 0 else others[0]


def settings_of(card: Card) -> Settings:
    """Return the settings of the view that shows a card's answer, for which its numbers are computed.

    A page's own text is that of its bare address alone, as in `ui/state.py`.
    """
    page, link = page_and_link(card.lines["Link"], card.link)
    settings = Settings.from_link(link, page)[0]
    return settings if link else choices.with_text_of(page, settings)


def filled(text: str, card: Card) -> str:
    """Fill in the numbers of a card's text."""
    return placeholders.filled(text, View(settings_of(card)))


def address(id: str) -> str:
    """Return the address of a card."""
    return f"practice?{urlencode({'tab': 'aloud', 'card': id})}"


def place(card: Card) -> tuple[str, str]:
    """Return what shows a card's answer, "Cost: Decode speed", and its address."""
    page, link = page_and_link(card.lines["Link"], card.link)
    shown = ELEMENTS[card.target].name if card.target else page.tabs.get(link.get("tab", ""), "")
    address = f"{page.path or '.'}?{urlencode(link)}" if link else page.path or "."
    return f"{page.name}: {shown}" if shown else page.name, address


def days_until(state: CardState, today: date) -> int:
    """Return the days until a card comes back; 0 or less if it is due."""
    return (date.fromisoformat(state.due) - today).days


def offered(days: list[int], interview: str, today: date) -> tuple[list[str], str]:
    """Return when a card comes back, as each grade's button says it, "" for what a sentence says; and the sentence.

    days: for each grade. interview: its day (an ISO date), which is not past; "" for none.
    """
    again, *others = map(in_days, days)
    if interview == today.isoformat():
        after_it = "Your interview is today: Again asks this question once more today, the others only after it."
        return [f"later {again}", "", "", ""], after_it
    on = f" Your interview is on {day(interview)}: " if interview else ""
    if len({*others}) > 1:
        in_time = f"{on}what you do not know well comes back in time for it." if on else ""
        return [again, *others], f"The question comes back after that time.{in_time}"
    of_it = ", the day of your interview" if interview == (today + timedelta(days=days[1])).isoformat() else ""
    in_time = ", in time for your interview" if interview and not of_it else ""
    same = f"After Hard, Good or Easy it comes back {others[0]}{of_it}{in_time}."
    return [again, "", "", ""], f"{same} After that, the easier it was, the longer it stays away."


def in_days(n: int) -> str:
    """Say when something is that comes in n days."""
    return ("today", "tomorrow")[n] if n < 2 else f"in {n} days"


def next_intervals(state: CardState | None, today: date, interview: str = "") -> list[int]:
    """Return the days until a card comes back, for each grade. interview: its day, before which it does."""
    graded = (after(state, grade, today) for grade in GRADES)
    return [(date.fromisoformat(each.comes_back(interview)) - today).days for each in graded]
