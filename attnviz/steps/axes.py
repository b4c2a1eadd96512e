"""Read the names of a tensor's axes from the comment on its line: "(B, T, C) -> (B, H, T, D)"."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

SHAPE = re.compile(r"\((\.\.\., ?)?((?:1, ?)*[A-Za-z_][\w ·+/-]*(?:, ?[\w ·+/-]+)*,?)\)( each)?")


def axes_in_comment(comment: str, shape: Sequence[int], position: int = 0) -> tuple[str, ...]:
    """Return the axis names in the comment; () if it has no shape with this number of axes.

    In "(B, T, C) -> (B, H, T, D)" the last shape counts. With several shapes after the last arrow, `position` selects
    one, for a line that made several tensors.
    """
    shapes = [_axes(match, len(shape)) for match in SHAPE.finditer(comment.rpartition("->")[2])]
    if len(shapes) > 1:
        shapes = shapes[position : position + 1]
    return shapes[-1] if shapes and len(shapes[-1]) == len(shape) else ()


def _axes(match: re.Match[str], n: int) -> tuple[str, ...]:
    axes = tuple(axis.strip() for axis in match[2].split(",") if axis.strip())
    return (*("" for _ in range(n - len(axes))), *axes) if match[1] else axes


def axes_by_size(
    shape: Sequence[int], sizes: Mapping[str, int], known: Sequence[tuple[str, ...]], named: Sequence[str] = ()
) -> tuple[str, ...]:
    """Return the first known shape whose sizes match the tensor's and whose names those that its comment gives.

    named: the names in the comment, "" for axes that it leaves out. T and S are the same there: a function for both
    queries and keys says T. If no known shape matches, the named axes are returned alone.
    """
    given = tuple(named) or ("",) * len(shape)
    for axes in known:
        if len(axes) == len(shape) and all(
            sizes.get(axis) == n and name in ("", axis, "T" if axis == "S" else axis)
            for axis, n, name in zip(axes, shape, given, strict=True)
        ):
            return axes
    return given
