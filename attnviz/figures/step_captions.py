"""Captions of an executed line: what its torch operations do, and one entry's arithmetic with its numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from attnviz.equations import number_text
from attnviz.figures.drawing import quoted
from attnviz.figures.numbers import printed
from attnviz.phrases import count
from attnviz.steps import Arithmetic, Picture, Shown, Stop

TERMS_WRITTEN = 3
MAX_BARS = 64
SUMMED = {"S": "key", "T": "token", "V": "token", "": "term"}  # what a sum over an axis runs over; else: dimension
OPERATIONS = {  # torch's name -> what it does, for the sentence below the source
    "linear": "multiplies each row by every row of the weight and adds up (torch.nn.functional.linear)",
    "einsum": "multiplies and adds up along the letter that the result lacks (torch.einsum)",
    "matmul": "multiplies rows by columns and adds up",
    "unflatten": "splits one axis into two",
    "flatten": "joins axes into one",
    "transpose": "swaps two axes",
    "chunk": "splits an axis into equal parts",
    "split": "splits an axis into parts",
    "cat": "joins tensors along an axis",
    "stack": "joins tensors along a new axis",
    "softmax": "takes exponentials and divides by their sum, so that each row sums to 1",
    "add": "adds entry by entry",
    "sub": "subtracts entry by entry",
    "mul": "multiplies entry by entry",
    "div": "divides entry by entry",
    "mean": "takes the mean of each row",
    "rsqrt": "takes 1 / √x of each entry",
    "silu": "takes x / (1 + exp(−x)) of each entry",
    "where": "chooses by a condition, entry by entry",
    "masked_fill": "writes one number wherever a condition is true",
    "le": "tests whether each entry is at most a number",
    "lt": "tests whether each entry is below a number",
    "topk": "finds the largest entries",
    "sort": "sorts the entries in ascending order",
    "argsort": "gives the indices that sort the entries in ascending order",
    "cumsum": "adds up the entries from the first to each one",
    "searchsorted": "finds the first entry above a number in a sorted list",
    "index_copy": "replaces the entries at some indices",
    "argmax": "finds the index of the largest entry",
    "max": "finds the largest entry",
    "nonzero": "lists the indices of the entries that are not 0",
    "double": "converts the numbers to 64 bits",
    "to": "converts the numbers to another type",
    "any": "tests whether any entry of the row is true",
    "tril": "sets the entries above the diagonal to false",
    "embedding": "looks up one row of the table for each token id",
    "cos": "takes the cosine of each entry",
    "sin": "takes the sine of each entry",
    "expand": "repeats an axis without copying it",
    "invert": "turns true into false and false into true",
    "or": "is true where at least one of the two is true",
    "and": "is true where both are true",
    "getitem": "takes a part of a tensor, by position or by a list of indices; None adds an axis of size 1",
    "ones": "makes a tensor filled with 1, in a mask with true",
    "full_like": "makes a tensor of the same shape, filled with one number",
    "new_empty": "reserves memory for a tensor without filling it",
    "tensor": "makes a tensor from Python numbers",
    "arange": "counts 0, 1, 2, …",
    "abs": "takes the absolute value of each entry",
    "neg": "changes the sign of each entry",
    "pow": "raises to a power, entry by entry",
    "tanh": "takes the hyperbolic tangent of each entry",
    "sigmoid": "takes 1 / (1 + exp(−x)) of each entry",
    "gelu": "takes x · Φ(x) of each entry, Φ of the normal distribution (torch.nn.functional.gelu)",
    "sum": "adds up each row",
    "mT": "swaps the last two axes",
    "view": "splits or joins axes without copying",
    "reshape": "splits or joins axes",
    "unsqueeze": "adds an axis of size 1",
    "squeeze": "removes an axis of size 1",
    "repeat": "repeats a whole axis one copy after another",
    "repeat_interleave": "repeats each entry of an axis next to itself",
    "narrow": "takes a range of an axis without copying it",
    "copy": "writes one tensor's entries into another",
}
SYMBOLS = {"invert": "~", "or": "|", "and": "&", "getitem": "[…]"}  # as the source writes them
REFLECTED = {"radd": "add", "rmul": "mul", "rsub": "sub", "rtruediv": "div", "truediv": "div", "rpow": "pow",
             "iadd": "add", "imul": "mul", "iand": "and", "ior": "or"}  # fmt: skip


def number(x: float) -> str:
    """Format a number with four decimals, four significant digits if it is small, and no decimals if it is whole.

    The browser formats numbers by the same rule (source_walk.js).
    """
    if not np.isfinite(x):
        return "−∞" if x < 0 else "∞" if x > 0 else "not a number"
    if x == int(x):
        return f"{int(x)}".replace("-", "−")
    if abs(x) >= 0.01:
        return printed(x)
    return number_text(x, digits=3, scientific=True) if abs(x) < 0.0001 else f"{x:.4g}".replace("-", "−")


def shape_text(shape: Sequence[int], axes: Sequence[str]) -> str:
    """Return "(B, H, T, D) = (1, 8, 29, 24)", or "C = 192" for one axis; the sizes alone if an axis has no name."""
    sizes, named = ", ".join(map(str, shape)), bool(axes) and all(axes)
    if len(shape) < 2:
        return f"{axes[0]} = {sizes}" if named else f"({sizes})"
    return f"({', '.join(axes)}) = ({sizes})" if named else f"({sizes})"


def slice_text(name: str, picture: Picture) -> str:
    """Return the slice that is drawn, as in Python: "scores[0, 3]"."""
    return name + (f"[{', '.join(map(str, picture.lead))}]" if picture.lead else "")


def place_text(picture: Picture, labels: Sequence[str], words: Sequence[str] = ()) -> str:
    """Return the selected row and column with their tokens: "row 21 “·a”, column 5 “·red”". words: the vocabulary."""
    axes = (*("", ""), *picture.axes)[-2:]
    places = []
    for word, axis, at, start, size in zip(
        ("row", "column"), axes, picture.at, picture.start, picture.size, strict=True
    ):
        names, i = (labels, at + start) if axis in ("T", "S") else (words if picture.axes == ("V",) else (), at)
        token = f" “{names[i]}”" if i < len(names) else ""
        if size > 1 or len(picture.value.shape) > 1:
            places.append(f"{word} {at}{token}")
    return ", ".join(places)


def decode_step_text(labels: Sequence[str], n_written: int, chosen: str) -> str:
    """Describe a decode step: the token it reads, the number of cached tokens, and the token it chooses."""
    where = f", {count(n_written, 'token')} after the text," if n_written else ", the text's last token,"
    cached = count(len(labels) - 1, "token")
    return f"{quoted(labels[-1])}{where} is read with {cached} in the cache; {quoted(chosen)} is chosen next."


def does_text(stop: Stop, own: bool = False) -> str:
    """Describe the operations of the line in order. own: the run is of the user's own file."""
    if stop.line.skipped:
        return f"{stop.line.skipped} ran here. Choose its layer to walk through it."
    if stop.line.index == 0 and own:
        return "The call begins: these are its arguments, which the shipped model computed from the text."
    if stop.line.index == 0:
        return "The run begins: the tokenizer has split the text into tokens; this is the vocabulary id of each token."
    names = dict.fromkeys(plain_name(name) for name in stop.operations)
    does = [f"{SYMBOLS.get(name, name)} {OPERATIONS.get(name, '')}".rstrip() for name in names]
    if not does:
        return f"{_calls_text(stop.called)} The result is shown."
    return " ".join([_calls_text(stop.called)] * bool(stop.called) + ["; ".join(does) + "."])


