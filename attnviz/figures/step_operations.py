"""What a torch operation does, in one clause, from the arguments that it ran with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from attnviz.phrases import count, listed
from attnviz.steps import Operation, Value

SYMBOLS = {"invert": "~", "or": "|", "and": "&", "xor": "^", "getitem": "[…]"}  # as the source writes them
REFLECTED = {"radd": "add", "rmul": "mul", "rsub": "sub", "rtruediv": "div", "truediv": "div", "rpow": "pow",
             "iadd": "add", "isub": "sub", "imul": "mul", "itruediv": "div", "iand": "and", "ior": "or", "rand": "and",
             "ror": "or", "rmatmul": "matmul"}  # fmt: skip


def plain_name(name: str) -> str:
    """Return an operation's name without the underscores of a Python operator or an in-place form: "or", "copy"."""
    plain = name.strip("_")
    return REFLECTED.get(plain, plain)


def operation_text(op: Operation) -> str:
    """Name an operation and say what it does with its arguments; the name alone if it is not known here."""
    name = plain_name(op.name)
    does = SAME.get(name) or (BY_ARGUMENTS[name](op) if name in BY_ARGUMENTS else "")
    return f"{SYMBOLS.get(name, name)} {does}".rstrip()


def is_known(name: str) -> bool:
    """Check whether there is a clause for an operation of this plain name."""
    return name in SAME or name in BY_ARGUMENTS


SAME = {  # torch's name -> what it does, whatever its arguments
    "matmul": "multiplies rows by columns and adds up",
    "bmm": "multiplies rows by columns and adds up, for each matrix of the batch",
    "mm": "multiplies rows by columns and adds up",
    "dot": "multiplies entry by entry and adds up",
    "outer": "multiplies each entry of one vector by each of the other",
    "transpose": "swaps two axes",
    "swapaxes": "swaps two axes",
    "permute": "reorders the axes",
    "movedim": "moves an axis to another place",
    "mT": "swaps the last two axes",
    "T": "swaps the axes",
    "t": "swaps the axes",
    "flatten": "joins axes into one",
    "add": "adds entry by entry",
    "sub": "subtracts entry by entry",
    "mul": "multiplies entry by entry",
    "div": "divides entry by entry",
    "neg": "changes the sign of each entry",
    "abs": "takes the absolute value of each entry",
    "square": "squares each entry",
    "sqrt": "takes the square root of each entry",
    "rsqrt": "takes 1 / √x of each entry",
    "exp": "takes the exponential of each entry",
    "log": "takes the natural logarithm of each entry",
    "cos": "takes the cosine of each entry",
    "sin": "takes the sine of each entry",
    "tanh": "takes the hyperbolic tangent of each entry",
    "sigmoid": "takes 1 / (1 + exp(−x)) of each entry",
    "softplus": "takes ln(1 + exp(x)) of each entry",
    "silu": "takes x / (1 + exp(−x)) of each entry",
    "relu": "takes the larger of x and 0, entry by entry",
    "maximum": "takes the larger of two entries",
    "minimum": "takes the smaller of two entries",
    "where": "chooses by a condition, entry by entry",
    "index_copy": "replaces the entries at some indices",
    "nonzero": "lists the indices of the entries that are not 0",
    "embedding": "looks up one row of the table for each token id",
    "expand": "repeats an axis without copying it",
    "invert": "turns true into false and false into true",
    "logical_not": "turns true into false and false into true",
    "or": "is true where at least one of the two is true",
    "logical_or": "is true where at least one of the two is true",
    "and": "is true where both are true",
    "logical_and": "is true where both are true",
    "isnan": "tests whether each entry is not a number",
    "isinf": "tests whether each entry is ∞ or −∞",
    "getitem": "takes a part of a tensor, by position or by a list of indices; None adds an axis of size 1",
    "setitem": "writes into a part of a tensor",
    "new_empty": "reserves memory for a tensor without filling it",
    "empty": "reserves memory for a tensor without filling it",
    "empty_like": "reserves memory for a tensor of the same shape without filling it",
    "tensor": "makes a tensor from Python numbers",
    "eye": "makes a matrix with 1 on the diagonal and 0 elsewhere",
    "view": "splits or joins axes without copying",
    "view_as": "splits or joins axes without copying",
    "reshape": "splits or joins axes",
    "unsqueeze": "adds an axis of size 1",
    "squeeze": "removes an axis of size 1",
    "repeat": "repeats a whole axis one copy after another",
    "tile": "repeats a whole axis one copy after another",
    "repeat_interleave": "repeats each entry of an axis next to itself",
    "narrow": "takes a range of an axis without copying it",
    "copy": "writes one tensor's entries into another",
    "clone": "copies the tensor",
    "contiguous": "copies the entries into the order of the axes",
    "detach": "gives the same tensor without its gradient",
    "unbind": "takes an axis apart into its entries",
    "nan_to_num": "replaces what is not a number by 0",
    "view_as_complex": "takes each pair of numbers as a complex number",
    "view_as_real": "takes each complex number as a pair of numbers",
    "polar": "makes complex numbers from lengths and angles",
}


