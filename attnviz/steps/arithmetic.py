"""Explain how an entry of a recorded tensor was computed, from the recorded torch operation.

The explanation follows from the torch operation itself, not from a list of a model's steps. An operation that only
moves entries (`unflatten`, `transpose`, a slice) is traced back to where the number was computed, by repeating the call
on a tensor of entry indices.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from attnviz.steps.run import Operation, Value

Index = tuple[int, ...]
MOVES = {
    "unflatten", "flatten", "transpose", "view", "reshape", "expand", "unsqueeze", "squeeze", "split", "chunk",
    "permute", "__getitem__", "mT", "T", "contiguous", "cat", "stack", "clone", "to", "float", "double",
    "repeat_interleave",
}  # fmt: skip


@dataclass(frozen=True)
class Arithmetic:
    """The computation of one entry: value = `written`, computed in float64 from the recorded inputs."""

    operation: str  # torch's name
    value: float  # as recorded
    computed: float | None  # from the recorded inputs; None for an operation that is not in HOW
    written: str  # "Σ x·w", with the operation's own letters
    terms: tuple[tuple[float, ...], ...] = ()  # the factors of each term of a sum, in order
    numbers: tuple[tuple[str, float], ...] = ()  # other inputs, by name
    used: tuple[tuple[Value, tuple[int | None, ...]], ...] = ()  # entries read: None is the whole axis
    moved: tuple[str, ...] = ()  # operations that moved the entry afterwards, the last first
    compute: Callable[..., float] | None = None  # the value from other `numbers`, if it is a function of them alone

    @property
    def products(self) -> tuple[float, ...]:
        """The product of each term's factors."""
        return tuple(math.prod(term) for term in self.terms)


def arithmetic(operations: Iterable[Operation], value: Value, index: Sequence[int]) -> Arithmetic | None:
    """Explain the entry of a value at this index by the operations of a line.

    If they only moved the entry, return its source. None for a value that none of them made.
    """
    made_by = {made.index: (operation, i) for operation in operations for i, made in enumerate(operation.outputs)}
    if value.index not in made_by or value.array is None:
        return None
    moved: list[str] = []
    at, recorded = tuple(index), float(value.entries[tuple(index)])
    while value.index in made_by:
        operation, output = made_by[value.index]
        if any(v.array is None for v in operation.inputs):
            return None
        name = _name(operation)
        if name not in MOVES:
            explain = HOW.get(name, _by_torch)
            return explain(name, operation, at, recorded, tuple(moved))
        moved.append(name)
        value, at = _before(operation, output, value, at)
    same = float(value.entries[at]) if value.array is not None else None
    return Arithmetic(moved[0], recorded, same, "the same entry", used=((value, at),), moved=tuple(moved[1:]))


def _by_torch(name: str, op: Operation, at: Index, recorded: float, moved: tuple[str, ...]) -> Arithmetic:
    """Return an explanation without arithmetic, for an operation that is not in HOW."""
    return Arithmetic(name, recorded, None, name, used=_same_entry(op, at), moved=moved)


def _name(operation: Operation) -> str:
    """Normalise the name of a reflected or in-place operation: "__radd__" and "add_" become "add"."""
    name = operation.name
    if name in MOVES:
        return name
    plain = name.strip("_")
    plain = {"truediv": "div", "rtruediv": "rdiv"}.get(plain, plain)
    return {"radd": "add", "iadd": "add", "rmul": "mul", "imul": "mul"}.get(plain, plain)


