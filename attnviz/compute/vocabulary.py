"""The tokens of a vocabulary as labels, and those that a model finds likeliest after each token."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from attnviz.compute import models
from attnviz.compute.models import Run
from attnviz.compute.view import View
from attnviz.figures.numbers import rounded
from attnviz.session.settings import Settings
from attnviz.trace import likeliest


@dataclass(frozen=True)
class Vocabulary(Sequence[str]):
    """Lazy sequence of the printable label of each token id of a model, as it would be labelled where it is written."""

    model: str
    size: int
    files: Hashable  # of an opened model: its tokenizer may have been replaced since
    before: tuple[int, ...] = ()  # tokens before it that began a character and did not complete it

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, token: Any) -> Any:
        return _label(self.model, int(token), self.before, self.files)

    def after(self, ids: Sequence[int]) -> Vocabulary:
        """Return the labels after these tokens: after two bytes of 床, its third byte is "床 3/3"."""
        return replace(self, before=models.tokenizer_of(self.model).unfinished(ids))

    def labels(self, ids: Sequence[int]) -> list[str]:
        """Return the labels of a text of these tokens."""
        return models.tokenizer_of(self.model).labels([*ids])

    def described(self, token: int) -> str:
        """Say which characters a token that completes none begins or continues; "" for other tokens."""
        return models.tokenizer_of(self.model).described(int(token), self.before)


@lru_cache(maxsize=8192)
def _label(model: str, token: int, before: tuple[int, ...], files: Hashable) -> str:
    return models.tokenizer_of(model).name(token, before)


def vocabulary(settings: Settings) -> Vocabulary:
    """Return the printable label of each token of the vocabulary, by id."""
    size = models.config_of(settings).vocab_size
    return Vocabulary(settings.tokenizer, size, models.files_of(settings.tokenizer))


MAX_NEXT = 5  # predicted next tokens per token of the text


def next_tokens_of(view: View) -> list[list[tuple[str, float, str]]]:
    """Return the MAX_NEXT likeliest next tokens after each token, likeliest first: (label, probability, description).

    The description, of a token that completes no character, is that of `Vocabulary.described`.
    """
    return _next_tokens(view.run, view.ids, view.n_padding, vocabulary(view.settings))


@lru_cache(32)
def _next_tokens(
    run: Run, ids: tuple[int, ...], n_padding: int, vocabulary: Vocabulary
) -> list[list[tuple[str, float, str]]]:
    tokens, odds = likeliest(run.trace(ids, n_padding), MAX_NEXT)
    rows = []
    for end, row in enumerate(zip(tokens.tolist(), rounded(odds).tolist(), strict=True), 1):
        labels = vocabulary.after(ids[:end])
        rows.append([(labels[i], p, labels.described(i)) for i, p in zip(*row, strict=True)])
    return rows
