"""Captions of an executed line: what its torch operations do, and one entry's arithmetic with its numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence

import numpy as np

from attnviz.equations import number_text
from attnviz.figures.drawing import quoted
from attnviz.figures.numbers import printed
from attnviz.figures.step_operations import SYMBOLS, operation_text, plain_name
from attnviz.phrases import count
from attnviz.steps import Arithmetic, Picture, Shown, Stop

TERMS_WRITTEN = 3
MAX_BARS = 64
SUMMED = {"S": "key", "T": "token", "V": "token", "": "term"}  # what a sum over an axis runs over; else: dimension


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
    does = dict.fromkeys(operation_text(operation) for operation in stop.line.operations)
    if not does:
        return f"{_calls_text(stop.called)} The result is shown."
    return " ".join([_calls_text(stop.called)] * bool(stop.called) + ["; ".join(does) + "."])


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
        comes_to = math.exp(_as_printed(score) - _as_printed(largest)) / _as_printed(total)
        return f"exp({number(score)} − {_signed(largest)}) / {number(total)} {_equals(comes_to, how.value)}"
    if how.operation in ("where", "masked_fill"):
        return f"the condition is {'true' if given['condition'] else 'false'}, so {result}"
    if how.operation == "embedding":
        return f"row {given['token id']:.0f} of the table, column {given['column']:.0f}: {result}"
    if how.operation in ("le", "lt"):
        return f"{number(given['a'])} {how.written.split()[1]} {number(given['b'])}: {'true' if how.value else 'false'}"
    if set(given) == {"a", "b"}:
        written = f"{_signed(given['a'])} {how.written.split()[1]} {_signed(given['b'])}"
        return f"{written} {_equals(_recomputed(how), how.value)}"
    if set(given) == {"x"} and how.operation in UNARY:
        return f"{UNARY[how.operation](given['x'])} {_equals(_recomputed(how), how.value)}"
    if set(given) == {"x"}:
        written = re.sub(r"\bx", _signed(given["x"]), how.written)
        return f"{written} {_equals(_recomputed(how), how.value)}"
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
    comes_to = math.fsum(math.prod(map(_as_printed, how.terms[i])) for i in written)
    for x in [*([sum(others)] if others else []), *([given["bias"]] if "bias" in given else [])]:
        terms.append(_signed(x))
        comes_to += _as_printed(x)
    added = " + ".join(terms)
    if n := given.get("number of terms"):
        added, comes_to = f"({added}) / {n:.0f}", comes_to / n
    return f"{added} {_equals(comes_to, how.value)}{_terms_text([first + i for i in written], others, name)}"


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
    written = _truth if picture.numbers.dtype == np.bool_ else number
    ends = [written(float(x)) for x in (part.min(), part.max())] if part.size else []
    spread = "" if not ends else f", from {ends[0]} to {ends[1]}" if ends[0] != ends[1] else f", all {ends[0]}"
    entry = written(float(picture.value.array[picture.index])) if picture.value.array is not None else ""
    place = place_text(picture, labels, words)
    return (
        f"{slice_text(shown.name, picture)} of shape {shape_text(picture.value.shape, picture.axes)}"
        f"{spread if picture.numbers.size > 1 else ''}. {place}{': ' * bool(place)}{entry}."
    )


def _truth(x: float) -> str:
    return "true" if x else "false"


def _recomputed(how: Arithmetic) -> float:
    """Return the result of the printed numbers; infinite or not a number where they have none."""
    assert how.compute is not None
    try:
        return how.compute(*(_as_printed(x) for _, x in how.numbers))
    except (ZeroDivisionError, OverflowError):
        return math.nan


def _as_printed(x: float) -> float:
    """Return the number that `number` prints for x, which is rounded."""
    if not math.isfinite(x):
        return x
    mantissa, _, power = number(x).replace("−", "-").partition("·10")
    return float(mantissa) * 10.0 ** int(power.translate(SUPERSCRIPTS) or 0)


def _equals(comes_to: float, result: float) -> str:
    """Write the result after "=" if the printed numbers before it come to it as printed, otherwise after "≈"."""
    return f"{'=' if number(comes_to) == number(result) else '≈'} {number(result)}"


SUPERSCRIPTS = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")


def _product(term: Sequence[float]) -> str:
    return " · ".join(_signed(factor) for factor in term)


def _signed(x: float) -> str:
    """Format a number, in brackets if it is negative or has a power of ten, so that no two signs meet."""
    written = number(x)
    return f"({written})" if x < 0 or "·" in written else written
