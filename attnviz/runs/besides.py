"""What a run has besides its weights, checked against them: queries, keys, values, gradients, logits, a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from attnviz.phrases import count
from attnviz.runs.arrays import RunError, as_array, in_words, sealed
from attnviz.runs.kinds import AttentionKind


def checked_layers(
    what: str, given: Mapping[str, Sequence[np.ndarray]], kinds: Sequence[AttentionKind], sizes: str
) -> dict[str, tuple[np.ndarray, ...]]:
    """Return a tensor per layer of each kind that has them, read-only.

    sizes: those that are fixed, such as "HT"; "K" allows as many as there are KV heads or query heads.
    """
    by_name = {kind.name: kind for kind in kinds}
    for name, layers in given.items():
        if name not in by_name:
            raise RunError(f"{what} is given for {name!r}, of which there are no weights")
        if len(layers) != by_name[name].n_layers:
            raise RunError(f"{what} has {count(len(layers), 'layer')}, the weights have {by_name[name].n_layers}")
    found = {name: tuple(sealed(as_array(layer, what)) for layer in layers) for name, layers in given.items()}
    for name, layers in found.items():
        for i, layer in enumerate(layers):
            _check_layer(f"{what} of layer {i}", layer, by_name[name], i, sizes)
    return found


def _check_layer(name: str, layer: np.ndarray, kind: AttentionKind, i: int, sizes: str) -> None:
    n_heads = kind.n_heads[i]
    possible = {"H": {n_heads}, "K": {n_heads, kind.n_kv_heads[i] or n_heads}, "T": {len(kind.tokens)},
                "S": {len(kind.key_tokens)}}  # fmt: skip
    wanted = [possible[size] for size in sizes]
    if layer.ndim != 3 or not layer.size or any(n not in each for n, each in zip(layer.shape, wanted, strict=False)):
        sizes_named = [" or ".join(map(str, sorted(each))) for each in wanted] + ["width"] * (3 - len(wanted))
        raise RunError(f"{name} has the shape {in_words(layer.shape)}, not {in_words(sizes_named)}")
    if not np.isfinite(layer.min()) or not np.isfinite(layer.max()):
        raise RunError(f"{name} has numbers that are not finite (NaN or infinity)")


def checked_logits(given: Any, kinds: Sequence[AttentionKind]) -> np.ndarray | None:
    """Return logits as (T, vocabulary), one row per token of a kind's queries."""
    if given is None:
        return None
    logits = as_array(given, "logits")
    if logits.ndim == 3 and len(logits) == 1:
        logits = logits[0]  # (T, vocabulary)
    rows = sorted({len(kind.tokens) for kind in kinds})
    if logits.ndim != 2 or len(logits) not in rows or not logits.size:
        raise RunError(
            f"logits have the shape {in_words(logits.shape)}, not ({' or '.join(map(str, rows))}, vocabulary)"
        )
    if np.isnan(logits.min()):
        raise RunError("logits have numbers that are NaN")
    return sealed(logits)


def checked_picture(
    given: Any, patches: tuple[int, int] | None, n_before: int, kinds: Sequence[AttentionKind]
) -> np.ndarray | None:
    """Return a picture as (height, width, 3) of bytes, whose patches are the tokens of a kind after the first ones."""
    numbers = (*(patches if patches is not None else (1, 1)), n_before)
    if len(numbers) != 3 or not all(type(n) is int for n in numbers) or min(numbers[:2]) < 1 or n_before < 0:
        raise RunError(
            f"patches are (rows, columns), with n_before tokens before them, not {patches!r} and {n_before!r}"
        )
    if patches is not None:
        wanted, lengths = patches[0] * patches[1] + n_before, sorted({len(kind.key_tokens) for kind in kinds})
        if wanted not in lengths:
            raise RunError(f"{patches[0]} × {patches[1]} patches and {count(n_before, 'token')} before them are "
                           f"{wanted} tokens; the attention has {' or '.join(map(str, lengths))}")  # fmt: skip
    if given is None:
        return None
    if patches is None:
        raise RunError("a picture needs patches=(rows, columns): how it is cut into tokens")
    picture = np.asarray(given)
    if picture.dtype != np.uint8 or picture.ndim != 3 or picture.shape[2] != 3 or not picture.size:
        raise RunError(f"a picture is (height, width, 3) of bytes, not {in_words(picture.shape)} of "
                       f'{picture.dtype.name}; one of Pillow becomes this by picture.convert("RGB")')  # fmt: skip
    return sealed(picture)
