"""A recorded run: its calls, lines, operations and values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from torch import Tensor

from attnviz.modules import Transformer


class HalfWeight:
    """A half-precision weight with an array interface. Only the entries that are read are converted to float32."""

    def __init__(self, tensor: Tensor) -> None:
        self._tensor, self.shape, self.size = tensor, tuple(tensor.shape), tensor.numel()

    def __getitem__(self, index: Any) -> Any:
        return self if index == () else self._tensor[index].float().numpy()

    def reshape(self, shape: tuple[int, ...]) -> HalfWeight:
        """Return self. ValueError for any other shape."""
        if tuple(shape) != self.shape:
            raise ValueError(f"a weight of shape {self.shape} cannot be reshaped to {shape}")
        return self


@dataclass(frozen=True, eq=False)
class Value:
    """A snapshot of a tensor."""

    index: int
    shape: tuple[int, ...]
    array: np.ndarray | Any  # or a `HalfWeight`; read-only; None beyond the run's byte limit
    weight: str = ""  # the parameter's name, "blocks.1.attn.q_proj.weight"; "" for a computed value

    @property
    def entries(self) -> np.ndarray:
        """The array. ValueError if it was not copied."""
        if self.array is None:
            raise ValueError(f"a value of shape {self.shape} was not copied: the run's byte limit was reached")
        return self.array


@dataclass(frozen=True, eq=False)
class Operation:
    """A call of a torch function: the function, its arguments and its results."""

    name: str  # "softmax", "linear", "unflatten", …
    function: Callable[..., Any] = field(repr=False)
    args: tuple[Any, ...]  # each tensor as a `Value`
    kwargs: dict[str, Any]
    outputs: tuple[Value, ...]

    @property
    def inputs(self) -> list[Value]:
        """The values among its arguments, in order."""
        return list(values_in((self.args, self.kwargs)))


@dataclass(frozen=True, eq=False)
class Made:
    """A value and its name on its line: a variable's name, or "return" for the return value."""

    name: str
    value: Value
    axes: tuple[str, ...] = ()  # from the line's comment, ("B", "H", "T", "D"); () if it names none


@dataclass(eq=False)
class Line:
    """One execution of a statement."""

    index: int
    call: int  # the index of its call
    number: int  # of its first line in the file
    last: int  # of its last line
    made: list[Made] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)
    reads: dict[str, Value] = field(default_factory=dict)  # the names it reads, with their values before it ran
    calls: list[int] = field(default_factory=list)  # of recorded functions, in order
    skipped: str = ""  # the module that ran here unrecorded: another layer's block


@dataclass(eq=False)
class Call:
    """One call of a recorded function."""

    index: int
    name: str  # the module's own name, "attn", or the function's
    function: str  # "GroupedQueryAttention.forward"
    folder: str  # "modules"
    file: str  # "attention.py"
    first: int  # line number of `def`
    source: str
    parent: int | None  # the index of the line that called it
    docstring: tuple[int, int] | None = None  # its first and last line
    arguments: list[Made] = field(default_factory=list)
    returned: list[Made] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)


@dataclass(eq=False)
class Run:
    """A model's run on token ids, line by line in the order the lines began."""

    model: Transformer = field(repr=False)
    layer: int
    ids: tuple[int, ...]
    calls: list[Call]
    lines: list[Line]
    values: list[Value]
    logits: np.ndarray  # (T, vocab_size)
    nbytes: int
    own: bool = False  # a run of a learner's file, without logits
    n_cached: int = 0  # number of ids whose keys and values were cached before the run

    def path(self, call: int) -> list[Call]:
        """Return the call stack of a call, outermost first, including the call itself."""
        parent = self.calls[call].parent
        return [*([] if parent is None else self.path(self.lines[parent].call)), self.calls[call]]


def values_in(given: Any) -> Iterator[Value]:
    if isinstance(given, Value):
        yield given
    elif isinstance(given, (tuple, list)):
        for each in given:
            yield from values_in(each)
    elif isinstance(given, dict):
        yield from values_in(list(given.values()))
