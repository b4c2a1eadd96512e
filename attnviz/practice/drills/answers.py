"""The answer types. Each grades an answer given as text, as it was typed or chosen."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations

from attnviz.equations import Expression, Value, number_text, replaced
from attnviz.practice.drills.evaluate import evaluate
from attnviz.practice.drills.reading import (
    MAX_CHARS,
    Unreadable,
    bare,
    in_digits,
    readings,
    separated,
    without_noun,
    written_out,
)
from attnviz.practice.drills.units import BINARY, BYTES, RATE, family_of, split

HALF = 0.005  # the largest relative error of a number of three digits


@dataclass(frozen=True)
class Grade:
    """The result of grading. explanation: the likely mistake of a wrong answer; read: the text could be parsed."""

    right: bool
    explanation: str = ""
    read: bool = True


@dataclass(frozen=True)
class Wrong:
    """A known wrong answer and the mistake that leads to it."""

    value: float
    explanation: str


@dataclass(frozen=True)
class NumberAnswer:
    """A number in `unit`; bytes may be given in any unit of bytes.

    tolerance: relative; if there is one, the number may also be correctly rounded to two or more decimals.
    digits: decimals shown, as for a `Value`.
    """

    value: float
    unit: str = ""
    tolerance: float = 0.0
    wrong: tuple[Wrong, ...] = ()
    digits: int | None = None

    def clashes(self) -> bool:
        """Check whether a known wrong answer cannot be told from the right number, or from another wrong one: the
        numbers within the tolerance of both overlap, or it is the right number rounded to its few decimals."""
        wrong = [each.value for each in self.wrong]
        room = max(2 * self.tolerance, 1e-9)
        if any(math.isclose(a, b, rel_tol=room, abs_tol=1e-9) for a, b in combinations((self.value, *wrong), 2)):
            return True
        return any(abs(each - self.value) <= self._half_a_digit(repr(each), 1) for each in wrong)

    def _equal(self, a: float, b: float) -> bool:
        return math.isclose(a, b, rel_tol=max(self.tolerance, 1e-9), abs_tol=1e-9)

    def grade(self, given: str) -> Grade:
        """Grade a number as typed. One with two meanings is asked about if the second one is right or known."""
        try:
            side = _last_side(in_digits(bare(given)))
            if self.unit == RATE:  # which has no k of its own, as bytes have: 3.4k tokens/s
                side = re.sub(r"(?i)(?<=\d) ?k(?=$| ?t)", "*1e3", side)
            count = side if family_of(self.unit) else written_out(side)
            number, typed = split(count, self.unit)
            texts = readings(without_noun(number))
            first, *others = [self._graded(text, typed) for text in texts]
        except Unreadable as error:
            return Grade(False, str(error), read=False)
        if not first.right and count != side and self._graded(written_out(side, 1024), "").right:
            return Grade(False, f"“{side}” counts thousands of 1,000 here, not of 1,024. Type all digits.", read=False)
        if first.right or not any(other.right or (other.explanation and not first.explanation) for other in others):
            return first
        written = separated(number)
        kinds = f"{re.sub('[.,]', '', written)} without a separator", written.replace(",", ".") + "0" * ("." in written)
        return Grade(False, f"“{written}” has two meanings. Type {kinds[0]}, or {kinds[1]}.", read=False)

    def _graded(self, number: str, typed: str) -> Grade:
        """Grade a number with one meaning in the typed unit. typed: "" for the unit that is asked for."""
        value = evaluate(number)
        sizes = family_of(self.unit)
        factor = sizes[typed] / sizes[self.unit] if typed else 1.0
        if message := self._meant_binary(value, typed):
            return Grade(False, message, read=False)
        if factor != 1 and self._equal(value, self.value):
            return Grade(False, f"{self.shown()} is {number_text(self.value / factor)} {typed}.")
        value *= factor
        if self._equal(value, self.value):
            return Grade(True)
        if (half := self._half_a_digit(number, factor)) and abs(value - self.value) <= half:
            others = any(abs(value - wrong.value) <= half for wrong in self.wrong)
            if others or abs(value - self.value) > 0.1 * abs(self.value):
                return Grade(False, "Too few digits to tell; type one more.", read=False)
            return Grade(True)
        for wrong in self.wrong:
            if self._equal(value, wrong.value):
                return Grade(False, wrong.explanation)
        return Grade(False, self._wrong_unit(value))

    def _half_a_digit(self, number: str, factor: float) -> float:
        """Return half of the last typed digit, of two decimals or more; 0 for other numbers, or without a tolerance."""
        match = re.fullmatch(r"\s*[-+]?\d*\.(\d{2,9})\s*(?:\*(1e\d+|10+))?", number)
        if not (self.tolerance and match):
            return 0.0
        return 0.50000001 * factor * float(match[2] or 1) * 10.0 ** -len(match[1])

    def _meant_binary(self, value: float, typed: str) -> str:
        """Say so if the number is right with kB, MB, … read as 1,024 B, …"""
        binary = BINARY.get(typed)
        if binary is None or not self._equal(value * BYTES[binary] / BYTES[self.unit], self.value):
            return ""
        return f"1 {typed} is {BYTES[typed]:,.0f} B here, and 1 {binary} is {BYTES[binary]:,} B. Which do you mean?"

    def _wrong_unit(self, value: float) -> str:
        if self.unit not in BYTES:
            return ""
        size = self.value * BYTES[self.unit]
        if self._equal(value, 8 * self.value):
            return "That is in bits: 8 bits are one byte."
        for other, factor in BYTES.items():
            if other != self.unit and self._equal(value, size / factor):
                return f"That is the value in {other}; give it in {self.unit}."
        return ""

    def shown(self) -> str:
        return f"{number_text(round(self.value, 12), digits=self.digits)}{' ' * bool(self.unit)}{self.unit}"


@dataclass(frozen=True)
class ShapeAnswer:
    """The shape of a tensor: whole numbers with any separator. wrong: known wrong shapes and their explanation."""

    shape: tuple[int, ...]
    wrong: tuple[tuple[tuple[int, ...], str], ...] = ()

    def clashes(self) -> bool:
        """Check whether a known wrong shape equals the right one or another wrong one."""
        return _repeats(self.shape, *(shape for shape, _ in self.wrong))

    def grade(self, given: str) -> Grade:
        try:
            shape, *others = _shapes(given)
        except Unreadable as error:
            return Grade(False, str(error), read=False)
        if self.shape in others:
            return Grade(False, "A comma separates two sizes. Type each size without one, such as 1536.", read=False)
        if shape == self.shape:
            return Grade(True)
        if explanation := dict(self.wrong).get(shape):
            return Grade(False, explanation)
        same = sorted(shape) == sorted(self.shape)
        return Grade(False, "The sizes are right, but their order is wrong." if same else "")

    def shown(self) -> str:
        return f"({', '.join(map(str, self.shape))})"


@dataclass(frozen=True)
class ChoiceAnswer:
    """One of a few options; the answer is its number, from 0. explanations: why each option is wrong."""

    options: tuple[str, ...]
    right: int
    explanations: tuple[str, ...] = ()
    code: bool = False

    def clashes(self) -> bool:
        """Check whether two options are the same."""
        return _repeats(*self.options)

    def grade(self, given: str) -> Grade:
        i = int(given[:3]) if given.isdecimal() else len(self.options)
        if i >= len(self.options):
            return Grade(False, "Choose one of the options.", read=False)
        return Grade(i == self.right, self.explanations[i] if self.explanations and i != self.right else "")

    def shown(self) -> str:
        return self.options[self.right]


@dataclass(frozen=True)
class OrderAnswer:
    """Items to put in order; the answer lists their numbers as shown, from 1."""

    items: tuple[str, ...]  # as they are shown
    order: tuple[int, ...]  # places in `items`, in the right order

    def clashes(self) -> bool:
        """Check whether two items are the same."""
        return _repeats(*self.items)

    def grade(self, given: str) -> Grade:
        found = self.places(given)
        if not found:
            return Grade(False, f"Use each of the numbers 1 to {len(self.items)} exactly once.", read=False)
        if found == self.order:
            return Grade(True)
        first = self.first_difference(found)
        up_to = f"Right up to line {first}; " if first else ""
        return Grade(False, f"{up_to}line {first + 1} should be a different one.".capitalize())

    def places(self, given: str) -> tuple[int, ...]:
        """Parse an order as places in `items`; empty if it is not an order of them."""
        found = tuple(int(n[:3]) - 1 for n in re.findall(r"\d+", given[:MAX_CHARS]))
        return found if sorted(found) == list(range(len(self.items))) else ()

    def first_difference(self, found: tuple[int, ...]) -> int:
        """Return the first line, from 0, at which a wrong order differs from the right one."""
        return next(i for i, (a, b) in enumerate(zip(found, self.order, strict=True)) if a != b)

    def shown(self) -> str:
        return ", ".join(str(i + 1) for i in self.order)


@dataclass(frozen=True)
class ExpressionAnswer:
    """A formula in the given variables, right if it equals the reference for 5 random assignments.

    wrong: known wrong formulas, as they would be typed, and their explanation.
    """

    formula: str
    letters: Mapping[str, str]  # letter -> meaning
    wrong: Mapping[str, str] = field(default_factory=dict)

    def clashes(self) -> bool:
        """Check whether a known wrong formula equals the right one or another wrong one."""
        return any(self._same(a, b) for a, b in combinations((self.formula, *self.wrong), 2))

    def grade(self, given: str) -> Grade:
        try:
            typed = _last_side(re.sub(r"(?i) bytes?$", "", bare(given)), dict.fromkeys(self.letters, 2.0))
            if self._same(typed, self.formula):
                return Grade(True)
            return next(
                (Grade(False, explanation) for wrong, explanation in self.wrong.items() if self._same(typed, wrong)),
                Grade(False),
            )
        except Unreadable as error:
            return Grade(False, str(error), read=False)

    def _same(self, a: str, b: str) -> bool:
        for seed in range(5):
            rng = random.Random(seed)
            values = {letter: rng.uniform(1, 9) for letter in self.letters}
            if not math.isclose(evaluate(a, values), evaluate(b, values), rel_tol=1e-9):
                return False
        return True

    def shown(self) -> str:
        return self.formula.replace("*", " · ")


@dataclass(frozen=True)
class CellAnswer:
    """A cell of a map; the answer is "row, column", from 0. values (rows × columns): drawn, None where masked."""

    values: tuple[tuple[float | None, ...], ...]
    cell: tuple[int, int]
    wrong: tuple[tuple[tuple[int, int], str], ...] = ()
    axes: tuple[str, str] = ("query", "key")

    def clashes(self) -> bool:
        """Check whether a known wrong cell is the right one or another wrong one."""
        return _repeats(self.cell, *(cell for cell, _ in self.wrong))

    def grade(self, given: str) -> Grade:
        found = tuple(int(n[:6]) for n in re.findall(r"\d+", given[:MAX_CHARS]))
        if len(found) != 2 or found[0] >= len(self.values) or found[1] >= len(self.values[0]):
            return Grade(False, "Choose a cell of the map.", read=False)
        if found == self.cell:
            return Grade(True)
        return Grade(False, dict(self.wrong).get((found[0], found[1]), ""))

    def named(self, cell: tuple[int, int]) -> str:
        """Describe a cell in words."""
        return f"{self.axes[0]} {cell[0]}, {self.axes[1]} {cell[1]}"

    def shown(self) -> str:
        return self.named(self.cell)


@dataclass(frozen=True)
class SpokenAnswer:
    """An answer said aloud. It is given as "said", then the numbers of the points that the person ticks: "said 0 2".

    "said none": they looked at the points, and said none of them.
    """

    points: tuple[str, ...]
    least: float = 2 / 3  # the share of them from which it is right

    def clashes(self) -> bool:
        return False

    def ticked(self, given: str) -> frozenset[int]:
        """Return the indices of the ticked points."""
        return frozenset(int(n) for n in re.findall(r"\d{1,2}", given)) & frozenset(range(len(self.points)))

    def is_open(self, given: str) -> bool:
        """Check whether it was said, and its points are not ticked yet."""
        return given == "said"

    def grade(self, given: str) -> Grade:
        n = len(self.ticked(given))
        return Grade(n >= self.least * len(self.points), f"{n} of {len(self.points)} points ticked.")

    def shown(self) -> str:
        return "the points below"


def _repeats(*answers: object) -> bool:
    return len(set(answers)) < len(answers)


def _last_side(text: str, letters: Mapping[str, float] | None = None) -> str:
    """Return what follows the last equals sign. Unreadable if another side is a different number."""
    *before, last = [side.strip() for side in re.split("[=≈≃≅]", text) if side.strip()] or [""]
    for side in before:
        try:
            found, value = evaluate(side, letters), evaluate(last, letters)
        except Unreadable:
            continue  # a name, as in "B = 3", or a unit
        if letters and not math.isclose(found, value):
            raise Unreadable("Type the formula only, without an equals sign.")
        if not math.isclose(found, value, rel_tol=0.01):
            raise Unreadable(f"“{side[:40]}” is {number_text(found)}, not {number_text(value)}.")
    return last


def _shapes(given: str) -> list[tuple[int, ...]]:
    """Parse a shape: sizes, or products, between commas, or else between spaces or signs. Return its other meaning too,
    in which a comma separates thousands."""
    text = bare(re.sub(r"^\s*(?:\w+\s*=\s*)?(?:torch\.Size)?", "", given)).strip("()[]{}, ")
    if not re.fullmatch(r"[\d\s,;()\[\]xX*]*\d[\d\s,;()\[\]xX*]*", text):
        hint = "sizes as numbers, not as letters" if re.search("[A-WYZa-wyz]", text) else "a shape as whole numbers"
        raise Unreadable(f"Type {hint}, separated by commas, such as 2, 3, 5.")
    parts = re.split("[,;]", text) if re.search("[,;]", text) else re.split(r"[\s*xX]+", text)
    if re.search(r", ?0\d", text):
        raise Unreadable("A size cannot begin with 0. Type each size without a separator, such as 1024.")
    merged = re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", text)
    found = [tuple(int(evaluate(part)) for part in parts)]
    return [*found, *(_shapes(merged) if merged != text and "," in merged else [])]


Answer = NumberAnswer | ShapeAnswer | ChoiceAnswer | OrderAnswer | ExpressionAnswer | CellAnswer | SpokenAnswer


def known(*pairs: tuple[Expression | float, str] | None) -> tuple[Wrong, ...]:
    """Build known wrong answers with their explanation: `known((2 * K, "you counted K and V once"), …)`.

    None: a mistake that nobody can make with these inputs, such as one on KV heads in MHA.
    """
    return tuple(Wrong(float(v.value if isinstance(v, Expression) else v), why) for v, why in filter(None, pairs))


def in_full(written: Expression) -> Expression:
    """Return an expression whose numbers are printed with all their digits, so that they amount to the result."""

    def exact(value: Value) -> Value:
        decimals = next((n for n in (2, 3, 4) if float(f"{value.number:.{n}e}") == value.number), None)
        return replace(value, digits=decimals, scientific=decimals is not None) if value.scientific else value

    return replaced(written, exact)
