"""How far a person is, in sentences."""

from __future__ import annotations

from attnviz.compute import due
from attnviz.compute.lessons import lessons
from attnviz.exercises import TASKS
from attnviz.phrases import count
from attnviz.session.pages.mistakes import MISTAKES
from attnviz.session.progress import Progress


def due_on(progress: Progress, today: str) -> str:
    """Say how much is due on this day (an ISO date), and in which forms or on what; "" if nothing is."""
    counted = due.counted(progress, today)
    subjects = "" if ":" in counted else due.subjects(progress, today)
    return f"{counted}: {subjects}" if subjects else counted


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
    return " ".join(f"{sentence}." for sentence in (due.counted(progress, today), done(progress)) if sentence)
