"""What is due, in one queue: questions to answer aloud, and the drills and mistakes that were missed.

All three are kept beside each other, with the schedule of the spoken questions: a drill by its kind, a mistake by its
id. So their number is bounded, and a drill comes back with other numbers.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace
from datetime import date, timedelta

from attnviz.compute import mistakes, spoken
from attnviz.compute.asked import MISTAKE as MISTAKE_KIND
from attnviz.compute.asked import kind_of_mistake
from attnviz.compute.mistaken_line import of_mistake
from attnviz.compute.practice import Attempt
from attnviz.compute.view import View
from attnviz.exercises import DRILL, MISTAKE, CardState
from attnviz.phrases import count, day, listed
from attnviz.practice.drills import KINDS, Question
from attnviz.practice.drills.again import another, place_of
from attnviz.practice.drills.answers import ChoiceAnswer
from attnviz.practice.drills.ranks import seed_of
from attnviz.practice.spoken.schedule import AGAIN, GOOD, after, missed, urgency
from attnviz.session.pages.mistakes import MISTAKES
from attnviz.session.progress import Progress
from attnviz.session.settings import Settings

FORMS = ("answer", "drill", "mistake")
EFFECT = "effect"  # `CardState.missed` of a mistake whose line was found, and not what it does
_MISSED = re.compile(r"([0-9]{1,10})(?::([0-9]{1,2}))?")  # the seed, and the place of the mistake


def form_of(id: str) -> str:
    """Return which of FORMS comes back under this id; "" for one that this version does not have."""
    if id in spoken.deck():
        return "answer"
    if id.startswith(DRILL):
        return "drill" if id.removeprefix(DRILL) in KINDS else ""
    return "mistake" if id.startswith(MISTAKE) and id.removeprefix(MISTAKE) in MISTAKES else ""


def queue(progress: Progress, today: str) -> list[str]:
    """Return what is due on this day (an ISO date): missed drills and mistakes, then answers, the most urgent first.

    What was missed is surely not known, and takes the least time: who stops halfway has done it. What was answered
    today and not known comes last.
    """
    coming = progress.coming(today)
    place = {id: i for i, id in enumerate(spoken.deck())}

    def order(id: str) -> tuple[object, ...]:
        again, *urgent = urgency(coming[id], date.fromisoformat(today))
        form = form_of(id)
        return again, form == "answer", *urgent, FORMS.index(form), _level(id), place.get(id, 0), id

    return sorted((id for id in progress.due(today) if form_of(id)), key=order)


def _level(id: str) -> int:
    if card := spoken.deck().get(id):
        return card.level
    return KINDS[id.removeprefix(DRILL)].level if id.startswith(DRILL) else 2


def counted(progress: Progress, today: str) -> str:
    """Say how much is due and, of several forms, how much of each: "5 due today: 3 answers, 1 drill, 1 mistake"."""
    ids = queue(progress, today)
    parts = _by_form(ids)
    if len(parts) < 2:
        return f"{parts[0]} due today" if parts else ""
    return f"{len(ids)} due today: {', '.join(parts)}"


def counted_tomorrow(progress: Progress, today: str) -> str:
    """Say how much will be due on the next day that is not due on this one: "3 answers and 1 drill"; "" if nothing."""
    tomorrow = (date.fromisoformat(today) + timedelta(days=1)).isoformat()
    parts = _by_form({*queue(progress, tomorrow)} - {*queue(progress, today)})
    return listed(parts) if parts else ""


def _by_form(ids: Collection[str]) -> list[str]:
    forms = [form_of(id) for id in ids]
    return [count(n, form) for form in FORMS if (n := forms.count(form))]


def when_next(progress: Progress, today: str) -> str:
    """Say in a sentence when something is due after this day; "" if nothing is."""
    later = [state.due for id, state in progress.coming(today).items() if state.due > today and form_of(id)]
    if not later:
        return ""
    on, n = min(later), later.count(min(later))
    tomorrow = (date.fromisoformat(today) + timedelta(days=1)).isoformat()
    when = "tomorrow" if on == tomorrow else f"on {day(on)}"
    return f"The next {'one is' if n == 1 else f'{n} are'} due {when}."


# ---- drills and mistakes


def question(id: str, state: CardState) -> Question:
    """Return the drill or mistake as a question: for each time that it comes back another one of its kind.

    A drill asks about what was missed, as far as that is kept.
    """
    if id.startswith(DRILL):
        found = _MISSED.fullmatch(state.missed)
        seed, place = (each and int(each) for each in found.groups()) if found else (None, None)
        return another(id.removeprefix(DRILL), "due", id, state.seen, seed=seed, place=place)
    seed = seed_of("due", id, state.seen)
    name = id.removeprefix(MISTAKE)
    asked = None if state.missed == EFFECT else of_mistake(name, seed)
    return asked or _on_effect(name)


def _on_effect(name: str) -> Question:
    """Return the question what a mistake does, which was missed, or whose code has too few lines to ask for one."""
    mistake, excerpt = mistakes.load_mistake(name), mistakes.excerpt(View(Settings(mistake=name)))
    return Question(
        f"{mistake.title}. {mistake.question}", ChoiceAnswer(mistake.answers, mistake.answer), mistake.what,
        link=("mistakes", {"mistake": name, "hunt": "0"}), code=excerpt.functions, kind=kind_of_mistake(name),
        subject="mistakes", level=2,
    )  # fmt: skip


def id_of(asked: Question) -> str:
    """Return the id under which a question comes back if it is missed; "" for a spoken one, which has its grades."""
    if asked.kind in KINDS:
        return DRILL + asked.kind
    return MISTAKE + name if (name := mistake_of(asked)) else ""


def mistake_of(asked: Question) -> str:
    """Return the id of the mistake that a question asks for; "" for other questions."""
    name = asked.kind.removeprefix(MISTAKE_KIND)
    return name if name != asked.kind and name in MISTAKES else ""


def missed_in(asked: Question, given: str) -> str:
    """Return what was missed, as `CardState.missed`: a drill's seed and which known mistake was made, or an effect."""
    if asked.kind not in KINDS:
        effect = mistake_of(asked) and isinstance(asked.answer, ChoiceAnswer) and not asked.answer.code
        return EFFECT if effect else ""
    place = place_of(asked, given)
    return f"{asked.seed}" if place is None else f"{asked.seed}:{place}"


