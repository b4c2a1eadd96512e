"""A question, and the registry of question kinds. Each kind is a function that takes a random generator."""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeVar

from attnviz.equations import Equation
from attnviz.practice.drills.answers import Answer, ChoiceAnswer, Grade

LEVELS = {1: "Basic", 2: "Interview", 3: "Hard"}
T = TypeVar("T", bound=Hashable)
MAX_DRAWS = 100  # of the inputs of a question, until its answers can be told apart


@dataclass(frozen=True)
class Drawn:
    """An attention map shown with a question. values: None where masked; show_values: whether hovering shows them."""

    values: tuple[tuple[float | None, ...], ...]
    title: str = ""
    labels: tuple[str, ...] = ()
    show_values: bool = True


@dataclass(frozen=True)
class Question:
    """A question with its answer and explanation. solution: its equations; because: the reason in words.

    link: page and settings that show it. code: lines of code shown with the question. whole: the functions of which
    they are an excerpt, if they are one.
    """

    text: str
    answer: Answer
    because: str
    solution: tuple[Equation, ...] = ()
    link: tuple[str, Mapping[str, str]] = ("", {})
    code: str = ""
    whole: str = ""
    maps: tuple[Drawn, ...] = ()
    kind: str = ""
    subject: str = ""
    level: int = 0
    seed: int = 0

    def grade(self, given: str) -> Grade:
        """Grade an answer as typed or chosen."""
        return self.answer.grade(given)

    @property
    def id(self) -> str:
        """The kind and seed, from which `make` builds the same question."""
        return f"{self.kind}:{self.seed}"


def statement(question: Question) -> tuple[object, ...]:
    """Return what a question shows before it is answered; its options, which are shuffled, left out."""
    return question.text, question.code, question.maps


@dataclass(frozen=True)
class Kind:
    """A kind of question, registered in KINDS. lessons: those that explain what it asks; none for some kinds.

    drawn: the page that its question links to shows the number or the picture asked for, not only others of its kind.
    """

    name: str
    subject: str
    level: int
    ask: Callable[[random.Random], Question]
    lessons: tuple[str, ...] = ()
    drawn: bool = False


KINDS: dict[str, Kind] = {}


def kind(
    subject: str, level: int, *lessons: str, drawn: bool = False
) -> Callable[[Callable[[random.Random], Question]], Callable[[random.Random], Question]]:
    """Register a function as a kind of question; its name is the function's. The others: see `Kind`."""

    def register(ask: Callable[[random.Random], Question]) -> Callable[[random.Random], Question]:
        KINDS[ask.__name__] = Kind(ask.__name__, subject, level, ask, lessons, drawn)
        return ask

    return register


def make(name: str, seed: int) -> Question:
    """Make the question of this kind and seed. ValueError for an unknown kind.

    It is drawn again until each known wrong answer can be told from the right one and from the others. Otherwise the
    answer of who made that mistake would be accepted, or get the reason of another mistake.
    """
    if name not in KINDS:
        raise ValueError(f"There is no kind of question {name[:40]!r}.")
    kind = KINDS[name]
    asked = next(asked for asked in _draws(kind, seed) if not asked.answer.clashes())
    own = {key: value for key, value in vars(asked).items() if key not in ("kind", "subject", "level", "seed")}
    return Question(**own, kind=name, subject=kind.subject, level=kind.level, seed=seed)


def _draws(kind: Kind, seed: int) -> Iterator[Question]:
    """Draw the question of a kind and seed again and again, differently each time."""
    for n in range(MAX_DRAWS):
        yield kind.ask(random.Random(f"{kind.name}/{seed}" + f"/{n}" * (n > 0)))
    raise RuntimeError(f"The known wrong answers of {kind.name} clash for seed {seed} in {MAX_DRAWS} draws.")


def tries() -> Iterator[int]:
    """Iterate over MAX_DRAWS tries of a draw; the loop ends once one fits, with RuntimeError if none does."""
    yield from range(MAX_DRAWS)
    raise RuntimeError(f"In {MAX_DRAWS} draws none fits.")


def drawn(rng: random.Random, inputs: tuple[T, ...], answer: Callable[[T], Answer]) -> T:
    """Draw one of the inputs whose known wrong answers can be told apart. answer: returns the answer of an input."""
    return rng.choice(_clear(inputs, answer))


@lru_cache(maxsize=256)
def _clear(inputs: tuple, answer: Callable[[Any], Answer]) -> list:
    return [each for each in inputs if not answer(each).clashes()]


def kinds_of(subject: str, level: int) -> list[Kind]:
    """List the kinds of a subject ("" for all) up to a level."""
    return [k for k in KINDS.values() if subject in ("", k.subject) and k.level <= level]


@dataclass(frozen=True)
class Options:
    """The options of a multiple-choice question before they are shuffled."""

    right: str
    wrong: Sequence[tuple[str, str]] = field(default_factory=tuple)  # option, why it is wrong
    code: bool = False

    def shuffled(self, rng: random.Random) -> ChoiceAnswer:
        """Return the options in random order."""
        shown = self._shown()
        rng.shuffle(shown)
        return self._answer(shown)

    def in_order(self) -> ChoiceAnswer:
        """Return the options in alphabetical order, for the letters of maps that are already shuffled."""
        return self._answer(sorted(self._shown()))

    def _shown(self) -> list[tuple[str, str]]:
        shown = [(self.right, ""), *self.wrong]
        assert all(option for option, _ in shown), "an option without text"
        return shown

    def _answer(self, shown: list[tuple[str, str]]) -> ChoiceAnswer:
        return ChoiceAnswer(
            tuple(o for o, _ in shown), shown.index((self.right, "")), tuple(e for _, e in shown), self.code
        )
