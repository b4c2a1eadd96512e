"""The caption of a line is the entry's own arithmetic: evaluated from the text, it gives the printed result."""

import pytest

from attnviz.checkpoints import list_checkpoints, load_checkpoint
from attnviz.figures import step_captions as captions
from attnviz.steps import Arithmetic, Selection, Walk, record
from tests.arithmetic import check

IDS = (5, 17, 5, 17, 101, 3, 5, 29, 31)


@pytest.fixture(scope="module", params=list_checkpoints())
def walk(request) -> Walk:
    return Walk(record(load_checkpoint(request.param)[0], IDS, 1), Selection(3, 0, 7, 2))


def test_printed_arithmetic_comes_to_the_result(walk):
    checked, operations = 0, set()
    for stop in walk.stops:
        for shown in stop.shown:
            text = captions.arithmetic_text(shown.arithmetic)
            if " = " in text and "∞" not in text:
                assert check(text, False) == [], text
                operations.add(shown.arithmetic.operation)
                checked += 1
    assert checked > 30 and {"linear", "einsum", "softmax", "mul", "add", "mean", "rsqrt", "silu"} <= operations


def test_bars_add_up_to_the_sum(walk):
    checked = 0
    for stop in walk.stops:
        for shown in stop.shown:
            if shown.arithmetic and shown.arithmetic.terms:
                bars, rest = captions.bars(shown.arithmetic)
                n = dict(shown.arithmetic.numbers).get("number of terms", 1)
                assert len(bars) <= captions.MAX_BARS
                assert (sum(bars) + rest) / n == pytest.approx(shown.arithmetic.value, rel=1e-4, abs=1e-4)
                checked += 1
    assert checked > 8


@pytest.mark.parametrize(
    ("x", "written"),
    [
        (0.5, "0.5000"),
        (-0.12345, "−0.1235"),
        (1e-6, "1.000·10⁻⁶"),
        (-0.00271828, "−0.002718"),
        (3.0, "3"),
        (float("-inf"), "−∞"),
        (-0.0001, "−0.0001"),
    ],
)
def test_numbers(x, written):
    assert captions.number(x) == written


def test_shares_of_the_largest_terms():
    how = Arithmetic("linear", 10.0, 10.0, "x·w", ((1.0, 6.0), (1.0, 1.0), (1.0, 1.0), (1.0, 1.0), (1.0, 1.0)))
    assert "90 %" in captions.bars_text(how) and "5 terms" in captions.bars_text(how)


def test_alt_texts_name_the_entry(walk):
    labels = [f"t{i}" for i in range(len(IDS))]
    for stop in walk.stops:
        for shown in stop.shown:
            text = captions.alt_text(shown, labels)
            assert captions.number(float(shown.picture.value.entries[shown.picture.index])) in text