def _before(operation: Operation, output: int, value: Value, at: Index) -> tuple[Value, Index]:
    """Return the value and index of an entry before an operation moved it."""
    starts, n = {}, 0
    for each in operation.inputs:
        if each.index not in starts:
            starts[each.index] = n, each
            n += math.prod(each.shape)

    def numbered(given: Any) -> Any:
        if isinstance(given, Value):
            first = starts[given.index][0]
            return torch.arange(first, first + math.prod(given.shape)).reshape(given.shape)
        if isinstance(given, (tuple, list)):
            return type(given)(numbered(each) for each in given)
        return given

    args = numbered(operation.args)
    if operation.name == "__getitem__":  # the index is used as it is, not replaced by entry numbers
        args = args[0], _as_index(operation.args[1])
    in_place = operation.name in ("to", "float", "double")  # the entries keep their index
    moved = args[0] if in_place else operation.function(*args, **{k: numbered(v) for k, v in operation.kwargs.items()})
    place = int((moved[output] if isinstance(moved, (tuple, list)) else moved)[at])
    for first, each in starts.values():
        if first <= place < first + math.prod(each.shape):
            return each, tuple(int(i) for i in np.unravel_index(place - first, each.shape))
    raise AssertionError("an entry came from none of the inputs")


def _as_index(given: Any) -> Any:
    if isinstance(given, Value):
        return torch.from_numpy(given.entries.copy())
    return tuple(_as_index(each) for each in given) if isinstance(given, tuple) else given


# ---- one function per type of operation: (its name, the operation, the index, the recorded value, moves)


def _linear(name: str, op: Operation, at: Index, recorded: float, moved: tuple[str, ...]) -> Arithmetic:
    x, weight = op.args[0], op.args[1]
    bias = op.args[2] if len(op.args) > 2 else op.kwargs.get("bias")
    *row, j = at
    terms = tuple(zip(x.entries[tuple(row)].tolist(), weight.entries[j].tolist(), strict=True))
    added = (("bias", float(bias.entries[j])),) if isinstance(bias, Value) else ()
    computed = math.fsum(a * b for a, b in terms) + sum(b for _, b in added)
    used: tuple[tuple[Value, tuple[int | None, ...]], ...] = ((x, (*row, None)), (weight, (j, None)))
    used += ((bias, (j,)),) if isinstance(bias, Value) else ()
    return Arithmetic(name, recorded, computed, "x·w" + (" + bias" if added else ""), terms, added, used, moved)


def _einsum(name: str, op: Operation, at: Index, recorded: float, moved: tuple[str, ...]) -> Arithmetic:
    inputs, (left, right) = op.args[0].split("->")[0].split(","), op.inputs
    out = op.args[0].split("->")[1]
    fixed = dict(zip(out, at, strict=True))
    picked = [tuple(fixed.get(letter) for letter in letters) for letters in inputs]
    rows = [v.entries[tuple(slice(None) if i is None else i for i in at_)]
            for v, at_ in zip((left, right), picked, strict=True)]  # fmt: skip
    used = tuple(zip((left, right), picked, strict=True))
    if all(row.ndim == 0 for row in rows):  # nothing is summed: an outer product
        a, b = (float(row) for row in rows)
        return Arithmetic(name, recorded, a * b, "a · b", (), (("a", a), ("b", b)), used, moved, lambda a, b: a * b)
    terms = tuple(zip(rows[0].tolist(), rows[1].tolist(), strict=True))
    return Arithmetic(name, recorded, math.fsum(a * b for a, b in terms), "a·b", terms, (), used, moved)


def _matmul(name: str, op: Operation, at: Index, recorded: float, moved: tuple[str, ...]) -> Arithmetic:
    a, b = op.inputs
    *batch, i, j = at
    at_a, at_b = (*_within(batch, a.shape[:-2]), i), _within(batch, b.shape[:-2])
    terms = tuple(zip(a.entries[at_a].tolist(), b.entries[at_b][:, j].tolist(), strict=True))
    used: tuple[tuple[Value, tuple[int | None, ...]], ...] = ((a, (*at_a, None)), (b, (*at_b, None, j)))
    return Arithmetic(name, recorded, math.fsum(x * y for x, y in terms), "a·b", terms, (), used, moved)


