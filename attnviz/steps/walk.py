"""Turn a recorded run into a walk: the lines to stop at, and the part of each tensor that is drawn there.

A tensor with more than two axes is drawn as one slice: that of the selected head or token. A slice with too many rows
or columns is cropped around the selected entry. H query heads, K KV heads, T tokens.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from attnviz.steps.arithmetic import MOVES, Arithmetic, arithmetic
from attnviz.steps.axes import axes_by_size
from attnviz.steps.recorder import Line, Made, Operation, Run, Value

MAX_ROWS, MAX_COLUMNS = 48, 64  # of a picture
MAX_SOURCES = 4  # pictures of inputs per value
TOKEN_AXES = ("T", "S")


@dataclass(frozen=True)
class Selection:
    """The selected head, tokens and column, for all tensors."""

    head: int
    kv_head: int
    query: int  # a token
    key: int  # a token
    column: int = -1  # of an axis that is neither tokens nor heads; -1: the entry with the largest absolute value


@dataclass(frozen=True, eq=False)
class Picture:
    """A part of one slice of a value."""

    value: Value
    axes: tuple[str, ...]  # a name for each of the value's axes, "" if unknown
    lead: tuple[int, ...]  # the index in all axes but the last two
    first: tuple[int, int]  # row and column of the slice at which the part begins
    numbers: np.ndarray  # (rows, columns)
    hue: int | None  # the KV head that the slice belongs to
    at: tuple[int, int]  # the selected row and column of the slice
    start: tuple[int, int] = (0, 0)  # positions in the text of the first row and column of the slice

    @property
    def size(self) -> tuple[int, int]:
        """Rows and columns of the whole slice."""
        return _two_axes(self.value.shape)

    @property
    def index(self) -> tuple[int, ...]:
        """The selected entry's index in the value."""
        return (*self.lead, *self.at)[-len(self.value.shape) :] if self.value.shape else ()


@dataclass(frozen=True, eq=False)
class Source:
    """A tensor that a line read."""

    name: str
    picture: Picture
    used: tuple[int | None, int | None] | None  # row and column used for the entry: (3, None) is all of row 3


@dataclass(frozen=True, eq=False)
class Shown:
    """A tensor that a line made: its picture, the arithmetic of the selected entry, and its inputs."""

    name: str
    picture: Picture
    arithmetic: Arithmetic | None
    sources: tuple[Source, ...]


@dataclass(frozen=True, eq=False)
class Stop:
    """A line that made a tensor."""

    line: Line
    shown: tuple[Shown, ...]  # intermediate results first, then the line's own variables
    operations: tuple[str, ...]


