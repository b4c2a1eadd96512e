"""Attention weights as people have them, as a list of layers: arrays or tensors, stacked, listed, or step by step.

Tensors of torch are recognised by what they can do, so that this imports numpy alone. L layers, B texts, H query heads,
T query tokens, S key tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

POSSIBLE = "(layers, heads, queries, keys), or a list with one array (heads, queries, keys) per layer"
FLOATS = (np.dtype(np.float32), np.dtype(np.float16))
NUMBERS = "fiub"  # numpy's kinds: floats, whole numbers, booleans
EAGER = (
    'transformers returns attention weights only of a model loaded with attn_implementation="eager", and with '
    "output_attentions=True; attnviz.run(model, tokenizer, text) sees to both"
)


class RunError(ValueError):
    """A run that cannot be shown. The message says what was given and what is possible."""


def as_array(given: Any, name: str) -> np.ndarray:
    """Return a numpy array or a tensor of torch, also bfloat16 or on another device, as float32 or float16."""
    if hasattr(given, "detach"):  # torch's
        given = given.detach().cpu()
        given = given if str(given.dtype) == "torch.float16" else given.float()
        given = given.numpy()
    try:
        array = np.asarray(given)
    except ValueError:  # nested lists of different lengths
        raise RunError(f"{name} must be an array or a tensor of numbers") from None
    if array.dtype in FLOATS:
        return array
    if array.dtype.kind not in NUMBERS and "float" not in array.dtype.name:  # of ml_dtypes: bfloat16, float8_e4m3
        raise RunError(f"{name} must be an array or a tensor of numbers, not of {array.dtype.name}")
    return array.astype(np.float32)


def sealed(array: np.ndarray) -> np.ndarray:
    """Return a read-only view; the array itself stays as it is."""
    view = array.view()
    view.flags.writeable = False
    return view


def in_words(shape: Sequence[int | str]) -> str:
    return f"({', '.join(map(str, shape))}{',' * (len(shape) == 1)})"


def layers_of(given: Any, name: str = "attention") -> tuple[list[np.ndarray], list[int]]:
    """Return the layers that have weights, each (H, T, S), and their numbers.

    given: an array (L, H, T, S), (L, 1, H, T, S) or, for one layer, (H, T, S); or a list of (H, T, S) or (1, H, T, S),
    in which None is a layer without weights; or a list of decoding steps, each such a list, as generate() returns.
    """
    if not isinstance(given, list | tuple):
        return _of_one_array(as_array(given, name), name)
    if is_steps(given):
        return _of_steps(given, name)
    numbers = [i for i, layer in enumerate(given) if layer is not None]
    if given and not numbers:
        raise RunError(f"{name} has no weights: each of its {len(given)} layers is None. {EAGER}")
    if not numbers:
        raise RunError(f"{name} has no layers; possible are {POSSIBLE}")
    return [_one_text(as_array(given[i], f"{name} of layer {i}"), f"{name} of layer {i}") for i in numbers], numbers


def _of_one_array(array: np.ndarray, name: str) -> tuple[list[np.ndarray], list[int]]:
    if array.ndim == 5 and array.shape[1] == 1:
        array = array[:, 0]  # (L, H, T, S)
    elif array.ndim == 5:
        raise RunError(f"{name} of shape {in_words(array.shape)} holds a batch of {array.shape[1]} texts; "
                       f"choose one, such as {name}[:, 0]")  # fmt: skip
    if array.ndim == 3:
        array = array[None]  # (1, H, T, S)
    if array.ndim != 4:
        raise RunError(f"{name} has the shape {in_words(array.shape)}; possible are {POSSIBLE}{_hint(array)}")
    if not array.size:
        raise RunError(f"{name} of shape {in_words(array.shape)} is empty; possible are {POSSIBLE}")
    return list(array), list(range(len(array)))


def _hint(array: np.ndarray) -> str:
    return "; one head is attention[None]" if array.ndim == 2 else ""


def _one_text(layer: np.ndarray, name: str) -> np.ndarray:
    """Return a layer as (H, T, S); one of transformers' is (1, H, T, S)."""
    if layer.ndim == 4 and layer.shape[0] == 1:
        layer = layer[0]
    elif layer.ndim == 4:
        raise RunError(f"{name}, of shape {in_words(layer.shape)}, holds a batch of {layer.shape[0]} texts; "
                       "choose one, such as [layer[0] for layer in attention]")  # fmt: skip
    if layer.ndim != 3:
        raise RunError(f"{name} has the shape {in_words(layer.shape)}; possible are (heads, queries, keys) and "
                       "(1, heads, queries, keys)")  # fmt: skip
    if not layer.size:
        raise RunError(f"{name}, of shape {in_words(layer.shape)}, is empty")
    return layer


# ---- decoding steps


def is_steps(given: Any) -> bool:
    """Check for a list of lists of arrays; a list of lists of numbers is an array."""
    first = given[0] if isinstance(given, list | tuple) and given else None
    return isinstance(first, list | tuple) and any(hasattr(layer, "shape") for layer in first)


def _of_steps(steps: Sequence[Any], name: str) -> tuple[list[np.ndarray], list[int]]:
    """Join the rows of decoding steps: the first is of the prompt, each later one adds a query and perhaps a key."""
    taken = [layers_of(step, f"{name} of step {i}") for i, step in enumerate(steps)]
    numbers = taken[0][1]
    for i, (_, others) in enumerate(taken):
        if others != numbers:
            raise RunError(f"{name} of step {i} has {len(others)} layers, that of step 0 has {len(numbers)}")
    return [_joined([step[i] for step, _ in taken], f"{name} of layer {n}") for i, n in enumerate(numbers)], numbers


def _joined(parts: Sequence[np.ndarray], name: str) -> np.ndarray:
    """Stack the rows (H, T, S) of steps; keys that a step did not have yet get weight 0."""
    n_keys, n_heads = parts[-1].shape[2], parts[0].shape[0]
    for i, part in enumerate(parts):
        if part.shape[0] != n_heads or part.shape[2] > n_keys:
            raise RunError(f"{name} has the shape {in_words(part.shape)} in step {i}, which does not continue "
                           f"{in_words(parts[0].shape)} in step 0")  # fmt: skip
    return np.concatenate([np.pad(part, ((0, 0), (0, 0), (0, n_keys - part.shape[2]))) for part in parts], axis=1)
