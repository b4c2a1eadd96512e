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
from attnviz.steps.run import Call, Line, Made, Operation, Run, Value

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
    opens: int = -1  # the index in `shown` of the tensor that is shown at first
    called: tuple[str, ...] = ()  # the functions it called that can be stepped into, "RMSNorm.forward"


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
        self._results = {index: name for line in run.lines for index, name in _result_names(line.operations).items()}

    def _name(self, made: Made, name: str) -> None:
        """Store the axes that the first comment with all of them names, and the first variable name of the value."""
        if made.axes and not all(self._axes.get(made.value.index, ("",))):
            self._axes[made.value.index] = made.axes
        if not name.startswith("return"):
            self._names.setdefault(made.value.index, name)

    @cached_property
    def stops(self) -> list[Stop]:
        """A stop for the run's arguments, and for each line that computed a tensor, directly or in a call."""
        lines = self.run.lines
        elsewhere = self._of_other_tokens
        lines = [line for line in lines if line.index not in elsewhere]
        worked = (line for line in lines if line is lines[0] or line.operations or line.skipped or self._in_calls(line))
        shown_lines = [(line, shown) for line, shown in ((line, self._shown(line)) for line in worked) if shown]
        stopped = {line.call for line, _ in shown_lines}
        return [
            Stop(line, shown, tuple(o.name for o in line.operations), _opens(line, shown), self._called(line, stopped))
            for line, shown in shown_lines
        ]

    @cached_property
    def _of_other_tokens(self) -> set[int]:
        """The lines of loops over tokens, `for t in …`, in which the query's turn is shown, not all of them."""
        found: set[int] = set()
        for call in self.run.calls:
            if call.folder == "modules":  # a loop over t in a user's own code may be over anything
                found |= self._other_turns(call)
        return found

    def _other_turns(self, call: Call) -> set[int]:
        source, lines = call.source.splitlines(), [self.run.lines[i] for i in call.lines]
        loops = {line.number for line in lines if source[line.number - call.first].strip().startswith("for t in ")}
        if not loops:
            return set()
        first, last = min(loops), _end_of_block(source, min(loops) - call.first) + call.first
        shown = min(self.selection.query, sum(line.number == first for line in lines) - 2)
        turn, others = -1, set()
        for line in lines:
            turn += line.number == first
            if first <= line.number <= last and turn != shown:
                others.add(line.index)
        return others

    @property
    def n_folded(self) -> int:
        """Number of tokens in whose loop one turn is shown; 0 if the run has no loop over tokens."""
        headers: dict[int, int] = {}
        for index in self._of_other_tokens:
            line = self.run.lines[index]
            headers[line.number] = headers.get(line.number, 0) + 1
        return max(headers.values(), default=0)

    def _called(self, line: Line, stopped: set[int]) -> tuple[str, ...]:
        """Return the functions that a line called; of one without a stop those that it called itself."""
        functions: list[str] = []
        for call in (self.run.calls[i] for i in line.calls):
            inner = (name for i in call.lines for name in self._called(self.run.lines[i], stopped))
            functions += [call.function] if call.index in stopped else inner
        return tuple(dict.fromkeys(functions))

    def _in_calls(self, line: Line) -> bool:
        lines = (self.run.lines[i] for call in line.calls for i in self.run.calls[call].lines)
        return any(each.operations or self._in_calls(each) for each in lines)

    def _shown(self, line: Line) -> tuple[Shown, ...]:
        made: dict[int, tuple[str, Value]] = {}
        for each in line.made:  # if a tensor has two names, use the first
            if _can_be_drawn(each.value):
                made.setdefault(each.value.index, (each.name, each.value))
        intermediate = {
            value.index: (self._results[value.index], value)
            for operation in line.operations if operation.name not in MOVES
            for value in operation.outputs if value.index not in made and _can_be_drawn(value)
        }  # fmt: skip
        return tuple(self._show(line, name, value) for name, value in (*intermediate.values(), *made.values()))

    def _show(self, line: Line, name: str, value: Value) -> Shown:
        picture = self.picture(value)
        how = (_arithmetic_that_holds if self.run.own else arithmetic)(line.operations, value, picture.index)
        used = {v.index: at for v, at in how.used} if how else {}
        names = {v.index: each for each, v in line.reads.items()}
        read = self._inputs(line, value) if how is None or how.computed is None else ()
        moved = (v for at in used for v in _moved_from(line, self.run.values[at]))
        inputs = dict.fromkeys((*used, *(v.index for v in (*read, *moved))))
        sources: dict[str, int] = {}  # each name once: of a tensor that was changed in place, the one that was used
        for index in inputs:
            if index != value.index and _can_be_drawn(self.run.values[index]):
                sources.setdefault(names.get(index) or self._name_of(index), index)
        return Shown(name, picture, how, tuple(
            self._source(each, self.run.values[index], used.get(index)) for each, index in sources.items()
        )[:MAX_SOURCES])  # fmt: skip

    def _inputs(self, line: Line, value: Value) -> list[Value]:
        """Return the inputs of the operation or call of this line that made a value; what the line read if neither did.

        An operation that only moves entries is looked through, up to a tensor that has a name.
        """
        operation = _maker(line, value)
        if operation is not None and operation.name not in MOVES:
            return operation.inputs
        if operation is not None:
            before = ((v, _maker(line, v) and not _is_named(line, v)) for v in operation.inputs)
            return [each for v, inner in before for each in (self._inputs(line, v) if inner else [v])]
        read = list(line.reads.values())
        calls = [self.run.calls[i] for i in line.calls]
        made_by = [call for call in calls if any(made.value is value for made in call.returned)]
        if len(calls) < 2 or not made_by:
            return read
        arguments = [made.value for made in made_by[-1].arguments]
        return [v for v in read if v in arguments] or arguments

    def _name_of(self, index: int) -> str:
        return self._names.get(index) or self._results.get(index) or self.run.values[index].weight or "a constant"

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
        named = self._axes.get(value.index, ())
        return named if named and all(named) else axes_by_size(value.shape, self._sizes, KNOWN, named)

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


