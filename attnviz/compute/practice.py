"""What the Practice page computes: the questions of a set, an attempt at it, the score card, progress."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from attnviz.equations import aligned
from attnviz.practice.drills import LEVELS, SUBJECTS, Progress, Question, question_set, score_card
from attnviz.practice.drills.answers import Grade
from attnviz.practice.drills.sets import LARGEST_FILE, Tally
from attnviz.practice.task import Task
from attnviz.practice.tasks import TASKS
from attnviz.session.settings import Settings

__all__ = ["LARGEST_FILE", "LEVELS", "SUBJECTS", "TASKS", "Attempt", "Progress", "Question", "Tally", "Task"]

INTERVIEW_QUESTIONS, INTERVIEW_MINUTES = 10, 15
MOST_AGAIN = 10


@dataclass(frozen=True)
class Attempt:
    """A set of questions and the answers so far. One question is on screen until `next` is asked for."""

    questions: tuple[Question, ...]
    began: float  # seconds, by any clock
    seconds: float = 0.0  # 0: no limit
    feedback: bool = True
    of: str = "set"  # "set", "interview" or "missed"
    given: tuple[str, ...] = ()
    answered: bool = False  # the question on screen has its answer

    @property
    def at(self) -> int:
        """The question on screen."""
        return len(self.given) - self.answered

    @property
    def done(self) -> bool:
        return self.at >= len(self.questions)

    def left(self, now: float) -> float:
        """Seconds left; infinite without a limit."""
        return max(0.0, self.began + self.seconds - now) if self.seconds else float("inf")

    def answer(self, given: str, now: float) -> Attempt:
        """Take an answer to the question on screen; once the time is up, none is taken."""
        if self.done or self.answered:
            return self
        if not self.left(now):
            return self.stop()
        return replace(self, given=(*self.given, given), answered=self.feedback)

    def next(self) -> Attempt:
        """Go on to the next question."""
        return replace(self, answered=False)

    def stop(self) -> Attempt:
        """End it: what was not answered counts as wrong."""
        return replace(self, given=(*self.given, *("" for _ in self.questions[len(self.given) :])), answered=False)

    def grades(self) -> list[Grade]:
        """Grade what was answered."""
        return [question.grade(given) for question, given in zip(self.questions, self.given, strict=False)]


def set_of(s: Settings) -> tuple[Question, ...]:
    """The set that the settings ask for: the same for everybody with the link."""
    return tuple(question_set(s.subject, s.level, s.questions, s.question_set))


def begin(s: Settings, of: str, progress: Progress, now: float) -> Attempt:
    """Begin a set, the mock interview or the missed questions."""
    if of == "interview":
        asked = tuple(question_set("", 3, INTERVIEW_QUESTIONS, s.question_set))
        return Attempt(asked, now, 60.0 * INTERVIEW_MINUTES, feedback=False, of=of)
    if of == "missed":
        return Attempt(tuple(progress.again(MOST_AGAIN)), now, of=of)
    return Attempt(set_of(s), now, 60.0 * s.minutes)


def tallies(attempt: Attempt) -> list[Tally]:
    """The score card by subject."""
    return score_card(attempt.questions, [grade.right for grade in attempt.grades()])


def after_all(progress: Progress, attempt: Attempt) -> Progress:
    """Count every answer of an attempt."""
    for question, grade in zip(attempt.questions, attempt.grades(), strict=False):
        progress = progress.after(question, grade.right)
    return progress


def way_tex(question: Question) -> str:
    """The equations that lead to the answer."""
    return aligned(*question.way) if question.way else ""


def legend(question: Question) -> str:
    """What the letters of the way mean, with the numbers of this question."""
    letters = {letter: found for each in question.way for letter, found in each.legend().items()}
    return " · ".join(f"{letter} = {meaning} ({value})" for letter, (meaning, value) in letters.items())


def card_text(attempt: Attempt) -> str:
    """The score card as a file in Markdown."""
    grades = attempt.grades()
    lines = ["# AttnViz practice", "", f"{sum(g.right for g in grades)} of {len(grades)} right", ""]
    lines += ["| subject | right | of |", "| --- | --- | --- |"]
    lines += [f"| {SUBJECTS[row.subject]} | {row.right} | {row.asked} |" for row in tallies(attempt)]
    for i, (question, given, grade) in enumerate(zip(attempt.questions, attempt.given, grades, strict=True), 1):
        lines += ["", f"## {i}. {'right' if grade.right else 'wrong'}", "", question.text]
        lines += ["", f"    {question.code}"] if question.code else []
        lines += [
            "",
            f"Given: {shown(question, given)}",
            "",
            f"Answer: {question.answer.shown()}",
            "",
            question.because,
        ]
        lines += [f"\n    {each.text()}" for each in question.way]
    return "\n".join(lines) + "\n"


def shown(question: Question, given: str) -> str:
    """What was given, in one line, as it was chosen or typed."""
    options: Sequence[str] = getattr(question.answer, "options", ())
    if options and given.isdecimal() and int(given[:3]) < len(options):
        return options[int(given[:3])]
    return " ".join(given.split())[:100] or "no answer"
