"""State of the Practice page: the questions of a set, an attempt at it, progress."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from attnviz.compute.asked import asked_before, limits_of
from attnviz.compute.lessons import lessons
from attnviz.equations import tex_lines
from attnviz.exercises import SPOKEN, SUBJECTS
from attnviz.mistakes import load_mistake
from attnviz.practice.drills import KINDS, LEVELS, Progress, Question, question_set, score_card
from attnviz.practice.drills.answers import CellAnswer, Grade, OrderAnswer, SpokenAnswer
from attnviz.practice.drills.sets import GAPS, Limits, Tally
from attnviz.practice.task import CHECK, Task
from attnviz.practice.tasks import TASKS
from attnviz.session.page import Page
from attnviz.session.pages import PAGES
from attnviz.session.pages.cost import PRESETS
from attnviz.session.progress import Missed
from attnviz.session.progress import Progress as Stored
from attnviz.session.settings import Settings

__all__ = [
    "CHECK",
    "GAPS",
    "KINDS",
    "LEVELS",
    "PRESETS",
    "SUBJECTS",
    "TASKS",
    "Attempt",
    "Progress",
    "Question",
    "Tally",
    "Task",
]

INTERVIEW_QUESTIONS, INTERVIEW_MINUTES = 10, 15
MAX_REPEATED = 10
OF_OTHERS = SPOKEN | {"mistakes": "Mistakes"}  # subjects of questions that are no drills


@dataclass(frozen=True)
class Attempt:
    """A set of questions and the answers so far. One question is on screen until `next` is called.

    again: a question missed earlier, repeated between two of the set; it does not count for the set.
    """

    questions: tuple[Question, ...]
    began: float  # seconds of any clock
    seconds: float = 0.0  # 0: no limit
    feedback: bool = True
    of: str = "set"  # "set", "interview" or "missed"
    given: tuple[str, ...] = ()
    answered: bool = False  # the question on screen has its answer
    again: Question | None = None
    again_given: str = ""
    plan: tuple[str, ...] = ()  # of a mixed interview: the form of each question
    stamps: tuple[float, ...] = ()  # when each answer was given
    settings: tuple[tuple[str, Any], ...] = ()  # those that name its questions

    def is_of(self, s: Settings) -> bool:
        """Check whether these settings name its questions: a link can name others while it runs."""
        return all(getattr(s, field) == value for field, value in self.settings)

    @property
    def at(self) -> int:
        """Index of the question of the set that is on screen, or comes next."""
        return len(self.given) - (self.answered and self.again is None)

    @property
    def question(self) -> Question:
        """The question on screen."""
        return self.again or self.questions[self.at]

    @property
    def answer_given(self) -> str:
        """The answer to the question on screen, once it is answered."""
        return self.again_given if self.again else self.given[-1]

    @property
    def done(self) -> bool:
        return self.at >= len(self.questions)

    def left(self, now: float) -> float:
        """Return the seconds left; infinite without a limit."""
        return max(0.0, self.began + self.seconds - now) if self.seconds else float("inf")

    def answer(self, given: str, now: float) -> Attempt:
        """Record an answer to the question on screen; once the time is up, stop instead."""
        if self.done or self.answered:
            return self
        if not self.left(now):
            return self.stop(now)
        if self.again:
            return replace(self, again_given=given, answered=True)
        return replace(self, given=(*self.given, given), answered=self.feedback, stamps=(*self.stamps, now))

    def used(self, i: int) -> int:
        """Return the seconds that question i took, from the answer before; it has been reached.

        The times of the answers are rounded, not those between them, which therefore add up to the whole.
        """
        return self._second(i) - (self._second(i - 1) if i else 0)

    def _second(self, i: int) -> int:
        return round(self.stamps[i] - self.began)

    @property
    def ran_out(self) -> bool:
        """Whether the time was up before the end."""
        return bool(self.seconds and self.stamps) and self._second(len(self.stamps) - 1) >= self.seconds

    def given_again(self, i: int, given: str) -> Attempt:
        """Replace an answer: the points of a spoken one are ticked afterwards."""
        return replace(self, given=(*self.given[:i], given, *self.given[i + 1 :]))

    def next(self, due: Sequence[Question] = ()) -> Attempt:
        """Go to the next question. due: missed questions to repeat; the first of them comes before the next of the set.

        Sets with a time limit repeat none, and two repeated questions are never adjacent.
        """
        after = replace(self, answered=False, again=None, again_given="")
        mixed = self.of == "set" and not self.seconds and not self.again and not after.done
        if mixed and due and due[0].id != after.question.id:
            return replace(after, again=due[0])
        return after

    def stop(self, now: float) -> Attempt:
        """End the attempt: unanswered questions count as wrong. The one on screen has taken the time until then."""
        left = ("" for _ in self.questions[len(self.given) :])
        is_open = not self.done and not self.answered and self.again is None
        until = min(now, self.began + self.seconds) if self.seconds else now
        return replace(
            self, given=(*self.given, *left), answered=False, again=None,
            stamps=(*self.stamps, until) if is_open else self.stamps,
        )  # fmt: skip

    def grades(self) -> list[Grade]:
        """Grade the answered questions of the set."""
        return [question.grade(given) for question, given in zip(self.questions, self.given, strict=False)]


def set_of(s: Settings) -> tuple[Question, ...]:
    """Return the question set of the settings: the same for everyone with the link."""
    return tuple(question_set(s.subject, s.level, s.questions, s.question_set, limits_of(s)))


def begin(s: Settings, of: str, progress: Progress, now: float) -> Attempt:
    """Begin a set, the mock interview or the missed questions."""
    if of == "interview":
        asked = tuple(question_set("", 3, INTERVIEW_QUESTIONS, s.question_set, Limits(asked_before(s))))
        return Attempt(asked, now, 60.0 * INTERVIEW_MINUTES, feedback=False, of=of, settings=naming(s, of))
    if of == "missed":
        return Attempt(tuple(progress.again(MAX_REPEATED)), now, of=of, settings=naming(s, of))
    return Attempt(set_of(s), now, 60.0 * s.minutes, settings=naming(s, of))


def naming(s: Settings, of: str) -> tuple[tuple[str, Any], ...]:
    """Return the settings that name the questions of a set or an interview, each with its value."""
    fields = ("interview",) if of == "interview" else ("subject", "level", "questions")
    return tuple((field, getattr(s, field)) for field in (*fields, "question_set"))


def ended(attempt: Attempt) -> str:
    """Say where an attempt ended that did not reach or answer all its questions; "" for one that did."""
    reached, n = len(attempt.stamps), len(attempt.questions)
    if attempt.ran_out:
        return f"The time was up at question {reached} of {n}."
    return f"You ended it at question {reached} of {n}." if attempt.done and reached < n else ""


def tallies(attempt: Attempt) -> list[Tally]:
    """Return the scores by subject."""
    return score_card(attempt.questions, [grade.right for grade in attempt.grades()])


def progress_of(stored: Stored) -> Progress:
    """Return the progress with questions, out of all that a browser keeps."""
    return Progress.of(stored.drills, stored.missed.waiting)


def to_store(progress: Progress) -> dict[str, Any]:
    """Return the fields of `Stored` that hold this progress."""
    return {"drills": progress.counts, "missed": Missed(progress.answered, progress.waiting)}


def with_answers(progress: Progress, attempt: Attempt) -> Progress:
    """Return the progress updated with every answer of an attempt."""
    for question, grade in zip(attempt.questions, attempt.grades(), strict=False):
        if question.kind in KINDS:  # neither a spoken question nor a mistake
            progress = progress.after(question, grade.right)
    return progress


def subject_name(subject: str) -> str:
    """Return the name of a question's subject, also of a spoken one."""
    return OF_OTHERS.get(subject) or SUBJECTS[subject]


