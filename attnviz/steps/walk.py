"""A recorded run as something to walk through: the lines to stop at, and what of each tensor is drawn there.

Of a tensor with more than two axes one slice is drawn: of the selected head, of the selected token. Where that has more
rows or columns than are drawn, a part around the selected entry is. H query heads, K KV heads, T tokens.
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

MOST_ROWS, MOST_COLUMNS = 48, 64  # of a picture
MOST_SOURCES = 4  # pictures of what a value was made from
TOKEN_AXES = ("T", "S")


@dataclass(frozen=True)
class Selection:
    """What is looked at in every tensor."""

    head: int
    kv_head: int
    query: int  # a token
    key: int  # a token
    column: int = -1  # of an axis that is neither tokens nor heads; -1: where the row is farthest from 0


@dataclass(frozen=True, eq=False)
class Picture:
    """A part of one slice of a value."""

    value: Value
    axes: tuple[str, ...]  # a name for each of the value's axes, "" where none is known
    lead: tuple[int, ...]  # the index in all axes but the last two
    first: tuple[int, int]  # row and column of the slice where the part begins
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
    used: tuple[int | None, int | None] | None  # row and column that went into the entry: (3, None) is all of row 3


@dataclass(frozen=True, eq=False)
class Shown:
    """One tensor that a line made: its picture, how the selected entry came about, and what it was made from."""

    name: str
    picture: Picture
    arithmetic: Arithmetic | None
    sources: tuple[Source, ...]


@dataclass(frozen=True, eq=False)
class Stop:
    """A line that made a tensor."""

    line: Line
    shown: tuple[Shown, ...]  # the line's own variables last; before them what its operations made on the way
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
        """Keep the axes that some line's comment names, and the first name that is a variable's."""
        if made.axes and all(made.axes):
            self._axes.setdefault(made.value.index, made.axes)
        if not name.startswith("return"):
            self._names.setdefault(made.value.index, name)

    @cached_property
    def stops(self) -> list[Stop]:
        """A stop for what the run is given, and for each line that computed a tensor, itself or in what it called."""
        lines = self.run.lines
        worked = (line for line in lines if line is lines[0] or line.operations or line.skipped or self._in_calls(line))
        found = ((line, self._shown(line)) for line in worked)
        return [Stop(line, shown, tuple(o.name for o in line.operations)) for line, shown in found if shown]

    def _in_calls(self, line: Line) -> bool:
        lines = (self.run.lines[i] for call in line.calls for i in self.run.calls[call].lines)
        return any(each.operations or self._in_calls(each) for each in lines)

    def _shown(self, line: Line) -> tuple[Shown, ...]:
        made: dict[int, tuple[str, Value]] = {}
        for each in line.made:  # of two names for one tensor, the first
            if _can_be_drawn(each.value):
                made.setdefault(each.value.index, (each.name, each.value))
        on_the_way = {
            value.index: (f"{operation.name}(…)", value)
            for operation in line.operations if operation.name not in MOVES
            for value in operation.outputs if value.index not in made and _can_be_drawn(value)
        }  # fmt: skip
        return tuple(self._show(line, name, value) for name, value in (*on_the_way.values(), *made.values()))

    def _show(self, line: Line, name: str, value: Value) -> Shown:
        picture = self.picture(value)
        how = (_arithmetic_that_holds if self.run.own else arithmetic)(line.operations, value, picture.index)
        used = {v.index: at for v, at in how.used} if how else {}
        read = {v.index: each for each, v in line.reads.items() if _can_be_drawn(v) and v.index != value.index}
        names = {index: read.get(index) or self._name_of(index) for index in (*used, *read)}
        return Shown(name, picture, how, tuple(
            self._source(names[index], self.run.values[index], used.get(index))
            for index in names if _can_be_drawn(self.run.values[index])
        )[:MOST_SOURCES])  # fmt: skip

    def _name_of(self, index: int) -> str:
        return self._names.get(index) or self.run.values[index].weight or "a constant"

    def _source(self, name: str, value: Value, at: tuple[int | None, ...] | None) -> Source:
        if at is None:
            return Source(name, self.picture(value), None)
        return Source(name, self.picture(value, tuple(0 if i is None else i for i in at)), _last_two(at))

    def axes(self, value: Value) -> tuple[str, ...]:
        """The names of a value's axes: as a line's comment has them, or by their sizes; "" where neither says."""
        if value.weight:
            return ("out", "in")[-len(value.shape) :] if len(value.shape) < 3 else ("",) * len(value.shape)
        if self.run.n_cached and value.shape == (1, 1):  # one number of anything
            return self._axes.get(value.index, ("", ""))
        return self._axes.get(value.index) or axes_by_size(value.shape, self._sizes, KNOWN)

    def picture(self, value: Value, at: Sequence[int] | None = None) -> Picture:
        """The slice of a value in which the selected entry is, or the entry at an index."""
        assert value.array is not None
        axes, n = self.axes(value), len(value.shape)
        index = tuple(at) if at is not None else self._selected(value, axes)
        lead = tuple(index[: max(0, n - 2)])
        row, column = (0, 0, *index)[-2:] if n else (0, 0)
        slice_ = value.array[lead].reshape(_two_axes(value.shape))
        if at is None and n and axes[-1] not in TOKEN_AXES:
            column = self._column(slice_[row])
        firsts = _window(row, slice_.shape[0], MOST_ROWS), _window(column, slice_.shape[1], MOST_COLUMNS)
        part = slice_[firsts[0] : firsts[0] + MOST_ROWS, firsts[1] : firsts[1] + MOST_COLUMNS]
        sizes, last_axes = _two_axes(value.shape), ("", "", *axes)[-2:]
        start = [self._start(axis, size) for axis, size in zip(last_axes, sizes, strict=True)]
        return Picture(value, axes, lead, firsts, part, self._hue(value, axes), (row, column), (start[0], start[1]))

    def _start(self, axis: str, size: int) -> int:
        """The position of an axis's first token: of fewer than there are, the last are meant."""
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
    """For somebody's own file, whose lines may use an operation in another form than ours: only what comes out."""
    try:
        how = arithmetic(operations, value, index)
    except Exception:  # noqa: BLE001, such as a product of vectors, where a product of matrices is expected
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
    """Where a part of `most` of n begins that has `at` in it, at the front where that is possible."""
    return 0 if n <= most or at < most else min(at - most // 2, n - most)
