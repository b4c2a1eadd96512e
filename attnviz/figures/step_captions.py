"""Captions of an executed line: what its torch operations do, and one entry's arithmetic with its numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from attnviz.equations import number_text
from attnviz.figures.drawing import quoted
from attnviz.figures.numbers import printed
from attnviz.figures.phrases import count
from attnviz.steps import Arithmetic, Picture, Shown, Stop

TERMS_WRITTEN = 3
MAX_BARS = 64
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
    "any": "tests whether any entry of the row is true",
    "tril": "sets the entries above the diagonal to false",
    "embedding": "looks up one row of the table for each token id",
    "cos": "takes the cosine of each entry",
    "sin": "takes the sine of each entry",
    "expand": "repeats an axis without copying it",
}


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
    if not stop.operations:
        return "Calls functions that you can step into (↓); their result is shown."
    names = dict.fromkeys(name.strip("_").removeprefix("r") if name.strip("_") in ("radd", "rmul") else name.strip("_")
                          for name in stop.operations)  # fmt: skip
    return "; ".join(f"{name} {OPERATIONS[name]}" if name in OPERATIONS else name for name in names) + "."


def arithmetic_text(how: Arithmetic | None) -> str:
    """Write one entry's arithmetic; of a sum the first few terms, and the sum of the others as one number."""
    if how is None:
        return ""
    if how.terms:
        return _sum_text(how)
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


UNARY: dict[str, Callable[[float], str]] = {
    "rsqrt": lambda x: f"1 / √{_signed(x)}",
    "silu": lambda x: f"{_signed(x)} / (1 + exp({number(-x)}))",
    "cos": lambda x: f"cos({number(x)})",
    "sin": lambda x: f"sin({number(x)})",
}


def _sum_text(how: Arithmetic) -> str:
    given, others = dict(how.numbers), how.products[TERMS_WRITTEN:]
    terms = [_product(term) for term in how.terms[:TERMS_WRITTEN]]
    if others:
        terms.append(_signed(sum(others)))
    if "bias" in given:
        terms.append(_signed(given["bias"]))
    added = " + ".join(terms)
    if "number of terms" in given:
        added = f"({added}) / {given['number of terms']:.0f}"
    last = f"; {number(sum(others))} is the sum of the other {count(len(others), 'term')}" if others else ""
    return f"{added} = {number(how.value)}{last}"


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
    share = f"; the four largest make up {100 * four / total:.0f} % of the total magnitude" if total else ""
    cut = f" The {MAX_BARS} largest are drawn." if len(products) > MAX_BARS else ""
    return f"{count(len(products), 'term')}, one bar each{share}.{cut}"


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
