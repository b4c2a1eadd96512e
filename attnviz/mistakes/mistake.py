"""The record of a mistake: the changed lines, a question about them, their symptom and a test."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
import torch

from attnviz.config import ModelConfig
from attnviz.mistakes.versions import RIGHT, Change, Version, version
from attnviz.modules import Transformer

Kind = Literal["raises", "nan", "silent"]
Subject = Literal["mask", "softmax", "cache", "rope", "heads", "training"]
SUBJECTS: tuple[Subject, ...] = ("mask", "softmax", "cache", "rope", "heads", "training")


class Source(NamedTuple):
    """A reference."""

    title: str
    url: str


class CannotOccur(ValueError):
    """The mistake cannot occur in this model. The message gives the reason as a sentence for the user."""


@dataclass(frozen=True, eq=False)
class Symptom:
    """The results of the right and the mistaken version on one text."""

    picture: str  # title of the two maps: "Weights of layer 0, head 3"
    right: np.ndarray  # (rows, columns)
    wrong: np.ndarray | None  # the same shape; None if the mistaken version raised first
    measure: str  # name of the metric: "Smallest sum of a row"
    expected: float  # its value in the right version; NaN if undefined
    number: float  # its value in the mistaken version
    sentence: str  # the finding, for this text and model
    error: str = ""  # the exception of the mistaken version: "RuntimeError: …"
    columns: tuple[str, ...] = ()  # column names, if the map is one row of counts instead of a token map
    layer: int | None = None  # of the maps, if they show one head or one layer
    head: int | None = None
    n_padding: int = 0  # number of leading rows and columns that are padding

    @property
    def nbytes(self) -> int:
        """The size of the maps in bytes."""
        return self.right.nbytes + (0 if self.wrong is None else self.wrong.nbytes)

    @property
    def difference(self) -> np.ndarray | None:
        """The mistaken map minus the right one."""
        return None if self.wrong is None else self.wrong - self.right


Compare = Callable[[Version, Version, Transformer, list[int]], Symptom]


def _anywhere(config: ModelConfig) -> str:
    return ""


@dataclass(frozen=True)
class Words:
    """The words and the test of a mistake that are different in MLA; those left empty are the same."""

    title: str = ""
    question: str = ""
    answers: tuple[str, ...] = ()  # the right one has the same index
    what: str = ""
    noticed: str = ""
    interview: str = ""
    test: str = ""


@dataclass(frozen=True)
class Mistake:
    """A mistake in the code of the modules."""

    title: str
    subject: Subject  # what its code is about
    kind: Kind  # how it shows: an error, NaN, or only different numbers
    changes: tuple[Change, ...]
    question: str
    answers: tuple[str, ...]
    answer: int  # the index of the right one
    what: str  # the explanation, one paragraph
    sources: tuple[Source, ...]
    noticed: str  # how it shows in training or in use
    interview: str  # how interviewers ask about it
    test: str  # Python to copy: passes on the right version and fails on this one
    compare: Compare  # (right, wrong, model, ids) -> the symptom
    cannot_occur: Callable[[ModelConfig], str] = _anywhere  # the reason, a sentence; "" if it can occur
    latent: tuple[Change, ...] = ()  # the same mistake in MLA, if other lines have to change
    latent_words: Words = Words()  # title, question and answers for those lines
    id: str = ""  # the name of its file

    def words_in(self, config: ModelConfig | None = None) -> Mistake:
        """Return the record with the words about the lines changed in this model; None means a model without MLA."""
        if not self._is_latent(config):
            return self
        return replace(self, **{name: words for name, words in vars(self.latent_words).items() if words})

    def changes_in(self, config: ModelConfig | None = None) -> tuple[Change, ...]:
        """Return the changed lines for a model with this configuration; None means a model without MLA."""
        return self.latent if self._is_latent(config) else self.changes

    def _is_latent(self, config: ModelConfig | None) -> bool:
        return bool(self.latent and config and config.attention == "mla")

    def version(self, config: ModelConfig | None = None) -> Version:
        """Return the mistaken version for a model with this configuration, cached; None means as above."""
        changes = self.changes_in(config)
        return version(f"{self.id}, MLA" if changes is self.latent and changes else self.id, changes)

    def diff(self, config: ModelConfig | None = None) -> dict[str, str]:
        """Return the diff that repairs each changed file, by its path below attnviz/."""
        return self.version(config).diff()

    def model(self, model: Transformer) -> Transformer:
        """Return the model with the mistaken code, sharing its weights. Raises CannotOccur."""
        self._check(model.config)
        return self.version(model.config).like(model)

    def symptom(self, model: Transformer, ids: Sequence[int]) -> Symptom:
        """Run the right and the mistaken version on one text. Raises CannotOccur."""
        self._check(model.config)
        if not len(ids):
            raise ValueError("a symptom needs at least one token id")
        with torch.inference_mode():
            return self.compare(RIGHT, self.version(model.config), model, [int(i) for i in ids])

    def _check(self, config: ModelConfig) -> None:
        if reason := self.cannot_occur(config):
            raise CannotOccur(reason)
