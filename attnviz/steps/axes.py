"""The names of a tensor's axes, as the comment on its line says them: "(B, T, C) -> (B, H, T, D)"."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

SHAPE = re.compile(r"\((\.\.\., ?)?([A-Za-z_][\w ·+/-]*(?:, ?[\w ·+/-]+)*,?)\)( each)?")


def axes_in_comment(comment: str, shape: Sequence[int], position: int = 0) -> tuple[str, ...]:
    """The axes that the comment gives the tensor; () where it gives none of as many axes.

    Of "(B, T, C) -> (B, H, T, D)" the last shape counts; of several behind the last arrow, the one at this position,
    where the line made several tensors.
    """
    shapes = [_axes(match, len(shape)) for match in SHAPE.finditer(comment.rpartition("->")[2])]
    if len(shapes) > 1:
        shapes = shapes[position : position + 1]
    return shapes[-1] if shapes and len(shapes[-1]) == len(shape) else ()


def _axes(match: re.Match[str], n: int) -> tuple[str, ...]:
    axes = tuple(axis.strip() for axis in match[2].split(",") if axis.strip())
    return (*("" for _ in range(n - len(axes))), *axes) if match[1] else axes


def axes_by_size(shape: Sequence[int], sizes: Mapping[str, int], known: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """The first of the known shapes whose sizes are the tensor's; "" for each axis where there is none."""
    for axes in known:
        if len(axes) == len(shape) and all(sizes.get(a) == n for a, n in zip(axes, shape, strict=True)):
            return axes
    return ("",) * len(shape)