def plain_name(name: str) -> str:
    """Return an operation's name without the underscores of a Python operator or an in-place form: "or", "copy"."""
    plain = name.strip("_")
    return REFLECTED.get(plain, plain)


def _calls_text(called: Sequence[str]) -> str:
    """Name the functions that a line calls."""
    if not called:
        return "Calls functions."
    *most, last = called
    names, into = (f"{', '.join(most)} and {last}", "them") if most else (last, "it")
    return f"Calls {names}; step into {into} with ↓."


def arithmetic_text(how: Arithmetic | None, summed: tuple[str, int] = ("term", 0)) -> str:
    """Write one entry's arithmetic; of a sum the largest terms, and the sum of the others as one number.

    summed: what a sum runs over, and the index of its first term: ("key", 0).
    """
    if how is None:
        return ""
    if how.terms:
        return _sum_text(how, *summed)
    given, result = dict(how.numbers), number(how.value)
    if how.operation == "softmax":
        score, largest, total = given.values()
        return f"exp({number(score)} − {_signed(largest)}) / {number(total)} = {result}"
    if how.operation in ("where", "masked_fill"):
        return f"the condition is {'true' if given['condition'] else 'false'}, so {result}"
    if how.operation == "embedding":
        return f"row {given['token id']:.0f} of the table, column {given['column']:.0f}: {result}"
    if how.operation in ("le", "lt"):
        return f"{number(given['a'])} {how.written.split()[1]} {number(given['b'])}: {'true' if how.value else 'false'}"
    if set(given) == {"a", "b"}:
        return f"{_signed(given['a'])} {how.written.split()[1]} {_signed(given['b'])} = {result}"
    if set(given) == {"x"} and how.operation in UNARY:
        return f"{UNARY[how.operation](given['x'])} = {result}"
    if how.written == "the same entry":
        return f"entry [{', '.join(map(str, how.used[0][1]))}] of the tensor it comes from: {result}"
    return f"{how.operation}: {result}"