def answered(progress: Progress, id: str, right: bool, today: date, what: str = "") -> Progress:
    """Return the progress after a drill or mistake was answered: missed, it is due the next day.

    On the day of the interview, after which it would come too late, it is due again the same day, as an answer that
    could not be said is. A right answer counts for what is due; before that, it does not postpone what was missed.
    what: what `missed_in` returns, to be stored if the answer is wrong.
    """
    state = progress.cards.get(id)
    if not id or (right and id not in progress.due(today.isoformat())):
        return progress
    if state and not state.interval_days and state.due < today.isoformat():  # missed on an interview's day, now past
        state = replace(state, interval_days=1)
    is_the_day = progress.interview_on(today.isoformat()) == today.isoformat()
    wrong = after(state, AGAIN, today) if is_the_day else missed(state, today)
    after_it = after(state, GOOD, today) if right else wrong
    if not right and after_it is not state:  # the first time on this day
        after_it = replace(after_it, missed=what)
    elif state:
        after_it = replace(after_it, missed=state.missed)
    return replace(progress, cards={**progress.cards, id: after_it})


def after_attempt(progress: Progress, attempt: Attempt, today: date) -> Progress:
    """Return the progress after an attempt without feedback; what was not reached in it was not missed."""
    for asked, given, grade, _ in zip(attempt.questions, attempt.given, attempt.grades(), attempt.stamps, strict=False):
        progress = answered(progress, id_of(asked), grade.right, today, missed_in(asked, given))
    return progress


def missed_mistake(progress: Progress, today: str) -> str:
    """Return a mistake that was missed today and comes back tomorrow, and was never found; "" if there is none."""
    if progress.interview_on(today) == today:  # what is missed then is due the same day; a day later, what was right
        return ""
    waiting = (id for id, state in sorted(progress.cards.items()) if state.interval_days == 1 and state.due > today)
    names = (id.removeprefix(MISTAKE) for id in waiting if form_of(id) == "mistake")
    return next((name for name in names if name not in progress.mistakes), "")


def subjects(progress: Progress, today: str) -> str:
    """Name the subjects of the answers that are due."""
    deck = spoken.deck()
    return ", ".join(dict.fromkeys(spoken.SPOKEN[deck[id].subject] for id in queue(progress, today) if id in deck))
