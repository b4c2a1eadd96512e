"""A saved run as a trace: its layers as those of a model would be, so that pages draw them and ask what they lack.

Rows of a run that continued a prompt belong to later tokens of its text. They are put there: a row before them has no
weight, and each of its keys is masked. H query heads, K KV heads, T query tokens, S key tokens, D width of a head.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from attnviz.config import ModelConfig
from attnviz.mechanisms import Layer, Recorded
from attnviz.runs.run import AttentionKind, AttentionRun
from attnviz.trace import LayerTrace, Trace

TOLERANCE = 0.01  # of a weight that q and k give: saved in bfloat16, a score is rounded by 0.4%
SUM_TOLERANCE = 0.002  # of a row's sum: weights rounded to float16 stay below
N_CHECKED = 8  # rows per layer in which q and k are compared with the weights
QKV = "attnviz.run(…, qkv=True) records them."
NO_SCORES = f"This run carries no q and k: the scores before the softmax cannot be shown. {QKV}"


@dataclass(frozen=True)
class Sides:
    """What the rows and the columns of a saved run's maps are, for pages: labels, and positions as they are printed."""

    rows: range  # of the trace's rows, those that were recorded
    labels: list[str]
    positions: list[str]
    key_labels: list[str]
    key_positions: list[str]
    two_texts: bool
    spaced: (
        bool  # the tokens do not say where spaces are, as WordPiece's: there is one before each, but not before "##s"
    )


@dataclass(frozen=True, eq=False)
class Picture:
    """A picture whose patches are keys, after `n_before` other tokens."""

    pixels: np.ndarray  # (height, width, 3) bytes
    patches: tuple[int, int]  # rows, columns
    n_before: int

    @classmethod
    def of(cls, run: AttentionRun, kind: AttentionKind) -> Picture | None:
        """Return the run's picture where its patches are the keys of this kind of attention."""
        if run.picture is None or run.patches is None:
            return None
        n_keys = run.n_before + run.patches[0] * run.patches[1]
        return cls(run.picture, run.patches, run.n_before) if n_keys == len(kind.key_tokens) else None


class RecordedTrace(Trace):
    """The layers of one kind of attention of a saved run."""

    layers: RecordedLayers

    def __init__(self, run: AttentionRun, kind: AttentionKind) -> None:
        layers = RecordedLayers(run, kind)
        ids = np.array(ids_of(layers.labels), np.int64)
        ids.flags.writeable = False
        config, logits = config_of(kind, layers, run.title), np.empty((0, 0), np.float32)
        vars(self).update(config=config, tokens=ids, layers=layers, logits=logits, seconds=0.0)  # a frozen dataclass

    @property
    def masks(self) -> Sequence[np.ndarray]:
        return self.layers.allowed


class RecordedLayers(Sequence[LayerTrace]):
    """The layers, each made when it is accessed: in float32, and with rows for all tokens of its text."""

    N_KEPT = 4  # of the most recently used layers

    def __init__(self, run: AttentionRun, kind: AttentionKind) -> None:
        self.kind, self.first = kind, 0 if kind.cross else kind.first_row
        self.labels = list(kind.tokens if kind.cross else kind.key_tokens)  # one per row
        self.left_out = _left_out(run, kind)
        self.q, self.k, self.v = (tensors.get(kind.name, ()) for tensors in (run.q, run.k, run.v))
        whole = _mask(kind)
        found = [self._compared(i, whole) for i in range(kind.n_layers)]
        everywhere = self._rows(whole)
        self.allowed = [everywhere if mask is whole else self._rows(mask) for mask, _ in found]  # of each layer
        for mask in self.allowed:
            mask.flags.writeable = False
        self.mixers = [self._mixer(i, apart) for i, (_, apart) in enumerate(found)]
        self._layer = lru_cache(self.N_KEPT)(self._made)

    def __len__(self) -> int:
        return len(self.mixers)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(len(self))[index]]
        return self._layer(range(len(self))[index])

    def _made(self, i: int) -> LayerTrace:
        mixer, kind = self.mixers[i], self.kind
        H, n_keys = mixer.n_heads, len(kind.key_tokens)
        q = self._rows(_float32(self.q[i])) if self.q else np.zeros((H, len(self.labels), 0), np.float32)
        k = _float32(self.k[i]) if self.k else np.zeros((mixer.n_kv_heads, n_keys, 0), np.float32)
        v = _float32(self.v[i]) if self.v else np.zeros((mixer.n_kv_heads, n_keys, 0), np.float32)
        weights = self._rows(_float32(kind.layers[i]))  # (H, T, S)
        weights.flags.writeable = False
        return RecordedLayer(mixer, q, k, v, q, k, weights, self.allowed[i], scale=mixer.head_dim**-0.5)

    def _rows(self, array: np.ndarray) -> np.ndarray:
        """Put rows (…, T, n) at their tokens' places among all rows, (…, T', n); the others are 0."""
        n = len(self.labels)
        if array.shape[-2] == n:
            return array.view()
        whole = np.zeros((*array.shape[:-2], n, array.shape[-1]), array.dtype)
        whole[..., self.first : self.first + array.shape[-2], :] = array
        return whole

    def _mixer(self, i: int, apart: float) -> Recorded:
        kind, weights = self.kind, self.kind.layers[i]
        H, keys, values = len(weights), self.k[i] if self.k else None, self.v[i] if self.v else None
        known = kind.n_kv_heads[i]
        K = H if known is None else known
        if any(part is not None and len(part) != K for part in (keys, values)):
            K, known = H, None  # keys repeated for each query head
        sums = weights.sum(-1, dtype=np.float32)  # (H, T)
        least, most = float(sums.min()), float(sums.max())
        if max(1 - least, most - 1) < SUM_TOLERANCE:
            least = most = 1.0
        return Recorded(
            n_heads=H, n_kv_heads=K, sharing=known is not None,
            head_dim=1 if keys is None else keys.shape[-1], value_dim=1 if values is None else values.shape[-1],
            has_keys=keys is not None, has_values=values is not None, no_scores=self._no_scores(i, apart),
            causal=kind.causal, two_texts=kind.cross, first_row=self.first,
            n_rows=len(kind.tokens), n_keys=len(kind.key_tokens), least=least, most=most,
        )  # fmt: skip

    def _compared(self, i: int, whole: np.ndarray) -> tuple[np.ndarray, float]:
        """Return the mask (T, S) under which q and k lead to a layer's weights, and how far they are from them.

        It is the mask of all layers, or that of a window, as far as any head of the layer attends.
        """
        if not (self.q and self.k):
            return whole, 0.0
        q, k, weights = self.q[i], self.k[i], self.kind.layers[i]
        apart = difference(q, k, weights, whole)
        if apart > TOLERANCE:
            window = _window(weights, whole, self.kind.first_row)
            if (inside := difference(q, k, weights, window)) <= TOLERANCE:
                return window, inside
        return whole, apart

    def _no_scores(self, i: int, apart: float) -> str:
        """Return why q and k do not lead to the weights of a layer; "" where they do, in the rows compared."""
        if not (self.q and self.k):
            return self.left_out or NO_SCORES
        if apart <= TOLERANCE:
            return ""
        return (
            f"The softmax of this run's q·k / √{self.q[i].shape[-1]} differs from its weights by up to {apart:.2g}: "
            "its scores have something else too, such as RoPE, a bias or another scale, so the steps from score to "
            "weight are not shown."
        )


