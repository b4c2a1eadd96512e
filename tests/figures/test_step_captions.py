"""The caption of a line is the entry's own arithmetic: evaluated from the text, it gives the printed result."""

import re

import numpy as np
import pytest

from attnviz.checkpoints import load_checkpoint
from attnviz.config import FAMILY
from attnviz.figures import step_captions as captions
from attnviz.steps import Arithmetic, Selection, Walk, record
from tests.arithmetic import check
from tests.reading import numbers_in, numbers_where

IDS = (5, 17, 5, 17, 101, 3, 5, 29, 31)


@pytest.fixture(scope="module", params=FAMILY)
def walk(request) -> Walk:
    return Walk(record(load_checkpoint(request.param)[0], IDS, 1), Selection(3, 0, 7, 2))


def test_printed_arithmetic_comes_to_the_result(walk):
    checked, operations = 0, set()
    for stop in walk.stops:
        for shown in stop.shown:
            text = captions.entry_text(shown)
            if (" = " in text or " ≈ " in text) and "∞" not in text:
                assert check(text, False) == [], text
                operations.add(shown.arithmetic.operation)
                checked += 1
    assert checked > 30 and {"linear", "einsum", "softmax", "mul", "add", "mean", "rsqrt", "silu"} <= operations


def test_the_terms_that_are_written_out_are_the_largest(walk):
    """The three products are read back from the text, and their indices from what it says about them."""
    checked = set()
    for stop in walk.stops:
        for shown in stop.shown:
            how = shown.arithmetic
            if how is None or len(how.terms) <= 3:
                continue
            text, products = captions.entry_text(shown), np.asarray(how.products)
            name, *indices = re.search(
                r"the largest terms are (?:those of )?(.*?)(\d+), (\d+) and (\d+), and", text
            ).groups()
            at = [int(i) - captions.summed_over(shown)[1] for i in indices]
            assert at == sorted(at) and np.abs(products[at]).min() >= np.abs(np.delete(products, at)).max()
            for written, i in zip(text.strip("(").split(" + "), at, strict=False):
                factors = [float(f.strip("()").replace("−", "-").replace("·10⁻⁶", "e-6")) for f in written.split(" · ")]
                assert factors == pytest.approx(how.terms[i], rel=1e-2, abs=1e-4)
            checked.add((how.operation, name.strip()))
    assert {("einsum", "dimensions"), ("einsum", "keys"), ("linear", "dimensions"), ("mean", "dimensions")} <= checked


def test_the_key_with_most_of_the_weight_is_written_out(walk):
    (output,) = [s for stop in walk.stops for s in stop.shown if s.name == "output" and s.arithmetic is not None]
    weights = next(s.picture for s in output.sources if s.picture.axes[-1] == "S")
    key = int(weights.numbers[weights.at[0] - weights.first[0]].argmax())
    largest = max(output.arithmetic.products, key=abs)
    assert output.arithmetic.products[key] != largest or re.search(rf"keys .*\b{key}\b", captions.entry_text(output))
    assert re.search(rf"keys .*\b{output.arithmetic.products.index(largest)}\b", captions.entry_text(output))


def test_few_terms_are_all_written_out():
    how = Arithmetic("linear", 8.0, 8.0, "x·w", ((1.0, 6.0), (1.0, 1.0), (1.0, 1.0)))
    assert captions.arithmetic_text(how) == "1 · 6 + 1 · 1 + 1 · 1 = 8"
    four = Arithmetic("linear", 7.5, 7.5, "x·w", ((1.0, 1.0), (1.0, 6.0), (1.0, 2.0), (1.0, -1.5)))
    equation, terms = captions.arithmetic_text(four, ("key", 5)).split(";")
    assert equation == "1 · 6 + 1 · 2 + 1 · (−1.5000) + 1 = 7.5000"
    assert numbers_where("keys #, # and #.* #$", terms) == [6, 7, 8, 1]  # the largest, and what the others come to


def test_a_line_that_calls_names_the_functions(walk):
    (block,) = [stop for stop in walk.stops if "self.ffn(" in source(walk, stop)]
    assert {"RMSNorm.forward", "SwiGLU.forward", "add"} <= {*re.findall(r"[\w.]+\b", captions.does_text(block))}
    (logits,) = [stop for stop in walk.stops if "self.logits(x)" in source(walk, stop)]
    assert "Transformer.logits" in captions.does_text(logits)
    assert all(stop.called or stop.operations or stop.line.skipped for stop in walk.stops[1:])


def source(walk, stop) -> str:
    call = walk.run.calls[stop.line.call]
    return call.source.splitlines()[stop.line.number - call.first]


def test_an_entry_of_a_mask_is_true_or_false(walk):
    texts = [captions.entry_text(s) for stop in walk.stops for s in stop.shown if s.picture.numbers.dtype == bool]
    assert {"ones: true", "tril: true", "any: true", "~: false", "|: true"} <= set(texts)


def test_a_line_that_only_calls_prints_the_value_of_the_entry(walk):
    assert captions.entry_text(walk.stops[0].shown[0]) == str(IDS[7])
    only_called = [s for stop in walk.stops if stop.called and not stop.operations for s in stop.shown]
    assert only_called
    for shown in only_called:
        assert captions.entry_text(shown) == captions.number(float(shown.picture.value.entries[shown.picture.index]))


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
    assert {90, 5} <= {*numbers_in(captions.bars_text(how))}  # percent, terms


def test_alt_texts_name_the_entry(walk):
    labels = [f"t{i}" for i in range(len(IDS))]
    for stop in walk.stops:
        for shown in stop.shown:
            text, entry = captions.alt_text(shown, labels), shown.picture.value.entries[shown.picture.index]
            truth = shown.picture.numbers.dtype == bool
            written = ("true" if entry else "false") if truth else captions.number(float(entry))
            assert (
                text.endswith(f"{written}.") and ". : " not in text and not re.search(r"from (\S+) to \1\.(?!\d)", text)
            )
