"""What a mistake is: the changed lines, a question about them, and how to see and to test for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import torch

from attnviz.config import ModelConfig
from attnviz.mistakes.versions import RIGHT, Change, Version, version
from attnviz.modules import Transformer

Kind = Literal["raises", "nan", "silent"]
KINDS: tuple[Kind, ...] = ("raises", "nan", "silent")


class Source(NamedTuple):
    """Where one can read about it."""

    title: str
    url: str


class CannotOccur(ValueError):
    """The mistake does not exist in this model. The message is the reason, a sentence for a person."""


@dataclass(frozen=True, eq=False)
class Symptom:
    """What the right and the mistaken version computed for one text."""

    picture: str  # what the two maps show: "Weights of layer 0, head 3"
    right: np.ndarray  # (rows, columns)
    wrong: np.ndarray | None  # the same shape; None where the mistaken version raised before it got there
    measure: str  # what the telling number is: "Smallest sum of a row"
    expected: float  # of the right version; NaN where there is none
    number: float  # of the mistaken version
    sentence: str  # what the numbers say, for this text and model
    error: str = ""  # what the mistaken version raised: "RuntimeError: …"
    columns: tuple[str, ...] = ()  # their names, where the numbers are one row of counts and not a map of tokens
    layer: int | None = None  # of the maps, where they are of one head or of one layer
    head: int | None = None
    n_padding: int = 0  # of the rows and columns, so many at the front are padding that was put before the text

    @property
    def nbytes(self) -> int:
        """Count the bytes of the maps."""
        return self.right.nbytes + (0 if self.wrong is None else self.wrong.nbytes)

    @property
    def difference(self) -> np.ndarray | None:
        """The mistaken map less the right one."""
        return None if self.wrong is None else self.wrong - self.right


Compare = Callable[[Version, Version, Transformer, list[int]], Symptom]


def _anywhere(config: ModelConfig) -> str:
    return ""


@dataclass(frozen=True)
class Mistake:
    """One mistake in code of the modules."""

    title: str
    kind: Kind  # how it shows itself: an error, NaN, or nothing but other numbers
    changes: tuple[Change, ...]
    question: str
    answers: tuple[str, ...]
    answer: int  # the index of the right one
    what: str  # one paragraph
    sources: tuple[Source, ...]
    noticed: str  # where one would notice it in a training run or in use
    interview: str  # how interviewers ask for it
    test: str  # Python to copy: passes on the right version and fails on this one
    compare: Compare  # (right, wrong, model, ids) -> the symptom
    cannot_occur: Callable[[ModelConfig], str] = _anywhere  # the reason, a sentence; "" where it can occur
    latent: tuple[Change, ...] = ()  # the same mistake in MLA, where it stands on other lines
    id: str = ""  # the name of its file

    def changes_in(self, config: ModelConfig | None = None) -> tuple[Change, ...]:
        """The lines of the mistake in a model with this configuration; without one, in one that is not MLA."""
        return self.latent if self.latent and config and config.attention == "mla" else self.changes

    def version(self, config: ModelConfig | None = None) -> Version:
        """The mistaken version for a model with this configuration, made once; without one, as above."""
        changes = self.changes_in(config)
        return version(f"{self.id}, MLA" if changes is self.latent and changes else self.id, changes)

    def diff(self, config: ModelConfig | None = None) -> dict[str, str]:
        """The diff of each changed file, by its path below attnviz/."""
        return self.version(config).diff()

    def model(self, model: Transformer) -> Transformer:
        """The model as the mistaken version runs it; weights are shared. CannotOccur where it cannot."""
        self._check(model.config)
        return self.version(model.config).like(model)

    def symptom(self, model: Transformer, ids: Sequence[int]) -> Symptom:
        """Run the right and the mistaken version on one text. CannotOccur where the model cannot have the mistake."""
        self._check(model.config)
        if not len(ids):
            raise ValueError("a symptom needs at least one token id")
        with torch.inference_mode():
            return self.compare(RIGHT, self.version(model.config), model, [int(i) for i in ids])

    def _check(self, config: ModelConfig) -> None:
        if reason := self.cannot_occur(config):
            raise CannotOccur(reason)
