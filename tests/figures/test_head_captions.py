"""pytest tests/test_head_words.py: what is said of a head is what its numbers say.

What the charts say with the same words is tested in tests/test_figures_heads.py.
"""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from attnviz.config import ModelConfig
from attnviz.figures import heads
from attnviz.figures.drawing import quoted
from attnviz.figures.head_captions import largest_but_first, map_words, path_words, shortened

LABELS = ["·the", "·cat", "·sat", "·on", "·it"]
LATENT = {"attention": "mla", "kv_lora_rank": 13, "qk_nope_head_dim": 7, "qk_rope_head_dim": 4, "v_head_dim": 5}


def traced(scores, allowed=None, config=None):
    """One layer of these scores (H, n, n), and their softmax over what is allowed."""
    scores = np.asarray(scores, np.float32)
    n_heads, n = scores.shape[:2]
    allowed = np.tri(n, dtype=bool) if allowed is None else allowed
    exp = np.where(allowed, np.exp(scores.astype(np.float64)), 0.0)
    return SimpleNamespace(
        config=config or ModelConfig(1, 10 * n_heads, n_heads, 1, head_dim=10),
        scores_of=lambda layer, head: scores[head],
        weights=(exp / exp.sum(-1, keepdims=True).clip(1e-30)).astype(np.float32)[None],
        allowed=allowed[None],
    )


def even(n_heads=2, n=5):
    """Every key that a query may look at weighs the same."""
    return traced(np.zeros((n_heads, n, n)))


def test_what_a_head_reads():
    assert map_words(even(), LABELS, 0, 1).title == "Layer 0, head 1 reads KV head 0, as head 0 does"
    latent = traced(np.zeros((5, 5, 5)), config=ModelConfig(1, 30, 5, d_ff=17, vocab_size=101, **LATENT))
    assert map_words(latent, LABELS, 0, 3).title == (
        "Layer 0, head 3 reads keys of its own, expanded from the latent that all heads share"
    )


def test_a_note_for_every_way_to_shade():
    trace = even()
    plain = "Row = query, column = key, and each row sums to 1. Grey is not allowed."
    log = "Colour is the logarithm: all below {} looks like nothing."
    first = np.mean([1, 1 / 2, 1 / 3, 1 / 4, 1 / 5])  # the first key's share, query by query
    aside = (
        f"The first token is set aside in grey: it takes {first:.0%} of the weight, and that a sink takes much is "
        "normal. Colour ends at 0.5, the largest of the rest."
    )
    assert map_words(trace, LABELS, 0, 0).note == plain
    assert map_words(trace, LABELS, 0, 0, log=True).note == f"{plain} {log.format('0.0001')}"
    assert map_words(trace, LABELS, 0, 0, first_aside=True).note == f"{plain} {aside}"
    assert map_words(trace, LABELS, 0, 0, log=True, first_aside=True).note == f"{plain} {log.format('5e-05')} {aside}"


@pytest.mark.parametrize(
    ("weights", "top"), [([[1.0]], 1e-6), ([[1, 0], [0.75, 0.25]], 0.25), ([[1, 0], [1, 0]], 1e-6)]
)
def test_the_colours_end_at_the_largest_weight_behind_the_first_key(weights, top):
    assert largest_but_first(np.array(weights)) == top


def test_the_picture_of_one_token_has_words():
    alt = map_words(even(n=1), ["·a"], 0, 0).alt
    assert alt.endswith("1 query row of attention weights. The only token attends to itself.")


def test_a_row_of_which_the_mask_keeps_two():
    scores = np.full((2, 5, 5), -7.0)
    scores[1, 3, 2:4] = -1.5, -1.5 - np.log(4)  # weights 4/5 and 1/5
    back = np.arange(5)[:, None] - np.arange(5)
    words = path_words(traced(scores, (back >= 0) & (back < 2)), LABELS, 0, 1, 3)
    assert words.title == "From score to weight: query 3 “·on”"
    assert words.note.startswith("q·k / √10, then the mask, then the softmax: 2 numbers that add up to 1.000.")
    assert "5 scores from -7.00 to -1.50, the 2 that the mask keeps" in words.alt
    assert words.alt.endswith("the largest, 0.80, is on key 2 “·sat”.")
    assert words.formula == r"a_{2} = \frac{1}{\sum_j e^{s_j - (-1.50)}} = \frac{1}{1.250} = 0.800"
    assert words.line == "a₂ = 1 / Σⱼ exp(sⱼ − (-1.50)) = 1 / 1.250 = 0.800"


def test_the_formula_as_plain_text_has_the_same_numbers():
    scores = np.zeros((2, 5, 5))
    scores[1, 4, 3] = -np.log(4)
    trace = traced(scores)
    assert map_words(trace, LABELS, 0, 1).line == "A = softmax(Q₁ K₀ᵀ / √10 + M), 5 × 5 numbers"
    assert path_words(trace, LABELS, 0, 1, 4).line == "a₀ = 1 / Σⱼ exp(sⱼ − 0.00) = 1 / 4.250 = 0.235"


def test_one_number_is_no_numbers():
    assert ": 1 number that adds up to 1.000." in path_words(even(), LABELS, 0, 0, 0).note


def test_a_row_that_may_attend_to_nothing_has_no_formula():
    allowed = np.tri(5, dtype=bool)
    allowed[2] = False
    words = path_words(traced(np.zeros((2, 5, 5)), allowed), LABELS, 0, 0, 2)
    assert (words.formula, words.line) == ("", "") and "0 numbers that add up to 0.000" in words.note


def test_a_name_can_be_made_safe_for_where_it_goes():
    own = ["[a](b) **c** " * 9, *LABELS[1:]]
    plain = path_words(even(), own, 0, 0, 0).title
    assert plain == f"From score to weight: query 0 “{own[0][:39]}…”"
    assert path_words(even(), own, 0, 0, 0, quoted).title == (
        f"From score to weight: query 0 {quoted(own[0][:39] + '…')}"
    )


@pytest.mark.parametrize(
    ("label", "shown"), [("", ""), ("abcde", "abcde"), ("abcdef", "abcd…"), ("好" * 6, "好好好好…")]
)
def test_a_long_label_ends_in_dots(label, shown):
    assert shortened(label, 5) == shown


@pytest.mark.parametrize("how", [{}, {"log": True}, {"first_aside": True}])
def test_the_charts_say_the_same(how):
    trace = traced(np.random.default_rng(0).normal(size=(2, 5, 5)))
    for drawing, words in (
        (heads.head_map(trace, LABELS, 0, 1, **how), map_words(trace, LABELS, 0, 1, **how)),
        (heads.score_path(trace, LABELS, 0, 1, 3), path_words(trace, LABELS, 0, 1, 3, quoted)),
    ):
        assert (drawing.title, drawing.note, drawing.alt, drawing.formula) == (
            words.title, words.note, words.alt, words.formula
        )  # fmt: skip


def test_the_words_come_without_plotly():
    """The heads page says them before anybody has asked for a chart."""
    code = "import sys, attnviz.figures.head_captions; print('plotly' in sys.modules, 'torch' in sys.modules)"
    root = Path(__file__).parents[2]
    said = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert said.stdout.split() == ["False", "False"]
