"""The record of a mistake: the changed lines, a question about them, their symptom and a test."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
import torch

from attnviz.config import ModelConfig
from attnviz.mistakes.coverage import ChangedCode, changed_functions
from attnviz.mistakes.versions import RIGHT, Change, Version, version
from attnviz.modules import Transformer
from attnviz.phrases import count, listed

Kind = Literal["raises", "nan", "silent"]
SUBJECTS: dict[str, str] = {
    "mask": "Mask", "softmax": "Softmax and scores", "cache": "Cache", "rope": "RoPE and positions",
    "heads": "Heads and shapes", "linear": "Linear and sparse attention", "training": "Training and other layers",
}  # fmt: skip
SAME = 1e-6  # a smaller difference of a weight, or of a number as its share, is rounding


class Source(NamedTuple):
    """A reference."""

    title: str
    url: str


class CannotOccur(ValueError):
    """The mistake did not show in a run of this model. The message gives the reason in sentences for the user."""


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
    signed: bool = False  # the maps are effective weights: they may be negative, and their rows do not sum to 1
    n_padding: int = 0  # number of leading rows and columns that are padding
    n_tokens: int = 0  # of the text

    @property
    def effect(self) -> Kind:
        """How the mistake shows in this run."""
        if self.error:
            return "raises"
        nan = math.isnan(self.number) or (self.wrong is not None and bool(np.isnan(self.wrong).any()))
        return "nan" if nan and not np.isnan(self.right).any() else "silent"

    @property
    def is_same(self) -> bool:
        """Check whether the mistaken version computed the same number and map as the right one, up to rounding."""
        if self.error or not math.isclose(self.number, self.expected, rel_tol=SAME, abs_tol=SAME):
            return False
        if self.wrong is None or self.columns:
            return True
        return self.wrong.shape == self.right.shape and np.allclose(self.wrong, self.right, rtol=0, atol=SAME)

    @property
    def nbytes(self) -> int:
        """The size of the maps in bytes."""
        return self.right.nbytes + (0 if self.wrong is None else self.wrong.nbytes)

    @property
    def difference(self) -> np.ndarray | None:
        """The mistaken map minus the right one."""
        return None if self.wrong is None else self.wrong - self.right


Compare = Callable[[Version, Version, Transformer, list[int]], Symptom]


def _shows(config: ModelConfig) -> str:
    return ""


@dataclass(frozen=True)
class Words:
    """The words and the test of a mistake that are different in some models; those left empty are the same."""

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
    subject: str  # what its code is about
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
    why_not: Callable[[ModelConfig], str] = _shows  # why its code does not run, or computes the same; "" if it shows
    n_padding: int = 0  # tokens of padding before the text in its run
    latent: tuple[Change, ...] = ()  # the same mistake in MLA, if other lines have to change
    latent_words: Words = Words()  # title, question and answers for those lines
    walked: bool = True  # False: its lines are not those that Step by step walks, as those of a chunked form
    wide_words: Words = Words()  # those for a model without MLA whose n_heads · head_dim is not d_model
    id: str = ""  # the name of its file

    def words_in(self, config: ModelConfig | None = None) -> Mistake:
        """Return the record with the words about the lines changed in this model; None means a model without MLA."""
        words = Words()
        if self._is_latent(config):
            words = self.latent_words
        elif config and config.attention != "mla" and config.n_heads * config.head_dim != config.d_model:
            words = self.wide_words
        return replace(self, **{name: each for name, each in vars(words).items() if each})

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
        """Return the model with the mistaken code, sharing its weights."""
        return self.version(model.config).like(model)

    def symptom(self, model: Transformer, ids: Sequence[int]) -> Symptom:
        """Run the right and the mistaken version on one text.

        Raises CannotOccur if none of the changed code ran, or if it computed the same for a reason in the model. Where
        the text is the reason, as one of a single token, the symptom's sentence says so.
        """
        if not len(ids):
            raise ValueError("a symptom needs at least one token id")
        if refused := self.refused_by(model.config):
            raise CannotOccur(refused)
        fitting, version = self._fitting(model.config, ids), self.version(model.config)
        with torch.inference_mode(), ChangedCode(version) as changed:
            found = self.compare(RIGHT, version, model, fitting)
        reason = self.why_not(model.config)
        if not changed.ran:
            places = listed(f"`{name}`" for name in changed_functions(version))
            raise CannotOccur(f"The changed code, in {places}, did not run. {reason or found.sentence}")
        if found.is_same and reason:
            raise CannotOccur(f"The changed code ran, and computed the same as the right one. {reason}")
        return replace(found, n_padding=self.n_padding, n_tokens=len(fitting))

    def refused_by(self, config: ModelConfig) -> str:
        """Return why a mechanism of this model cannot have the mistake, or not with these numbers; "" otherwise."""
        reasons = (mixer.cannot(f"mistake {self.id}") for _, layer in config.layer_counts for mixer in layer.mixers)
        return next(filter(None, reasons), "")

    def _fitting(self, config: ModelConfig, ids: Sequence[int]) -> list[int]:
        """Return the first ids that, after the padding, have a learned position; all of them with other positions."""
        rows = config.learned_position_rows if config.position == "learned" else None
        fitting = [int(i) for i in ids[: None if rows is None else max(0, rows - self.n_padding)]]
        if not fitting:
            learned, padding = count(rows or 0, "learned position"), count(self.n_padding, "token")
            raise CannotOccur(f"This model has {learned}: no room for {padding} of padding and a text.")
        return fitting