# ---- clauses that depend on arguments


def _given(op: Operation, name: str, place: int, default: object = None) -> Any:
    """Return an argument passed by name or by its place, 0 for the first."""
    return op.kwargs.get(name, op.args[place] if len(op.args) > place else default)


def _shape(op: Operation) -> tuple[int, ...]:
    return op.inputs[0].shape if op.inputs else ()


def _along(op: Operation, place: int = 1, default: object = None) -> str:
    """Name what an operation over `dim` takes together: "each row", "each column", "all entries"."""
    dim, n = _given(op, "dim", place, default), len(_shape(op))
    if isinstance(dim, Value) or dim is None or dim == ():
        return "all entries"
    if not isinstance(dim, int):
        return f"the axes {listed(d % n for d in dim)} together" if len(dim) > 1 else _axis_text(dim[0], n)
    return _axis_text(dim, n)


def _axis_text(dim: int, n: int) -> str:
    from_the_end = dim % max(n, 1) - n
    return {-1: "each row", -2: "each column"}.get(from_the_end, f"axis {dim % n}") if n > 1 else "all entries"


def _scalar(x: object) -> str:
    """Format a number that is an argument; "a number" for a tensor's."""
    if isinstance(x, bool):
        return "true" if x else "false"
    if not isinstance(x, int | float):
        return "a number"
    return ("−∞" if x < 0 else "∞") if np.isinf(x) else f"{x:.4g}".replace("-", "−")


def _filled(op: Operation, x: object) -> str:
    truth = bool(op.outputs) and op.outputs[0].array is not None and op.outputs[0].entries.dtype == np.bool_
    return _scalar(bool(x)) if truth and isinstance(x, int | float) else _scalar(x)


def _linear(op: Operation) -> str:
    bias = isinstance(_given(op, "bias", 2), Value)
    summed = ", sums the products and adds the bias" if bias else " and adds up"
    return f"multiplies each row by every row of the weight{summed} (torch.nn.functional.linear)"


def _einsum(op: Operation) -> str:
    written = next((each for each in op.args if isinstance(each, str)), "")
    inputs, arrow, out = written.replace(" ", "").partition("->")
    summed = [c for c in dict.fromkeys(inputs) if c.isalpha() and c not in out]
    if not arrow:
        summed = [c for c in dict.fromkeys(inputs) if c.isalpha() and inputs.count(c) > 1]
    does = "multiplies" if "," in inputs else "takes the entries"
    if not summed:
        return f"{'multiplies entry by entry' if ',' in inputs else 'reorders the axes'} (torch.einsum)"
    letters = f"the letter{'s' * (len(summed) > 1)} {listed(summed)}"
    return f"{does} and adds up along {letters}, which the result lacks (torch.einsum)"


def _softmax(op: Operation) -> str:
    rows = _along(op, 1, -1)
    sums = {"all entries": "they sum to 1"}.get(rows, f"{rows} sums to 1")
    return f"takes exponentials and divides by their sum, so that {sums}"


def _over(does: str, default: object = None) -> Callable[[Operation], str]:
    def text(op: Operation) -> str:
        rows = _along(op, 1, default)
        whole = does.replace("entry of …", "entry").replace("the entries of …", "the entries")
        return (whole if rows == "all entries" else does).replace("…", rows)

    return text


def _extreme(word: str) -> Callable[[Operation], str]:
    def text(op: Operation) -> str:
        if isinstance(_given(op, "other", 1), Value):
            return f"takes the {'larger' if word == 'largest' else 'smaller'} of two entries"
        rows = _along(op)
        return f"finds the {word} entry" + (f" of {rows}" if rows != "all entries" else "")

    return text


