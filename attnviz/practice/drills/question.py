"""A question, and the registry of question kinds. Each kind is a function that takes a random generator."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from attnviz.equations import Equation
from attnviz.practice.drills.answers import Answer, ChoiceAnswer, Grade

SUBJECTS = {
    "shapes": "Shapes",
    "heads": "Heads and grouping",
    "masks": "Masks and softmax",
    "rope": "RoPE",
    "cost": "Parameters and cache",
    "decoding": "Decoding and speed",
}
LEVELS = {1: "Basic", 2: "Interview", 3: "Hard"}


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

    link: page and settings that show it. code: lines of code shown with the question.
    """

    text: str
    answer: Answer
    because: str
    solution: tuple[Equation, ...] = ()
    link: tuple[str, Mapping[str, str]] = ("", {})
    code: str = ""
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


@dataclass(frozen=True)
class Kind:
    """A kind of question, registered in KINDS."""

    name: str
    subject: str
    level: int
    ask: Callable[[random.Random], Question]


KINDS: dict[str, Kind] = {}


def kind(
    subject: str, level: int
) -> Callable[[Callable[[random.Random], Question]], Callable[[random.Random], Question]]:
    """Register a function as a kind of question; its name is the function's."""

    def register(ask: Callable[[random.Random], Question]) -> Callable[[random.Random], Question]:
        KINDS[ask.__name__] = Kind(ask.__name__, subject, level, ask)
        return ask

    return register


def make(name: str, seed: int) -> Question:
    """Make the question of this kind and seed. ValueError for an unknown kind."""
    if name not in KINDS:
        raise ValueError(f"There is no kind of question {name[:40]!r}.")
    found = KINDS[name]
    asked = found.ask(random.Random(f"{name}/{seed}"))
    own = {key: value for key, value in vars(asked).items() if key not in ("kind", "subject", "level", "seed")}
    return Question(**own, kind=name, subject=found.subject, level=found.level, seed=seed)


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
        """Return the options in random order, without duplicates."""
        shown = self._shown()
        order = list(shown)
        rng.shuffle(order)
        return self._answer(shown, order)

    def in_order(self) -> ChoiceAnswer:
        """Return the options in alphabetical order, for the letters of maps that are already shuffled."""
        shown = self._shown()
        return self._answer(shown, sorted(shown))

    def _shown(self) -> dict[str, str]:
        shown = {self.right: ""}
        for option, explanation in self.wrong:
            shown.setdefault(option, explanation)
        assert all(shown), "an option without text"
        return shown

    def _answer(self, shown: dict[str, str], order: list[str]) -> ChoiceAnswer:
        return ChoiceAnswer(tuple(order), order.index(self.right), tuple(shown[o] for o in order), self.code)