def entry_text(shown: Shown) -> str:
    """Write the arithmetic of the entry that is shown, or its value alone if the line only called a function."""
    how, truth = shown.arithmetic, shown.picture.numbers.dtype == np.bool_
    if how is None:
        value = float(shown.picture.value.entries[shown.picture.index])
        return ("true" if value else "false") if truth else number(value)
    if how.computed is None and truth:
        name = plain_name(how.operation)
        return f"{SYMBOLS.get(name, name)}: {'true' if how.value else 'false'}"
    return arithmetic_text(how, summed_over(shown))


UNARY: dict[str, Callable[[float], str]] = {
    "rsqrt": lambda x: f"1 / √{_signed(x)}",
    "silu": lambda x: f"{_signed(x)} / (1 + exp({number(-x)}))",
    "cos": lambda x: f"cos({number(x)})",
    "sin": lambda x: f"sin({number(x)})",
}


def largest_terms(how: Arithmetic) -> list[int]:
    """Return the indices, ascending, of the terms of a sum that are written out: the largest absolute values."""
    products = how.products
    return sorted(sorted(range(len(products)), key=lambda i: -abs(products[i]))[:TERMS_WRITTEN])


def summed_over(shown: Shown) -> tuple[str, int]:
    """Return what a sum runs over, by the axis that its first input is read along, and the index of its first term."""
    if shown.arithmetic is not None and shown.arithmetic.terms:
        for value, at in shown.arithmetic.used:
            for source in shown.sources:
                if source.picture.value is value and None in at:
                    axis = at.index(None)
                    starts = (*(0 for _ in range(len(at) - 2)), *source.picture.start[-len(at) :])
                    return SUMMED.get(source.picture.axes[axis], "dimension"), starts[axis]
    return "term", 0


def _sum_text(how: Arithmetic, name: str, first: int) -> str:
    written = largest_terms(how)
    given, others = dict(how.numbers), [p for i, p in enumerate(how.products) if i not in written]
    terms = [_product(how.terms[i]) for i in written]
    if others:
        terms.append(_signed(sum(others)))
    if "bias" in given:
        terms.append(_signed(given["bias"]))
    added = " + ".join(terms)
    if "number of terms" in given:
        added = f"({added}) / {given['number of terms']:.0f}"
    return f"{added} = {number(how.value)}{_terms_text([first + i for i in written], others, name)}"


def _terms_text(written: Sequence[int], others: Sequence[float], name: str) -> str:
    """Name the terms that are written out; "" if they are all."""
    if not others:
        return ""
    *most, last = map(str, written)
    rest = "the other one is" if len(others) == 1 else f"the other {len(others)} add up to"
    which = f"{', '.join(most)} and {last}" if name == "term" else f"those of {name}s {', '.join(most)} and {last}"
    return f"; the largest terms are {which}, and {rest} {number(sum(others))}"


def bars(how: Arithmetic | None) -> tuple[list[float], float]:
    """Return the largest terms of a sum for a chart, in their order, and the sum of the terms that are not drawn."""
    products = how.products if how else ()
    if len(products) <= MAX_BARS:
        return [float(p) for p in products], 0.0
    largest = sorted(np.argsort(np.abs(products))[::-1][:MAX_BARS].tolist())
    return [float(products[i]) for i in largest], float(sum(products) - sum(products[i] for i in largest))


def bars_text(how: Arithmetic | None) -> str:
    """Describe the number of terms and the share of the four largest in the sum of magnitudes."""
    if how is None or not how.terms:
        return ""
    products = np.asarray(how.products)
    four = np.sort(np.abs(products))[::-1][:4].sum()
    total = np.abs(products).sum()
    share = f"; the four largest make up {100 * four / total:.0f}% of the total magnitude" if total else ""
    bars = f"Bars: the {MAX_BARS} largest." if len(products) > MAX_BARS else "One bar each."
    return f"{count(len(products), 'term')}{share}. {bars}"


def alt_text(shown: Shown, labels: Sequence[str], words: Sequence[str] = ()) -> str:
    """Return the picture's alt text."""
    picture = shown.picture
    part = picture.numbers[np.isfinite(picture.numbers)] if picture.numbers.dtype.kind == "f" else picture.numbers
    spread = f", from {number(float(part.min()))} to {number(float(part.max()))}" if part.size else ""
    entry = number(float(picture.value.array[picture.index])) if picture.value.array is not None else ""
    return (
        f"{slice_text(shown.name, picture)} of shape {shape_text(picture.value.shape, picture.axes)}{spread}. "
        f"{place_text(picture, labels, words)}: {entry}."
    )


def _product(term: Sequence[float]) -> str:
    return " · ".join(_signed(factor) for factor in term)


def _signed(x: float) -> str:
    """Format a number, in brackets if it is negative or has a power of ten, so that no two signs meet."""
    written = number(x)
    return f"({written})" if x < 0 or "·" in written else written