def _topk(op: Operation) -> str:
    k, largest = _given(op, "k", 1), _given(op, "largest", 3, True)
    word = "largest" if largest else "smallest"
    entries = f"{word} entry" if k == 1 else f"{k} {word} entries" if isinstance(k, int) else f"{word} entries"
    rows = _along(op, 2, -1)
    return f"finds the {entries}" + (f" of {rows}" if rows != "all entries" else "")


def _sorted(does: str) -> Callable[[Operation], str]:
    def text(op: Operation) -> str:
        stated = op.kwargs.get("descending", next((a for a in op.args[1:] if isinstance(a, bool)), False))
        return does.replace("…", "descending" if stated else "ascending")

    return text


def _triangle(lower: bool) -> Callable[[Operation], str]:
    def text(op: Operation) -> str:
        d = _given(op, "diagonal", 1, 0)
        zero = _filled(op, 0)
        if d == 0:
            return f"sets the entries {'above' if lower else 'below'} the diagonal to {zero}"
        shifted = f"row {'+' if d > 0 else '−'} {abs(d)}"
        return f"sets the entries whose column is {'greater' if lower else 'less'} than {shifted} to {zero}"

    return text


def _arange(op: Operation) -> str:
    made = op.outputs[0].entries.ravel() if op.outputs and op.outputs[0].array is not None else np.empty(0)
    if len(made) < 1:
        return "counts from one number to another"
    first, last = _scalar(float(made[0])), _scalar(float(made[-1]))
    if len(made) == 1:
        return f"counts the only position, {first}" if first != "0" else "counts one position, 0"
    by = "" if made[1] - made[0] == 1 else f" in steps of {_scalar(float(made[1] - made[0]))}"
    return f"counts from {first} to {last}{by}"


def _parts(op: Operation) -> str:
    equal = "equal " * (len({v.shape for v in op.outputs}) == 1)
    return f"splits an axis into {count(len(op.outputs), f'{equal}part')}"


def _unflatten(op: Operation) -> str:
    sizes = _given(op, "sizes", 2, ())
    return f"splits one axis into {len(sizes) if isinstance(sizes, tuple | list) else 'several'}"


def _joined(new: bool) -> Callable[[Operation], str]:
    def text(op: Operation) -> str:
        n = len(op.outputs[0].shape) if op.outputs else 0
        dim = _given(op, "dim", 1, 0)
        named = "the last axis" if n and isinstance(dim, int) and dim % n == n - 1 else f"axis {dim}"
        return f"joins tensors along {'a new axis' if new else named}"

    return text


def _gelu(op: Operation) -> str:
    if _given(op, "approximate", 1, "none") == "tanh":
        form = "x / 2 · (1 + tanh(√(2/π) · (x + 0.044715 · x³))) of each entry, the tanh form of x · Φ(x)"
    else:
        form = "x · Φ(x) of each entry, Φ of the normal distribution"
    return f"takes {form} (torch.nn.functional.gelu)"


def _compared(words: str) -> Callable[[Operation], str]:
    def text(op: Operation) -> str:
        by = _given(op, "other", 1)
        other = "the other's" if isinstance(by, Value) and by.shape else _scalar(by)
        return f"tests whether each entry is {words} {other}"

    return text


def _masked_fill(op: Operation) -> str:
    return f"writes {_scalar(_given(op, 'value', 2))} wherever a condition is true"


def _constant(x: object) -> Callable[[Operation], str]:
    return lambda op: f"makes a tensor filled with {_filled(op, x)}"


def _full(same_shape: bool) -> Callable[[Operation], str]:
    shape = "of the same shape, " if same_shape else ""
    return lambda op: f"makes a tensor {shape}filled with {_filled(op, _given(op, 'fill_value', 1))}"


def _searchsorted(op: Operation) -> str:
    right = _given(op, "right", 3, False) or op.kwargs.get("side") == "right"
    return f"finds the first entry {'above' if right else 'at or above'} a number in a sorted list"


def _pow(op: Operation) -> str:
    exponent = _given(op, "exponent", 1)
    if op.name.strip("_") != "rpow" and exponent == 2:
        return "squares each entry"
    return "raises to a power, entry by entry"


def _clamp(op: Operation) -> str:
    low, high = _given(op, "min", 1), _given(op, "max", 2)
    ends = [f"{word} {_scalar(x)}" for word, x in (("at least", low), ("at most", high)) if x is not None]
    return f"keeps each entry {' and '.join(ends)}"