class Walk:
    """The stops of a run, for one selection."""

    def __init__(self, run: Run, selection: Selection) -> None:
        self.run, self.selection = run, selection
        self._sizes = _sizes(run)
        self._axes: dict[int, tuple[str, ...]] = {}  # by a value's index
        self._names: dict[int, str] = {}
        for made in (made for line in run.lines for made in line.made):
            self._name(made, made.name)
        for call in run.calls:
            for made in call.arguments:
                self._name(made, made.name)
            for made in call.returned:
                self._name(made, f"{call.name}(…)")
        for operation in (operation for line in run.lines for operation in line.operations):
            for value in operation.outputs:
                self._names.setdefault(value.index, f"{operation.name}(…)")

    def _name(self, made: Made, name: str) -> None:
        """Store the axes named in a line's comment, and the first variable name of the value."""
        if made.axes and all(made.axes):
            self._axes.setdefault(made.value.index, made.axes)
        if not name.startswith("return"):
            self._names.setdefault(made.value.index, name)

    @cached_property
    def stops(self) -> list[Stop]:
        """A stop for the run's arguments, and for each line that computed a tensor, directly or in a call."""
        lines = self.run.lines
        worked = (line for line in lines if line is lines[0] or line.operations or line.skipped or self._in_calls(line))
        found = ((line, self._shown(line)) for line in worked)
        return [Stop(line, shown, tuple(o.name for o in line.operations)) for line, shown in found if shown]

    def _in_calls(self, line: Line) -> bool:
        lines = (self.run.lines[i] for call in line.calls for i in self.run.calls[call].lines)
        return any(each.operations or self._in_calls(each) for each in lines)

    def _shown(self, line: Line) -> tuple[Shown, ...]:
        made: dict[int, tuple[str, Value]] = {}
        for each in line.made:  # if a tensor has two names, use the first
            if _can_be_drawn(each.value):
                made.setdefault(each.value.index, (each.name, each.value))
        intermediate = {
            value.index: (f"{operation.name}(…)", value)
            for operation in line.operations if operation.name not in MOVES
            for value in operation.outputs if value.index not in made and _can_be_drawn(value)
        }  # fmt: skip
        return tuple(self._show(line, name, value) for name, value in (*intermediate.values(), *made.values()))

    def _show(self, line: Line, name: str, value: Value) -> Shown:
        picture = self.picture(value)
        how = (_arithmetic_that_holds if self.run.own else arithmetic)(line.operations, value, picture.index)
        used = {v.index: at for v, at in how.used} if how else {}
        read = {v.index: each for each, v in line.reads.items() if _can_be_drawn(v) and v.index != value.index}
        names = {index: read.get(index) or self._name_of(index) for index in (*used, *read)}
        return Shown(name, picture, how, tuple(
            self._source(names[index], self.run.values[index], used.get(index))
            for index in names if _can_be_drawn(self.run.values[index])
        )[:MAX_SOURCES])  # fmt: skip

    def _name_of(self, index: int) -> str:
        return self._names.get(index) or self.run.values[index].weight or "a constant"

    def _source(self, name: str, value: Value, at: tuple[int | None, ...] | None) -> Source:
        if at is None:
            return Source(name, self.picture(value), None)
        return Source(name, self.picture(value, tuple(0 if i is None else i for i in at)), _last_two(at))

    def axes(self, value: Value) -> tuple[str, ...]:
        """Return the names of a value's axes, from a line's comment or by their sizes; "" if unknown."""
        if value.weight:
            return ("out", "in")[-len(value.shape) :] if len(value.shape) < 3 else ("",) * len(value.shape)
        if self.run.n_cached and value.shape == (1, 1):  # a single number: its size does not identify the axes
            return self._axes.get(value.index, ("", ""))
        return self._axes.get(value.index) or axes_by_size(value.shape, self._sizes, KNOWN)

    def picture(self, value: Value, at: Sequence[int] | None = None) -> Picture:
        """Return the picture of the slice that contains the selected entry, or the entry at an index."""
        assert value.array is not None
        axes, n = self.axes(value), len(value.shape)
        index = tuple(at) if at is not None else self._selected(value, axes)
        lead = tuple(index[: max(0, n - 2)])
        row, column = (0, 0, *index)[-2:] if n else (0, 0)
        slice_ = value.array[lead].reshape(_two_axes(value.shape))
        if at is None and n and axes[-1] not in TOKEN_AXES:
            column = self._column(slice_[row])
        firsts = _window(row, slice_.shape[0], MAX_ROWS), _window(column, slice_.shape[1], MAX_COLUMNS)
        part = slice_[firsts[0] : firsts[0] + MAX_ROWS, firsts[1] : firsts[1] + MAX_COLUMNS]
        sizes, last_axes = _two_axes(value.shape), ("", "", *axes)[-2:]
        start = [self._start(axis, size) for axis, size in zip(last_axes, sizes, strict=True)]
        return Picture(value, axes, lead, firsts, part, self._hue(value, axes), (row, column), (start[0], start[1]))

    def _start(self, axis: str, size: int) -> int:
        """Return the position of an axis's first token. An axis with fewer tokens than the text holds the last ones."""
        n = len(self.run.ids)
        return n - size if self.run.n_cached and axis in TOKEN_AXES and size < n else 0

    def _selected(self, value: Value, axes: tuple[str, ...]) -> tuple[int, ...]:
        chosen = {"H": self.selection.head, "K": self.selection.kv_head, "T": self.selection.query}
        group = self._sizes["H"] // self._sizes["K"]
        chosen |= {"G": self.selection.head % group, "S": self.selection.key}
        return tuple(min(chosen.get(a, 0), n - 1) for a, n in zip(axes, value.shape, strict=True))

    def _column(self, row: np.ndarray) -> int:
        if 0 <= self.selection.column < len(row):
            return self.selection.column
        finite = np.where(np.isfinite(row), np.abs(row.astype(float)), -1)
        return int(finite.argmax())

    def _hue(self, value: Value, axes: tuple[str, ...]) -> int | None:
        return None if value.weight or not {"H", "K"} & set(axes[:-1]) else self.selection.kv_head


