"""What the record on float16 counts, computed independently with numpy's float16."""

import re
from functools import cache

import numpy as np
import pytest

from attnviz.checkpoints import load_checkpoint
from attnviz.mistakes import Symptom, load_mistake
from attnviz.modules import Transformer
from attnviz.session.examples import EXAMPLES
from attnviz.session.shared import DEFAULT_TEXT
from attnviz.text import tokenizer
from attnviz.trace import trace

NAME = "scores_overflow_in_fp16"
TEXTS = [DEFAULT_TEXT, *list(EXAMPLES.values())[:3], "床前明月光，疑是地上霜。"]
SENTENCE = re.compile(
    r"would have to be ([\d,.]+) times larger for the first product to overflow on this text. With q·k ([\d,.]+) times "
    r"larger, ([\d,]+) of ([\d,]+) products are stored as ±∞ and ([\d,]+) rows? of ([\d,]+) are NaN; with q scaled "
    r"first, ([\d,]+) and ([\d,]+)\."
)


@cache
def model_of(name: str) -> Transformer:
    return load_checkpoint(name)[0]


def numbers(found: Symptom) -> list[float]:
    said = SENTENCE.search(found.sentence)
    assert said, found.sentence
    return [float(each.replace(",", "")) for each in said.groups()]


def stored(q: np.ndarray, k: np.ndarray) -> np.ndarray:
    """Multiply q (H, T, D) by k (H, S, D) in float32 and store the products in float16, as a half kernel does."""
    with np.errstate(over="ignore"):
        return (q.astype(np.float32) @ k.astype(np.float32).transpose(0, 2, 1)).astype(np.float16)


@pytest.mark.slow
@pytest.mark.parametrize("model", ["mha", "gqa-4", "gqa-2", "mqa", "mla"])
@pytest.mark.parametrize("text", range(len(TEXTS)))
def test_its_counts_are_those_of_numpys_float16(text, model):
    ids = tokenizer().encode(TEXTS[text])[:64]
    found = load_mistake(NAME).symptom(model_of(model), ids)
    first, growth, n_infinite, n, n_nan, n_rows, n_scaled, n_nan_scaled = numbers(found)
    it = trace(model_of(model), ids)
    layer = it.layers[0]
    q, allowed, scale = layer.q, layer.allowed, layer.scale
    k = np.repeat(layer.k, len(q) // len(layer.k), 0)
    assert n == q.shape[0] * len(ids) ** 2 and n_rows == q.shape[0] * len(ids)

    # the first product to overflow: none is infinite a little below that factor, and one is a little above
    infinite = [np.isinf(stored(q * np.sqrt(first * x), k * np.sqrt(first * x))).sum() for x in (0.99, 1.01)]
    assert infinite[0] == 0 and infinite[1] >= 1

    # in the enlarged run
    q16, k16 = (q * np.sqrt(growth)).astype(np.float16), (k * np.sqrt(growth)).astype(np.float16)
    after, before = stored(q16, k16), stored(q16 * np.float16(scale), k16)
    assert np.isinf(after).sum() == pytest.approx(n_infinite, abs=max(2, 0.02 * n_infinite)) and n_infinite > 0
    assert np.isinf(before).sum() == pytest.approx(n_scaled, abs=max(2, 0.02 * n_scaled))
    for scores, rows in ((after, n_nan), (before, n_nan_scaled)):
        assert nan_rows(scores.astype(np.float32), allowed) == pytest.approx(rows, abs=max(1, 0.02 * rows))
    assert found.number == n_nan > 0 and found.expected == n_nan_scaled == 0


def nan_rows(scores: np.ndarray, allowed: np.ndarray) -> int:
    """Count the rows of which softmax is NaN: with +∞, also a masked one since ∞ − ∞ is NaN, or with −∞ alone."""
    plus = np.isposinf(scores).any(-1)
    return int((plus | np.isneginf(np.where(allowed, scores, -np.inf)).all(-1)).sum())