def _converted(op: Operation) -> str:
    made = op.outputs[0].entries.dtype.name if op.outputs and op.outputs[0].array is not None else ""
    kind = {"double": "float64", "float": "float32", "half": "float16", "bfloat16": "bfloat16", "long": "int64",
            "int": "int32", "bool": "bool"}.get(plain_name(op.name))  # fmt: skip
    dtype = next((str(a).removeprefix("torch.") for a in (*op.args, *op.kwargs.values()) if "torch." in str(a)), None)
    return f"converts the numbers to {kind or dtype or made or 'another type'}"


def _rms_norm(op: Operation) -> str:
    eps, weighted = _given(op, "eps", 3), isinstance(_given(op, "weight", 2), Value)
    added = "the type's smallest step" if eps is None else _scalar(eps)
    by = ", then multiplies by the weight" if weighted else ""
    return f"divides each row by the root of its mean square plus {added}{by}"


def _layer_norm(op: Operation) -> str:
    parts = [("multiplies by the weight", 2, "weight"), ("adds the bias", 3, "bias")]
    then = [does for does, place, name in parts if isinstance(_given(op, name, place), Value)]
    after = f", then {' and '.join(then)}" if then else ""
    eps = _scalar(_given(op, "eps", 4, 1e-5))
    return f"subtracts each row's mean and divides by the root of its variance plus {eps}{after}"


def _sdpa(op: Operation) -> str:
    scale, mask = op.kwargs.get("scale"), _given(op, "attn_mask", 3)
    given = "a mask" if isinstance(mask, Value) else "no mask"
    masked = "a causal mask" if _given(op, "is_causal", 5, False) else given
    factor = "1 / √D" if scale is None else _scalar(scale)
    return f"computes softmax(q · kᵀ · {factor}) · v with {masked} in one kernel"


def _dropout(op: Operation) -> str:
    p, training = _given(op, "p", 1, 0.5), _given(op, "training", 2, True)
    return f"sets a share of {_scalar(p)} of the entries to 0" if training and p else "changes nothing"


BY_ARGUMENTS: dict[str, Callable[[Operation], str]] = {
    "linear": _linear,
    "einsum": _einsum,
    "softmax": _softmax,
    "log_softmax": _over("takes the logarithm of the softmax of …", -1),
    "logsumexp": _over("takes the logarithm of the sum of exponentials of …"),
    "mean": _over("takes the mean of …"),
    "sum": _over("adds up …"),
    "var": _over("takes the variance of …"),
    "std": _over("takes the standard deviation of …"),
    "prod": _over("multiplies …"),
    "any": _over("tests whether any entry of … is true"),
    "all": _over("tests whether … are all true"),
    "argmax": _over("finds the index of the largest entry of …"),
    "argmin": _over("finds the index of the smallest entry of …"),
    "amax": _over("finds the largest entry of …"),
    "amin": _over("finds the smallest entry of …"),
    "max": _extreme("largest"),
    "min": _extreme("smallest"),
    "cumsum": _over("adds up the entries of … from the first to each one"),
    "topk": _topk,
    "sort": _sorted("sorts the entries in … order"),
    "argsort": _sorted("gives the indices that sort the entries in … order"),
    "tril": _triangle(lower=True),
    "triu": _triangle(lower=False),
    "arange": _arange,
    "chunk": _parts,
    "split": _parts,
    "unflatten": _unflatten,
    "cat": _joined(new=False),
    "stack": _joined(new=True),
    "gelu": _gelu,
    "le": _compared("at most"),
    "lt": _compared("below"),
    "ge": _compared("at least"),
    "gt": _compared("above"),
    "eq": _compared("equal to"),
    "ne": _compared("different from"),
    "masked_fill": _masked_fill,
    "ones": _constant(1),
    "ones_like": _constant(1),
    "zeros": _constant(0),
    "new_zeros": _constant(0),
    "new_ones": _constant(1),
    "zeros_like": _constant(0),
    "zero": lambda op: f"writes {_filled(op, 0)} into every entry",
    "full": _full(same_shape=False),
    "full_like": _full(same_shape=True),
    "new_full": lambda op: f"makes a tensor filled with {_filled(op, _given(op, 'fill_value', 2))}",
    "searchsorted": _searchsorted,
    "pow": _pow,
    "clamp": _clamp,
    **dict.fromkeys(("to", "double", "float", "half", "bfloat16", "long", "int", "bool"), _converted),
    "rms_norm": _rms_norm,
    "layer_norm": _layer_norm,
    "scaled_dot_product_attention": _sdpa,
    "dropout": _dropout,
}
