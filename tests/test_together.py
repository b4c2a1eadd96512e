"""A test that runs all of its cases together fails with each case that fails, whatever the others do."""

import inspect

import pytest

from tests.together import together


@pytest.fixture
def limit() -> int:
    return 3


@together("n", range(4))
def test_fixtures_are_given_to_each_case(n, limit):
    assert n <= limit


def test_each_failing_case_is_named_with_its_line_and_reason():
    ran = []

    @together("n, divisor", [(6, 3), (6, 0), (7, 2), (8, 2)])
    def divides(n, divisor, shift):
        ran.append((n, divisor))
        assert (n + shift) % divisor == 0, f"{divisor} does not divide {n}"

    line = inspect.getsourcelines(divides)[1] + 3
    with pytest.raises(AssertionError) as found:
        divides(shift=0)
    first, *rest = str(found.value).splitlines()
    assert first == "2 of 4 cases fail" and ran == [(6, 3), (6, 0), (7, 2), (8, 2)]
    assert rest[0].startswith(f"(6, 0): line {line}: ZeroDivisionError: ")
    assert rest[1].startswith(f"(7, 2): line {line}: AssertionError: 2 does not divide 7")
    assert [*inspect.signature(divides).parameters] == ["shift"]  # what pytest looks for


def test_an_error_that_is_not_raised_is_a_failing_case():
    @together("n", [0, 1])
    def refuses(n):
        with pytest.raises(ZeroDivisionError):
            1 / n

    with pytest.raises(AssertionError, match="1 of 2 cases fail\n1: line .*DID NOT RAISE"):
        refuses()


def test_without_a_case_there_is_no_test():
    with pytest.raises(AssertionError, match="cannot fail"):
        together("n", [])