def _row(op: Operation, at: Index, gone: bool) -> tuple[np.ndarray, tuple[int | None, ...]] | None:
    """Return the entries that an operation over one `dim` takes together for the result at `at`, and where they are.

    gone: the result lacks this axis, or has it with size 1. None for an operation over several axes, or all.
    """
    (x,) = op.inputs
    dim = op.kwargs.get("dim", op.args[1] if len(op.args) > 1 else -1 if op.name == "softmax" else None)
    if isinstance(dim, tuple | list) and len(dim) == 1:
        (dim,) = dim
    if not isinstance(dim, int):
        return None
    axis = dim % len(x.shape)
    shortened = gone and len(at) < len(x.shape)
    rest = at[axis:] if shortened else at[axis + 1 :]
    place = (*at[:axis], None, *rest)
    return x.entries[tuple(slice(None) if i is None else i for i in place)].astype(float), place


def _softmax(name: str, op: Operation, at: Index, recorded: float, moved: tuple[str, ...]) -> Arithmetic:
    found = _row(op, at, gone=False)
    if found is None:
        return _by_torch(name, op, at, recorded, moved)
    row, place = found
    score, largest = float(row[at[place.index(None)]]), float(row.max())
    total = float(np.exp(row - largest).sum())
    numbers = (("score", score), ("largest score", largest), ("sum of exponentials", total))
    computed = math.exp(score - largest) / total
    return Arithmetic(
        name, recorded, computed, "exp(score − largest) / sum", (), numbers, ((op.inputs[0], place),), moved
    )


def _mean(name: str, op: Operation, at: Index, recorded: float, moved: tuple[str, ...]) -> Arithmetic:
    found = _row(op, at, gone=True)
    if found is None:
        return _by_torch(name, op, at, recorded, moved)
    row, place = found
    computed = float(row.mean()) if name == "mean" else float(row.sum())
    terms = tuple((v,) for v in row.tolist())
    n = (("number of terms", float(len(row))),) if name == "mean" else ()
    used = ((op.inputs[0], place),)
    return Arithmetic(name, recorded, computed, "sum / n" if n else "sum", terms, n, used, moved)


def _embedding(name: str, op: Operation, at: Index, recorded: float, moved: tuple[str, ...]) -> Arithmetic:
    ids, table = sorted(op.inputs, key=lambda v: bool(v.weight))
    *token, column = at
    row = int(ids.entries[tuple(token)])
    numbers = (("token id", float(row)), ("column", float(column)))
    used = ((ids, tuple(token)), (table, (row, None)))
    return Arithmetic(name, recorded, float(table.entries[row, column]), "table[id]", (), numbers, used, moved)


def _where(name: str, op: Operation, at: Index, recorded: float, moved: tuple[str, ...]) -> Arithmetic:
    condition, yes, no = (_entry(given, at) for given in op.args)
    return Arithmetic(
        name, recorded, yes if condition else no, "condition ? a : b", (),
        (("condition", condition), ("if true", yes), ("if false", no)), _same_entry(op, at), moved,
    )  # fmt: skip


def _masked_fill(name: str, op: Operation, at: Index, recorded: float, moved: tuple[str, ...]) -> Arithmetic:
    entry, condition, filled = (_entry(given, at) for given in op.args)
    return Arithmetic(
        name, recorded, filled if condition else entry, "condition ? a : b", (),
        (("condition", condition), ("if true", filled), ("if false", entry)), _same_entry(op, at), moved,
    )  # fmt: skip


def _cumsum(name: str, op: Operation, at: Index, recorded: float, moved: tuple[str, ...]) -> Arithmetic:
    found = _row(op, at, gone=False)
    if found is None:
        return _by_torch(name, op, at, recorded, moved)
    row, place = found
    terms = tuple((v,) for v in row[: at[place.index(None)] + 1].tolist())
    computed = math.fsum(v for (v,) in terms)
    return Arithmetic(name, recorded, computed, "sum up to here", terms, (), ((op.inputs[0], place),), moved)


