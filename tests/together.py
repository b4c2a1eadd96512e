"""Run hundreds of short cases as one test: each test of pytest costs about 5 ms under xdist, whatever it does."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import wraps

import pytest
import torch


def together(names: str, cases: Iterable) -> Callable:
    """Decorate a test to run with each case, like parametrize, but as one test that reports all cases that fail.

    For tests that take milliseconds. The cases share their fixtures, so what patches needs parametrize.
    """
    arguments, cases = names.replace(" ", "").split(","), list(cases)
    assert cases, "a test without a case cannot fail"

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @wraps(test)
        def run(**fixtures: object) -> None:
            wrong = {}
            for case in cases:
                torch.default_generator.manual_seed(0)  # as for each test: conftest.py
                try:
                    test(**fixtures, **dict(zip(arguments, case if len(arguments) > 1 else (case,), strict=True)))
                except (Exception, pytest.fail.Exception) as error:
                    line = error.__traceback__.tb_next.tb_lineno if error.__traceback__.tb_next else "?"
                    wrong[str(case)] = f"line {line}: {type(error).__name__}: {error}"
            lines = [f"{case}: {problem}" for case, problem in wrong.items()]
            said = "\n".join([f"{len(wrong)} of {len(cases)} cases fail", *lines])
            assert not wrong, said.encode(errors="backslashreplace").decode()  # xdist cannot send a lone surrogate

        signature = inspect.signature(test)
        rest = [each for name, each in signature.parameters.items() if name not in arguments]
        run.__signature__ = signature.replace(parameters=rest)  # all that pytest looks for
        return run

    return decorate
