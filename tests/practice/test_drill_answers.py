"""Typed answers: what is read, what is asked about, and what is refused."""

import math

import pytest

from attnviz.practice.drills import make
from attnviz.practice.drills.answers import BYTES, NumberAnswer, Wrong
from attnviz.practice.drills.evaluate import Unreadable, evaluate


def test_an_answer_in_the_wrong_unit_is_named():
    question = make("cache_of_a_context", 3)
    answer = question.answer
    size = answer.value * BYTES["GiB"]
    assert question.grade(f"{size / 1e9} GB").right and question.grade(f"{size / 2**20} MiB").right
    grade = question.grade(str(size / 1e9))
    assert not grade.right and "GB" in grade.explanation
    assert "K and V once" in question.grade(str(answer.value / 2)).explanation


@pytest.mark.parametrize(
    ("written", "value"),
    [("2·32·8", 512), ("32,768 x 4,096", 2**27), ("2x(3+4)", 14), ("2 x pi x 3", 6 * math.pi), ("sqrt(4) x sqrt(9)", 6),
     ("1,048,576", 2**20), ("2^10 − 24", 1000),
     ("sqrt(64)/2", 4), ("−3", -3), ("1e-3", 0.001), ("12 345 678", 12345678), ("cos(0)", 1),
     ("exp(0) + ln(1)", 1), ("69 %", 0.69), ("69%", 0.69), ("e^-2", math.exp(-2)), ("ln 16", math.log(16)),
     ("log2(16)", 4), ("tanh 2", math.tanh(2)), ("exp -1", None),
     ("2·6·13²", 2028), ("10⁻³", 0.001), ("2³⁰", 2**30), ("2π·3", 6 * math.pi), ("3 − 2π", 3 - 2 * math.pi),
     ("e^(2π)", math.exp(2 * math.pi)), ("1/2π", None), ("2^2π", None), ("e^-2π", None), ("²", None),
     ("floor(9/4)", 2), ("⌊9/4⌋", 2), ("ceil 2.5", 3), ("⌈9/4⌉", 3), ("9//4", 2), ("4×", 4), ("1,024 x", 1024),
     ("2·×", None), ("KV 2", 2), ("KV head 12", 12), ("line 3", 3), ("minus 3", None)],
)  # fmt: skip
def test_what_is_typed_is_evaluated(written, value):
    if value is None:
        with pytest.raises(Unreadable):
            evaluate(written)
    else:
        assert evaluate(written) == pytest.approx(value)


@pytest.mark.parametrize(
    "written",
    ["", "x", "__import__('os')", "(1).real", "[1]", "1 if 1 else 2", "9**9**9**9", "1/0", "'a'*9", "lambda: 1",
     "(" * 150, "1" * 201, "exp(1000)", "(-8)^0.5", "True", "1;2", "a=1", "1e999", "1//0", "floor(1,2)",
     "9⁹⁹⁹⁹", "floor(10^400)"],
)  # fmt: skip
def test_nothing_else_is_run(written):
    with pytest.raises(Unreadable):
        evaluate(written)


def test_a_number_may_be_rounded_to_two_decimals_where_a_tolerance_is_given():
    """Of −0.0620, "−0.06" is as right as it can be with two decimals, and not within 2 %."""
    answer = NumberAnswer(-0.0620, tolerance=0.02, wrong=(Wrong(0.07, "the other"),))
    assert [answer.grade(each).right for each in ("-0.06", "−0.062", "-0.0620", "-0.0612")] == [True] * 4
    assert [answer.grade(each).right for each in ("-0.1", "-0.07", "0.06", "0.00", "-0.065", "-0.06*1.0")] == [
        False
    ] * 6
    assert not NumberAnswer(0.0004, tolerance=0.01).grade("0.00").right
    assert not NumberAnswer(7.25).grade("7.2500001").right  # exact where no tolerance is given


@pytest.mark.parametrize(
    ("given", "message"),
    [("128 KB", "1 kB is 1,000 B here, and 1 KiB is 1,024 B"), ("0.125 MB", "1 MiB is 1,048,576 B")],
)
def test_a_decimal_unit_in_place_of_a_binary_one_is_asked_about(given, message):
    grade = NumberAnswer(131_072, "B", 0.005).grade(given)
    assert not grade.read and message in grade.explanation
    assert NumberAnswer(131_072, "B", 0.005).grade(given.replace("KB", "KiB").replace("MB", "MiB")).right
    assert NumberAnswer(128_000, "B").grade("128 KB").right


def test_a_binary_unit_after_the_number_of_decimal_ones_is_converted():
    answer = NumberAnswer(14.6, "GB", 0.01, (Wrong(7.3, "half"),))
    grade = answer.grade("14.6 GiB")
    assert grade.explanation == "14.60 GB is 13.60 GiB." and grade.read and not grade.right
    assert answer.grade("13.6 GiB").right and answer.grade("14600 MB").right
    assert NumberAnswer(131_072, "B").grade("131072 KiB").explanation == "131,072 B is 128 KiB."


@pytest.mark.parametrize(
    ("written", "hint"),
    [
        ("151M", "Write 151M as 151e6"),
        ("582 tok/s", "Leave out the unit"),
        ("2LKD", "Write . or"),
        ("three", "“three” is not read: type a number"),
    ],
)
def test_what_is_not_read_is_answered_by_what_to_change(written, hint):
    with pytest.raises(Unreadable, match=hint):
        evaluate(written)