def _end_of_block(source: Sequence[str], header: int) -> int:
    """Return the last row of the block that begins in this row of the source."""
    depth = len(source[header]) - len(source[header].lstrip())
    for row in range(header + 1, len(source)):
        text = source[row]
        if text.strip() and len(text) - len(text.lstrip()) <= depth:
            return row - 1
    return len(source) - 1


def _sizes(run: Run) -> dict[str, int]:
    c, n, layer = run.model.config, len(run.ids), run.model.config.layers[run.layer]
    mixer, (feed_forward,) = layer.mixer, layer.feed_forwards
    sizes = {"B": 1, "T": n - run.n_cached, "S": n, "C": c.d_model, "H": mixer.n_heads, "K": mixer.n_kv_heads}
    sizes |= {"F": feed_forward.d_ff, "G": mixer.group_size, "vocab_size": c.vocab_size}
    return sizes | {"n_pairs": layer.rotary_dim // 2, "1": 1} | mixer.axes()


def _can_be_drawn(value: Value) -> bool:
    return value.array is not None and value.array.size > 0 and not np.iscomplexobj(value.array)


def _arithmetic_that_holds(operations: list[Operation], value: Value, index: tuple[int, ...]) -> Arithmetic | None:
    """Return the arithmetic only if it reproduces the value: a learner's file may use an operation in another form."""
    try:
        how = arithmetic(operations, value, index)
    except Exception:  # noqa: BLE001, such as a product of vectors instead of matrices
        return None
    if how is None or any(len(at) != len(read.shape) for read, at in how.used):  # such as a sum over all axes
        return None
    if how.computed is None:
        return how
    same = math.isclose(how.computed, how.value, rel_tol=1e-3, abs_tol=1e-4)
    return how if same or (math.isnan(how.computed) and math.isnan(how.value)) else None


def _result_names(operations: Sequence[Operation]) -> dict[int, str]:
    """Name the results of a line's operations: "softmax(…)", or "1st mul(…)" and "2nd mul(…)" if it has several."""
    plain = [(o.name.strip("_") if o.name.startswith("__") else o.name, v) for o in operations for v in o.outputs]
    named: dict[int, str] = {}
    for name in dict.fromkeys(name for name, _ in plain):
        same = list(dict.fromkeys(value.index for each, value in plain if each == name))
        for i, index in enumerate(same, 1):
            named[index] = f"{_ordinal(i)} {name}(…)" if len(same) > 1 else f"{name}(…)"
    return named


def _ordinal(n: int) -> str:
    ending = "th" if 10 <= n % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
    return f"{n}{ending}"


def _maker(line: Line, value: Value) -> Operation | None:
    """Return the line's operation that made a value."""
    return next((o for o in reversed(line.operations) if value in o.outputs), None)


def _is_named(line: Line, value: Value) -> bool:
    return any(made.value is value for made in line.made)


def _moved_from(line: Line, value: Value) -> list[Value]:
    """Return the tensors whose entries a line moved into an unnamed one; [] if it did not."""
    operation = None if _is_named(line, value) else _maker(line, value)
    if operation is None or operation.name not in MOVES:
        return []
    return [each for v in operation.inputs for each in _moved_from(line, v) or [v]]


def _opens(line: Line, shown: Sequence[Shown]) -> int:
    """Return the tensor to show at first: the last one, or the one before operations that changed no entry of it."""
    at, value = len(shown) - 1, shown[-1].picture.value
    while operation := _maker(line, value):
        same = [v for v in operation.inputs if _are_equal(v, value) and v is not value]
        before = [i for i in range(at) for v in same if shown[i].picture.value is v]
        if not before:
            return at
        at, value = before[-1], shown[before[-1]].picture.value
    return at


def _are_equal(one: Value, other: Value) -> bool:
    arrays = one.array, other.array
    return one.shape == other.shape and all(isinstance(a, np.ndarray) for a in arrays) and np.array_equal(*arrays)


def _two_axes(shape: tuple[int, ...]) -> tuple[int, int]:
    rows, columns = (1, 1, *shape)[-2:]
    return rows, columns


def _last_two(at: Iterable[int | None]) -> tuple[int | None, int | None]:
    row, column = (0, 0, *at)[-2:]
    return row, column


def _window(at: int, n: int, most: int) -> int:
    """Return the start of a window of size `most` in n that contains `at`; 0 if possible."""
    return 0 if n <= most or at < most else min(at - most // 2, n - most)
