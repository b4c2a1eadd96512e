"""How far a person is, in sentences."""

from __future__ import annotations

from attnviz.compute import spoken
from attnviz.compute.lessons import lessons
from attnviz.exercises import SPOKEN, TASKS
from attnviz.phrases import count
from attnviz.session.pages.mistakes import MISTAKES
from attnviz.session.progress import Progress


def due(progress: Progress, today: str) -> str:
    """Say how many spoken questions are due on this day (an ISO date), or return ""."""
    n = len(progress.due(today))
    return f"{count(n, 'spoken question')} due today" if n else ""


def due_on(progress: Progress, today: str) -> str:
    """Say how many answers are due on this day, and on what."""
    ids, deck = progress.due(today), spoken.deck()
    subjects = dict.fromkeys(SPOKEN[card.subject] for id in ids if (card := deck.get(id)))
    on = f": {', '.join(subjects)}" if subjects else ""
    return f"{count(len(ids), 'answer')} due today{on}"


def done(progress: Progress) -> str:
    """Say how many lessons, mistakes and tasks are done, of those that were begun; "" if there are none."""
    kinds = (
        ("lesson", "done", [name for name, kept in progress.lessons.items() if kept.done], [*lessons()[0]]),
        ("mistake", "found", progress.mistakes, MISTAKES),
        ("task", "passed", [name for name, kept in progress.tasks.items() if kept.passed], TASKS),
    )
    said = [
        f"{n} of {count(len(all_), what)} {how}" for what, how, kept, all_ in kinds if (n := len({*kept} & {*all_}))
    ]
    return ", ".join(said)


def said(progress: Progress, today: str) -> str:
    """Say both in a sentence each; "" if there is nothing to say."""
    return " ".join(f"{sentence}." for sentence in (due(progress, today), done(progress)) if sentence)