def _binary(symbol: str, compute: Callable[[float, float], float]) -> Callable[..., Arithmetic]:
    def explain(name: str, op: Operation, at: Index, recorded: float, moved: tuple[str, ...]) -> Arithmetic:
        a, b = (_entry(given, at) for given in op.args[:2])
        numbers = (("a", a), ("b", b))
        used = _same_entry(op, at)
        return Arithmetic(name, recorded, compute(a, b), f"a {symbol} b", (), numbers, used, moved, compute)

    return explain


def _unary(written: str, compute: Callable[[float], float]) -> Callable[..., Arithmetic]:
    def explain(name: str, op: Operation, at: Index, recorded: float, moved: tuple[str, ...]) -> Arithmetic:
        x = _entry(op.args[0], at)
        return Arithmetic(name, recorded, compute(x), written, (), (("x", x),), _same_entry(op, at), moved, compute)

    return explain


def _entry(given: Any, at: Index) -> float:
    """Return the entry that is broadcast to this index; a number is returned as it is."""
    if not isinstance(given, Value):
        return float(given)
    return float(given.entries[_within(at, given.shape)])


def _within(at: Sequence[int], shape: Sequence[int]) -> Index:
    """Return the index in a tensor of this shape that is broadcast to the index `at`."""
    return tuple(0 if n == 1 else i for i, n in zip(at[len(at) - len(shape) :], shape, strict=True))


def _same_entry(op: Operation, at: Index) -> tuple[tuple[Value, tuple[int | None, ...]], ...]:
    fits = [v for v in op.inputs if len(v.shape) <= len(at)]
    broadcast = [
        v for v in fits if all(n in (1, m + 1) or m < n for n, m in zip(v.shape[::-1], at[::-1], strict=False))
    ]
    return tuple((v, _within(at, v.shape)) for v in broadcast)


def _gelu(name: str, op: Operation, at: Index, recorded: float, moved: tuple[str, ...]) -> Arithmetic:
    tanh = op.kwargs.get("approximate", op.args[1] if len(op.args) > 1 else "none") == "tanh"
    return (GELU_BY_TANH if tanh else GELU)(name, op, at, recorded, moved)


GELU = _unary("x / 2 · (1 + erf(x / √2))", lambda x: x / 2 * (1 + math.erf(x / math.sqrt(2))))
GELU_BY_TANH = _unary(
    "x / 2 · (1 + tanh(√(2/π) · (x + 0.044715 · x³)))",
    lambda x: x / 2 * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
)
HOW: dict[str, Callable[..., Arithmetic]] = {
    "linear": _linear,
    "einsum": _einsum,
    "matmul": _matmul,
    "softmax": _softmax,
    "mean": _mean,
    "sum": _mean,
    "embedding": _embedding,
    "where": _where,
    "masked_fill": _masked_fill,
    "cumsum": _cumsum,
    "le": _binary("≤", lambda a, b: float(a <= b)),
    "lt": _binary("<", lambda a, b: float(a < b)),
    "add": _binary("+", lambda a, b: a + b),
    "sub": _binary("−", lambda a, b: a - b),
    "mul": _binary("·", lambda a, b: a * b),
    "div": _binary("/", lambda a, b: a / b),
    "silu": _unary("x / (1 + exp(−x))", lambda x: x / (1 + math.exp(-x)) if x > -700 else 0.0),
    "gelu": _gelu,
    "tanh": _unary("tanh(x)", math.tanh),
    "rsqrt": _unary("1 / √x", lambda x: x**-0.5),
    "exp": _unary("exp(x)", math.exp),
    "neg": _unary("−x", lambda x: -x),
    "square": _unary("x²", lambda x: x * x),
    "sigmoid": _unary("1 / (1 + exp(−x))", lambda x: 1 / (1 + math.exp(-x)) if x > -700 else 0.0),
    "softplus": _unary("ln(1 + exp(x))", lambda x: x if x > 20 else math.log1p(math.exp(x))),
    "cos": _unary("cos x", math.cos),
    "sin": _unary("sin x", math.sin),
}
