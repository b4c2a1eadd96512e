"""Name the mistake of a file whose outputs are wrong: a known one, two at once, or one in some of the checks.

A mistake is named where the file's outputs equal those of the version with the mistake, on the same inputs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from attnviz.phrases import listed
from attnviz.practice.known import known_mistakes, known_pairs, known_pairs_with_the_page
from attnviz.practice.task import Case, Mistaken, Names, Task, printable

Found = list[Tensor] | str  # the outputs of a case, or a sentence that says why there are none
LOOSE = 20  # times a case's tolerance
MATCH, MISMATCH, NEUTRAL = "match", "mismatch", "neutral"
RANDOM = Mistaken("that is random in evaluation", mistake="dropout_in_evaluation")


@dataclass(frozen=True)
class Diagnosis:
    """What is wrong. whole: it accounts for all failed checks."""

    sentence: str
    mistaken: tuple[Mistaken, ...]
    whole: bool = True

    @property
    def mistakes(self) -> tuple[str, ...]:
        """The ids of the mistakes on the Mistakes page."""
        return tuple(dict.fromkeys(each.mistake for each in self.mistaken if each.mistake))


@dataclass(frozen=True)
class Checked:
    """One case with the right outputs and what was found."""

    case: Case
    right: list[Tensor]
    found: Found

    @property
    def passed(self) -> bool:
        return not isinstance(self.found, str) and same(self.found, self.right, self.case.tolerance)

    @property
    def tells(self) -> bool:
        """Check whether more than single numbers are wrong, which can be equal by chance: bytes, a length."""
        if isinstance(self.found, str) or len(self.found) != len(self.right):
            return False
        both = zip(self.found, self.right, strict=True)
        return any(f.ndim and not same([f], [r], self.case.tolerance) for f, r in both)

    def changed_by(self, names: Names) -> bool:
        """Check whether a version's outputs are not the right ones."""
        try:
            return not same(self.case.run(names), self.right, self.case.tolerance)
        except Exception:  # noqa: BLE001, the mistake may raise anything
            return True

    def against(self, names: Names, exact: bool = True) -> str:
        """Compare a version with what was found: MATCH, MISMATCH, or NEUTRAL if the case does not tell.

        exact: False to allow for rounding that a mistake makes more of, as an angle that is ten times larger.
        """
        try:
            other: Found = self.case.run(names)
        except Exception as error:  # noqa: BLE001, the mistake may raise anything
            other = " ".join(printable(str(error)).split())[:300] or type(error).__name__
        if isinstance(
            self.found, str
        ):  # another message does not tell: a wrong shape raises one in each way of writing
            return MATCH if isinstance(other, str) and other in self.found else NEUTRAL
        if isinstance(other, str):
            return MISMATCH
        if self.passed or exact or same(other, self.right, self.case.tolerance):
            equal = same(self.found, other, self.case.tolerance)
        else:
            near = same(self.found, other, LOOSE * self.case.tolerance)
            equal = near and _distance(self.found, other) < _distance(other, self.right) / 1000
        return MISMATCH if not equal else NEUTRAL if self.passed else MATCH


def _distance(one: list[Tensor], other: list[Tensor]) -> float:
    """Return the largest difference of two lists of outputs of equal shapes; infinite if one is not finite."""
    apart = [
        float((a.double() - b.double()).abs().max()) for a, b in zip(one, other, strict=True) if a.shape == b.shape
    ]
    return max((each if math.isfinite(each) else math.inf for each in apart), default=math.inf)


def same(found: list[Tensor], other: list[Tensor], tolerance: float) -> bool:
    """Check whether all outputs are equal within the tolerance; NaN equals NaN."""
    return len(found) == len(other) and all(
        f.shape == o.shape and torch.allclose(f.double(), o.double(), rtol=tolerance, atol=tolerance, equal_nan=True)
        for f, o in zip(found, other, strict=True)
    )


def diagnose(task: Task, cases: Sequence[Case], right: list[list[Tensor]], found: Sequence[Found]) -> Diagnosis | None:
    """Name the mistake of a file, given its outputs of each case; None if no known one explains a failed check."""
    checks = [Checked(*each) for each in zip(cases, right, found, strict=True) if not each[0].large]
    if all(check.passed for check in checks):
        return None
    if any(_differs_when_repeated(check) for check in checks):
        return Diagnosis(
            "The same input and weights give different outputs: something is random, such as dropout that is active in "
            "evaluation.", (RANDOM,),
        )  # fmt: skip
    return _one(task, checks) or _two(task, checks) or _by_check(task, checks)


