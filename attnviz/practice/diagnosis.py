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

    def against(self, names: Names, exact: bool = True) -> str:
        """Compare a version with what was found: MATCH, MISMATCH, or NEUTRAL if the case does not tell.

        exact: False to allow for rounding that a mistake makes more of, as an angle that is ten times larger.
        """
        try:
            other: Found = self.case.run(names)
        except Exception as error:  # noqa: BLE001, the mistake may raise anything
            other = " ".join(printable(str(error)).split())[:300] or type(error).__name__
        if isinstance(self.found, str):
            return NEUTRAL if not isinstance(other, str) else MATCH if other in self.found else MISMATCH
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
    if not check.case.repeated or isinstance(check.found, str) or len(check.found) < 2:
        return False
    one, other = check.found[-2:]
    return not same([one], [other], check.case.tolerance)


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
    for known in (known_pairs(task), known_pairs_with_the_page(task)):
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
    """Name the mistakes that explain some of the failed checks, each the only known one that does."""
    failed = [check for check in checks if not check.passed]
    explained: dict[str, tuple[Mistaken, list[str]]] = {}
    known = [(mistaken, [check.against(names) for check in checks]) for mistaken, names in known_mistakes(task)]
    for i, check in enumerate(checks):
        fits = [(mistaken, results) for mistaken, results in known if results[i] == MATCH]
        fits = [each for each in fits if each[0] in task.mistaken] or fits
        fits = [
            each
            for each in fits
            if not any(check.passed and result == MISMATCH for check, result in zip(checks, each[1], strict=True))
        ] or fits
        if len({mistaken.explanation for mistaken, _ in fits}) == 1:
            mistaken, explanation = fits[0][0], fits[0][0].explanation
            explained.setdefault(explanation, (mistaken, []))[1].append(check.case.label)
    if not explained:
        return None
    parts = [
        f"in {_checks(labels, failed)} it equals ours {explanation}" for explanation, (_, labels) in explained.items()
    ]
    return Diagnosis(f"Your output has no known mistake in all failed checks, but {listed(parts)}.",
                     tuple(mistaken for mistaken, _ in explained.values()), whole=False)  # fmt: skip


def _checks(labels: list[str], failed: Sequence[Checked]) -> str:
    return f"{len(labels)} of {len(failed)} ({listed(f'“{label}”' for label in labels)})"


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