def solution_tex(question: Question) -> str:
    """Return the equations that lead to the answer, in LaTeX."""
    return tex_lines(*question.solution) if question.solution else ""


def legend(question: Question) -> str:
    """Return the legend of the solution's letters, with the numbers of this question."""
    letters = {letter: found for each in question.solution for letter, found in each.legend().items()}
    return " · ".join(f"{letter} = {meaning} ({value})" for letter, (meaning, value) in letters.items())


def where(question: Question) -> tuple[str, str]:
    """Return where to see the answer: the name of the page and of its tab or mistake, and the address."""
    path, link = question.link
    page = PAGES[path]
    shown = load_mistake(link["mistake"]).title if "mistake" in link else page.tabs.get(link.get("tab", ""), "")
    return f"{page.name}: {shown}" if shown else page.name, f"{path or '.'}?{urlencode(link)}" if link else path


def with_other_numbers(question: Question) -> bool:
    """Check whether the page at that address draws the same with other numbers than the question's."""
    return question.kind in KINDS and not KINDS[question.kind].drawn


def lessons_on(question: Question) -> list[tuple[str, str]]:
    """Return the lesson on the page and tab, or mistake, of a question, as name and address; empty if there is none."""

    def place(page: Page, link: Mapping[str, str]) -> tuple[str, str, str]:
        return page.path, page.open_tab(link.get("tab", "")), link.get("mistake", "")

    path, link = question.link
    found = [
        (len(step.link.items() - link.items()), lesson)  # settings that the question does not have
        for lesson in lessons()[0].values()
        for step in lesson.steps
        if place(step.page, step.link) == place(PAGES[path], link)
    ]
    nearest = sorted(found, key=lambda each: each[0])[:1]
    return [(f"Lesson “{lesson.title}”", f".?lesson={lesson.name}") for _, lesson in nearest]