def _differs_when_repeated(check: Checked) -> bool:
    """Compare the outputs of the last two calls: one tensor of each, or as many as a call returns."""
    if not check.case.repeated or isinstance(check.found, str) or len(check.found) < 2:
        return False
    n = len(check.found) // sum(bool(step.get("out")) for step in check.case.steps)
    return n > 0 and not same(check.found[-2 * n : -n], check.found[-n:], check.case.tolerance)


def _explains(names: Names, checks: Sequence[Checked], exact: bool = True) -> bool:
    """Check whether a version reproduces the file's outputs or errors in every case, and a wrong one among them."""
    matches = False
    for check in checks:
        result = check.against(names, exact)
        matches = matches or result == MATCH
        if result == MISMATCH:  # the cases left change nothing
            return False
    return matches


def _one(task: Task, checks: Sequence[Checked]) -> Diagnosis | None:
    for exact in (True, False):
        for mistaken, names in known_mistakes(task):
            if _explains(names, checks, exact):
                return Diagnosis(f"Your output equals ours {mistaken.explanation}.", (mistaken,))
    return None


def _two(task: Task, checks: Sequence[Checked]) -> Diagnosis | None:
    """Name two mistakes if one pair of them explains the outputs; if several do, none is named."""
    quick = sorted(checks, key=lambda check: (check.passed, len(check.case.steps)))  # most pairs fail the first one
    changes = {id(mistaken): [check.changed_by(task.build(**mistaken.options)) for check in quick]
               for mistaken in task.mistaken}  # fmt: skip

    def possible(one: Mistaken, other: Mistaken) -> bool:
        """Check that a check failed if, and only if, one of two mistakes changes its outputs; both can cancel out."""
        both = zip(quick, changes[id(one)], changes[id(other)], strict=True)
        return all((a and b) or check.passed != (a or b) for check, a, b in both)

    for known in (known_pairs(task, possible), known_pairs_with_the_page(task)):
        pairs = {tuple(each.explanation for each in pair): pair for pair, names in known if _explains(names, quick)}
        if pairs:
            break
    if len(pairs) != 1:
        return None
    ((one, other),) = pairs.values()
    return Diagnosis(
        f"Your output equals ours with two mistakes: {one.explanation}; and {other.explanation}.", (one, other)
    )


def _by_check(task: Task, checks: Sequence[Checked]) -> Diagnosis | None:
    """Name the mistakes that explain some of the failed checks: none that would change a check that passes, and none
    that equals a single check, which another mistake can do by chance."""
    explained: dict[str, tuple[Mistaken, set[int]]] = {}
    for mistaken, names in known_mistakes(task):
        results = [check.against(names) for check in checks]
        matching = {i for i, result in enumerate(results) if result == MATCH and checks[i].tells}
        contradicted = any(check.passed and result == MISMATCH for check, result in zip(checks, results, strict=True))
        if len(matching) >= 2 and not contradicted:
            of_the_same = explained.setdefault(mistaken.mistake or mistaken.explanation, (mistaken, set()))[1]
            of_the_same |= matching
    alone = [
        (mistaken, sorted(which)) for mistaken, which in explained.values()
        if not any(which & others for other, others in explained.values() if other is not mistaken)
    ]  # fmt: skip
    if not alone:
        return None
    failed = sum(not check.passed for check in checks)
    parts = [f"{mistaken.explanation}, in {len(which)} of the {failed} failed checks: "
             f"{listed(f'“{checks[i].case.label}”' for i in which)}" for mistaken, which in alone]  # fmt: skip
    return Diagnosis(f"Your output equals ours {'; and '.join(parts)}.", tuple(each for each, _ in alone), whole=False)


def failing_argument(cases: Sequence[Case], passed: Sequence[bool]) -> str:
    """Return a sentence on an argument by which the failed checks differ from the passed ones; "" if there is none."""
    arguments = [_arguments(case) for case in cases]
    for name in sorted(set().union(*arguments)):
        given = [name in each for each in arguments]
        for holds, other in (("passes", "fails"), ("fails", "passes")):
            if given == [each == (holds == "passes") for each in passed] and 0 < sum(given) < len(given):
                one = "Every" if sum(given) > 1 else "The"
                rest = "every" if len(given) - sum(given) > 1 else "the"
                return f"{one} check with the argument {name} {holds}; {rest} other check {other}."
    return ""


def _arguments(case: Case) -> set[str]:
    """Name the arguments that a case passes by name, and the number of dimensions of those that are tensors."""
    given = {name: each for step in case.steps if step.get("out") for name, each in step.get("kwargs", {}).items()}
    shaped = {name: case.tensors[each["tensor"]].ndim for name, each in given.items() if "tensor" in each}
    return {*given, *(f"{name} in {n} dimensions" for name, n in shaped.items())}