KNOWN = (
    ("B", "T"), ("B", "T", "C"), ("B", "H", "T", "D"), ("B", "K", "S", "D"), ("B", "H", "T", "S"),
    ("B", "K", "G", "T", "D"), ("B", "K", "G", "T", "S"), ("T", "S"), ("B", "T", "F"), ("B", "T", "vocab_size"),
    ("T", "vocab_size"), ("vocab_size",),
    ("B", "T", "1"), ("T", "n_pairs"), ("B", "H", "T", "n_pairs"), ("B", "K", "S", "n_pairs"),
    ("B", "T", "H·D"), ("B", "T", "K·D"), ("B", "T", "H", "D"), ("B", "H", "T", "P"), ("B", "T", "P"), ("B", "T", "R"),
)  # fmt: skip


def _sizes(run: Run) -> dict[str, int]:
    c, n = run.model.config, len(run.ids)
    sizes = {"B": 1, "T": n - run.n_cached, "S": n, "C": c.d_model, "H": c.n_heads, "K": c.n_kv_heads, "F": c.d_ff}
    sizes |= {"G": c.n_heads // c.n_kv_heads, "vocab_size": c.vocab_size, "n_pairs": c.rotary_dim // 2, "1": 1}
    if c.attention == "mla":
        head_dim = c.qk_nope_head_dim + c.qk_rope_head_dim
        return sizes | {"D": head_dim, "H·D": c.n_heads * head_dim, "P": c.qk_rope_head_dim, "R": c.kv_lora_rank}
    head_dim = c.head_dim or c.d_model // c.n_heads
    return sizes | {"D": head_dim, "H·D": c.n_heads * head_dim, "K·D": c.n_kv_heads * head_dim}


def _can_be_drawn(value: Value) -> bool:
    return value.array is not None and value.array.size > 0 and not np.iscomplexobj(value.array)


def _arithmetic_that_holds(operations: list[Operation], value: Value, index: tuple[int, ...]) -> Arithmetic | None:
    """Return the arithmetic only if it reproduces the value: a learner's file may use an operation in another form."""
    try:
        how = arithmetic(operations, value, index)
    except Exception:  # noqa: BLE001, such as a product of vectors instead of matrices
        return None
    if how is None or how.computed is None:
        return how
    same = math.isclose(how.computed, how.value, rel_tol=1e-3, abs_tol=1e-4)
    return how if same or (math.isnan(how.computed) and math.isnan(how.value)) else None


def _two_axes(shape: tuple[int, ...]) -> tuple[int, int]:
    rows, columns = (1, 1, *shape)[-2:]
    return rows, columns


def _last_two(at: Iterable[int | None]) -> tuple[int | None, int | None]:
    row, column = (0, 0, *at)[-2:]
    return row, column


def _window(at: int, n: int, most: int) -> int:
    """Return the start of a window of size `most` in n that contains `at`; 0 if possible."""
    return 0 if n <= most or at < most else min(at - most // 2, n - most)