def to_tick(attempt: Attempt) -> list[int]:
    """Return the places of the questions that were answered aloud and whose points are not ticked yet."""
    asked = enumerate(zip(attempt.questions, attempt.given, strict=False))
    return [i for i, (each, given) in asked if isinstance(each.answer, SpokenAnswer) and each.answer.is_open(given)]


def pages_to_review(attempt: Attempt) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return for each subject with a wrong answer its name, and the pages and lessons on its missed questions."""
    by_subject: dict[str, dict[str, str]] = {}
    unknown = to_tick(attempt)
    for i, (question, grade) in enumerate(zip(attempt.questions, attempt.grades(), strict=True)):
        if not grade.right and i not in unknown:
            for name, address in (where(question), *lessons_on(question)):
                by_subject.setdefault(question.subject, {}).setdefault(name, address)
    ordered = dict.fromkeys((*SUBJECTS, *by_subject))
    return [(subject_name(subject), list(by_subject[subject].items())) for subject in ordered if subject in by_subject]


def orders(question: Question, given: str) -> dict[str, str]:
    """Return an ordering question's lines by title: in the given order, if that is wrong, and in the right order.

    An arrow marks the first difference. Empty for other questions.
    """
    answer = question.answer
    if not isinstance(answer, OrderAnswer):
        return {}
    places = answer.places(given)
    if places in ((), answer.order):
        return {"Right order": "\n".join(answer.items[i] for i in answer.order)}
    first = answer.first_difference(places)
    return {
        title: "\n".join(f"{'→' if n == first else ' '} {n + 1} {answer.items[i]}" for n, i in enumerate(order))
        for title, order in (("Your order", places), ("Right order", answer.order))
    }


def cell_of(given: object) -> tuple[int, int] | None:
    """Parse a chosen cell from its text; None if there is none."""
    numbers = re.findall(r"\d{1,6}", str(given))
    return (int(numbers[0]), int(numbers[1])) if len(numbers) == 2 else None


def shown(question: Question, given: str) -> str:
    """Return the given answer in one line, as it was chosen or typed."""
    if isinstance(question.answer, SpokenAnswer):
        return "said aloud" if given else "no answer"
    options: Sequence[str] = getattr(question.answer, "options", ())
    if options and given.isdecimal() and int(given[:3]) < len(options):
        return options[int(given[:3])]
    if isinstance(question.answer, OrderAnswer) and question.answer.places(given):
        return "your order"
    if isinstance(question.answer, CellAnswer) and (cell := cell_of(given)):
        return question.answer.named(cell)
    return " ".join(given.split())[:100] or "no answer"
