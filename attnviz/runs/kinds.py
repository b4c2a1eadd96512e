"""One kind of attention of a run: its weights and tokens, checked against each other.

Layers (H, T, S): H query heads, T query tokens, S key tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from attnviz.phrases import count, listed, span
from attnviz.runs.arrays import POSSIBLE, RunError, as_array, in_words, sealed

CALLED = {  # within a sentence
    "self": "attention",
    "encoder": "the encoder's attention",
    "decoder": "the decoder's attention",
    "cross": "cross-attention",
}
KINDS = tuple(CALLED)
SUM_TOLERANCE = 0.01  # of a row's sum: weights rounded to float16 or bfloat16 stay below

Layers = tuple[np.ndarray, ...]


@dataclass(frozen=True, eq=False, repr=False)
class AttentionKind:
    """The weights of one kind of attention, layer by layer; layers may have different numbers of heads."""

    name: str  # one of KINDS; "self" for an array and for a model with a decoder only
    layers: Layers  # each (H, T, S), float32 or float16, read-only
    tokens: tuple[str, ...]  # T, the query side
    key_tokens: tuple[str, ...]  # S
    n_kv_heads: tuple[int | None, ...] = ()  # per layer; None = one per query head, unless known
    first_row: int = 0  # position of the first query among the keys

    def __post_init__(self) -> None:
        if self.name not in KINDS:
            raise RunError(f"a kind of attention is one of {listed(KINDS)}, not {self.name!r}")
        if not self.layers:
            raise RunError(f"the {self.title} has no layers; possible are {POSSIBLE}")
        object.__setattr__(self, "layers", tuple(sealed(as_array(layer, self.title)) for layer in self.layers))
        for i, layer in enumerate(self.layers):
            self._check(layer, i)
        object.__setattr__(self, "n_kv_heads", self.n_kv_heads or (None,) * self.n_layers)
        self._check_kv_heads()
        self._check_first_row()

    def _check(self, layer: np.ndarray, i: int) -> None:
        name = f"layer {i} of the {self.title}"
        if layer.ndim != 3 or not layer.size:
            raise RunError(f"{name} has the shape {in_words(layer.shape)}, not (heads, queries, keys)")
        tokens, keys = len(self.tokens), len(self.key_tokens)
        if layer.shape[2] != keys:
            what = "token" if self.tokens == self.key_tokens else "key token"
            raise RunError(f"{name} has {count(layer.shape[2], 'key')}, but {given(keys, what)}")
        if layer.shape[1] != tokens:
            raise RunError(f"{name} has {count(layer.shape[1], 'row')}, one per query, but {given(tokens, 'token')}")
        least, greatest = layer.min(), layer.max()
        if not np.isfinite(least) or not np.isfinite(greatest):
            raise RunError(f"{name} has weights that are not finite (NaN or infinity)")
        if least < 0:
            raise RunError(f"{name} has negative weights, down to {least:.3g}; attention weights are 0 or more: "
                           "scores become weights by a softmax")  # fmt: skip

    def _check_kv_heads(self) -> None:
        if len(self.n_kv_heads) != self.n_layers:
            raise RunError(
                f"n_kv_heads has {count(len(self.n_kv_heads), 'number')} for {count(self.n_layers, 'layer')}"
            )
        for i, (n, n_heads) in enumerate(zip(self.n_kv_heads, self.n_heads, strict=True)):
            if n is not None and (isinstance(n, bool) or not isinstance(n, int) or n < 1 or n_heads % n):
                raise RunError(f"n_kv_heads must divide the number of query heads: layer {i} has {n_heads}, not {n!r}")

    def _check_first_row(self) -> None:
        first, n, keys = self.first_row, len(self.tokens), len(self.key_tokens)
        if isinstance(first, bool) or not isinstance(first, int) or first < 0 or (first and first + n > keys):
            raise RunError(f"first_row must be a whole number from 0 to {max(0, keys - n)}, not {first!r}: "
                           f"it has {count(n, 'row')} and {count(keys, 'key')}")  # fmt: skip

    @property
    def title(self) -> str:
        """The kind in words: "self-attention", "encoder self-attention", "cross-attention"."""
        return {"self": "self-attention", "cross": "cross-attention"}.get(self.name, f"{self.name} self-attention")

    @property
    def called(self) -> str:
        """The kind within a sentence."""
        return CALLED[self.name]

    @property
    def summary(self) -> str:
        """The kind with its sizes: "self-attention, 3 layers × 6 heads, 13 tokens"."""
        heads = listed(dict.fromkeys(self.n_heads)) if len(set(self.n_heads)) < 4 else f"up to {max(self.n_heads)}"
        sizes = f"{count(len(self.tokens), 'query token')}, {count(len(self.key_tokens), 'key token')}"
        tokens = sizes if self.cross or self.first_row else count(len(self.tokens), "token")
        plural = "" if self.n_heads == (1,) * self.n_layers else "s"
        return f"{self.title}, {count(self.n_layers, 'layer')} × {heads} head{plural}, {tokens}"

    def __repr__(self) -> str:
        return f"<{self.summary}>"

    @property
    def n_layers(self) -> int:
        return len(self.layers)

    @property
    def n_heads(self) -> tuple[int, ...]:
        """Query heads per layer."""
        return tuple(len(layer) for layer in self.layers)

    @property
    def named_kv_heads(self) -> tuple[int | None, ...]:
        """KV heads per layer as they are named: None too where each head has its own and none is cached, as in BERT."""
        return tuple(
            None if n == n_heads and not self.causal else n
            for n, n_heads in zip(self.n_kv_heads, self.n_heads, strict=True)
        )

    @property
    def cross(self) -> bool:
        """Whether the queries are other tokens than the keys."""
        first = self.first_row
        return self.name == "cross" or self.key_tokens[first : first + len(self.tokens)] != self.tokens

    @cached_property
    def causal(self) -> bool:
        """Whether no query has weight on a key after it, counted from `first_row`."""
        later = ~np.tri(len(self.tokens), len(self.key_tokens), self.first_row, dtype=bool)  # (T, S)
        return not self.cross and not any(layer.max(axis=0)[later].any() for layer in self.layers)

    @cached_property
    def row_sums(self) -> tuple[float, float]:
        """The least and the greatest sum of a row."""
        sums = [layer.sum(axis=-1, dtype=np.float32) for layer in self.layers]  # (H, T)
        return float(min(s.min() for s in sums)), float(max(s.max() for s in sums))

    @property
    def sums_note(self) -> str:
        """A sentence about rows that do not sum to 1, or ""."""
        least, greatest = self.row_sums
        if max(1 - least, greatest - 1) <= SUM_TOLERANCE:
            return ""
        sums = span(f"{least:.3g}", f"{greatest:.3g}")
        return f"The rows of the {self.title} sum to {sums} instead of 1; the weights are shown as given."


def given(n: int, what: str) -> str:
    return f"{count(n, what)} {'was' if n == 1 else 'were'} given"