class RecordedLayer(LayerTrace):
    """A layer of a saved run, which has scores only where it carries q and k that give its weights."""

    def scores_of(self, head: int) -> np.ndarray:
        if why := self.mixer.cannot("score"):
            raise ValueError(why)
        return super().scores_of(head)


def config_of(kind: AttentionKind, layers: RecordedLayers, title: str) -> ModelConfig:
    """Return the configuration of a model with these layers, of which nothing else is known."""
    mixers = layers.mixers
    most, width = max(mixer.n_heads for mixer in mixers), max(mixer.head_dim for mixer in mixers)
    return ModelConfig(
        len(mixers), d_model=most * width, n_heads=most, head_dim=width, vocab_size=len(set(layers.labels)),
        position="none", causal=kind.causal, mixed_layers=tuple(Layer((mixer,)) for mixer in mixers), name=title,
        n_kv_heads=max(mixer.n_kv_heads for mixer in mixers) if most % max(m.n_kv_heads for m in mixers) == 0 else most,
    )  # fmt: skip


def _left_out(run: AttentionRun, kind: AttentionKind) -> str:
    """Return why a run has the keys of a kind of attention without its queries, as its file says; or ""."""
    has_q, has_k = (kind.name in tensors for tensors in (run.q, run.k))
    if has_q == has_k:
        return ""
    there, lacking = ("q", "k") if has_q else ("k", "q")
    why = next((note for note in run.notes if note.startswith(f"The queries of {kind.called} are left out")), "")
    if why:
        return f"{why} The steps from score to weight are not shown."
    return f"This run carries {there}, but no {lacking}: the scores before the softmax cannot be shown."


def ids_of(tokens: Sequence[str]) -> list[int]:
    """Return an id per token, the same for equal ones."""
    known: dict[str, int] = {}
    return [known.setdefault(token, len(known)) for token in tokens]


def difference(q: np.ndarray, k: np.ndarray, weights: np.ndarray, allowed: np.ndarray) -> float:
    """Return the largest difference, in some rows, between weights (H, T, S) and the softmax of q·k / √D."""
    H, T, D = q.shape
    rows = np.unique(np.linspace(0, T - 1, N_CHECKED).astype(int))
    keys = np.repeat(_float32(k), H // len(k), axis=0)  # (H, S, D)
    scores = _float32(q)[:, rows] @ keys.transpose(0, 2, 1) * D**-0.5  # (H, rows, S)
    scores = np.where(allowed[rows], scores, -np.inf)
    parts = np.exp(scores - scores.max(-1, keepdims=True))
    return float(np.abs(parts / parts.sum(-1, keepdims=True) - weights[:, rows]).max())


def _mask(kind: AttentionKind) -> np.ndarray:
    """Return which keys the recorded queries may attend to, bool (T, S): under a causal mask none after their own."""
    shape = len(kind.tokens), len(kind.key_tokens)
    return np.tri(*shape, kind.first_row, dtype=bool) if kind.causal else np.ones(shape, bool)


def _window(weights: np.ndarray, allowed: np.ndarray, first_row: int) -> np.ndarray:
    """Return the allowed keys (T, S) no farther before or after their query than any with weight in the layer."""
    T, S = allowed.shape
    back = first_row + np.arange(T)[:, None] - np.arange(S)  # (T, S), tokens from the key to the query
    used = back[(weights != 0).any(0)]
    return allowed & (back >= used.min(initial=0)) & (back <= used.max(initial=0))


def _float32(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float32, copy=False)
