"""The captions of a head agree with its numbers.

The charts' captions are tested in tests/figures/test_head_figures.py.
"""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from attnviz.config import ModelConfig
from attnviz.figures import heads
from attnviz.figures.drawing import quoted
from attnviz.figures.head_captions import (
    decades,
    largest_but_first,
    map_caption,
    path_caption,
    shortened,
    weight_equation,
)
from tests.arithmetic import results
from tests.reading import numbers_in, numbers_where
from tests.traces import scored

LABELS = ["·the", "·cat", "·sat", "·on", "·it"]
LATENT = {"attention": "mla", "kv_lora_rank": 13, "qk_nope_head_dim": 7, "qk_rope_head_dim": 4, "v_head_dim": 5}


def traced(scores, allowed=None, config=None):
    """Return a trace of one layer with these scores (H, n, n), and their softmax over the allowed keys."""
    scores = np.asarray(scores, np.float32)
    n_heads, n = scores.shape[:2]
    allowed = np.tri(n, dtype=bool) if allowed is None else allowed
    return scored(config or ModelConfig(1, 10 * n_heads, n_heads, 1, head_dim=10), scores[None], allowed)


def even(n_heads=2, n=5):
    """Return a trace in which all keys that a query may attend to have the same weight."""
    return traced(np.zeros((n_heads, n, n)))


def test_what_a_head_reads():
    assert numbers_where("Layer #, head # reads KV head #, as head #", map_caption(even(), LABELS, 0, 1).title) == [
        0, 1, 0, 0
    ]  # fmt: skip
    latent = traced(np.zeros((5, 5, 5)), config=ModelConfig(1, 30, 5, d_ff=17, vocab_size=101, **LATENT))
    title = map_caption(latent, LABELS, 0, 3).title
    assert numbers_in(title) == [0, 3] and "latent" in title and "KV head" not in title


def test_a_note_has_the_numbers_of_its_colours():
    trace = even()
    first = np.sum([1, 1 / 2, 1 / 3, 1 / 4, 1 / 5]) / 5  # the first key's share of all weight
    assert 1 in numbers_in(map_caption(trace, LABELS, 0, 0).note)  # the sum of a row
    assert "scale" not in map_caption(trace, LABELS, 0, 0, scale="linear").note
    assert 0.0001 in numbers_in(map_caption(trace, LABELS, 0, 0, scale="log").note)
    excluded = numbers_in(map_caption(trace, LABELS, 0, 0, exclude_first=True).note)
    assert {round(100 * first), 0.5} <= {*excluded}  # and the largest other weight
    assert {100, 0.001} <= {*numbers_in(map_caption(even(n=1), ["·a"], 0, 0, exclude_first=True).note)}


def test_rows_without_weights_are_counted():
    allowed = np.tri(5, dtype=bool)
    allowed[:2] = False
    trace = traced(np.zeros((2, 5, 5)), allowed)
    assert numbers_where("# rows", map_caption(trace, LABELS, 0, 0).note) == [2]
    np.testing.assert_allclose(trace.weights[0, 0].sum(-1), [0, 0, 1, 1, 1], atol=1e-6)


@pytest.mark.parametrize(
    ("weights", "top"), [([[1.0]], 1e-3), ([[1, 0], [0.75, 0.25]], 0.25), ([[1, 0], [1, 0]], 1e-3)]
)
def test_the_colours_end_at_the_largest_weight_behind_the_first_key(weights, top):
    assert largest_but_first(np.array(weights)) == top


@pytest.mark.parametrize(("top", "covered"), [(1.0, 4), (0.1, 3), (0.001, 1)])
def test_the_logarithmic_scale_ends_at_the_last_decimal_printed(top, covered):
    assert decades(top) == pytest.approx(covered)


def test_the_picture_of_one_token_has_words():
    alt = map_caption(even(n=1), ["·a"], 0, 0).alt
    assert numbers_where("# query row", alt) == [1] and "attends to itself" in alt


def test_a_row_of_which_the_mask_keeps_two():
    scores = np.full((2, 5, 5), -7.0)
    scores[1, 3, 2:4] = -1.5, -1.5 - np.log(4)  # weights 4/5 and 1/5
    back = np.arange(5)[:, None] - np.arange(5)
    trace = traced(scores, (back >= 0) & (back < 2))
    caption = path_caption(trace, LABELS, 0, 1, 3, 2)
    assert numbers_in(caption.title) == [3, 2, 0.8] and "“·on”" in caption.title and "“·sat”" in caption.title
    assert "√10" in caption.note and numbers_where("over # keys", caption.note) == [2]
    assert numbers_where("# scores from # to #, those of the # unmasked", caption.alt) == [5, -7, -1.5, 2]
    assert numbers_where("the largest, #, is on key # “·sat”", caption.alt) == [0.8, 2]
    assert results(caption.formula) == [pytest.approx(0.8, abs=5.1e-5)]
    other = path_caption(trace, LABELS, 0, 1, 3, 3)
    assert numbers_where("is on key # “·sat”; key # “·on”: #", other.alt) == [2, 3, 0.2]
    assert numbers_where("; key # “·the”: masked", path_caption(trace, LABELS, 0, 1, 3, 0).alt) == [0]
    assert results(other.line) == [pytest.approx(0.2, abs=5.1e-5)] and "exp(−2.8863 − (−1.5000)) / 1.2500" in other.line
    assert numbers_where(r"a\(3, 3\) = #: .*s\(3, 3\) = #: ", other.legend) == [0.2, -2.8863]
    assert numbers_where("m = #: ", other.legend) == [-1.5] and numbers_where("# unmasked", other.legend) == [2]


@pytest.mark.parametrize("key", range(5))
def test_the_equation_is_about_the_selected_key(key):
    """Computed by hand for the selected key, whether it has the largest weight or not."""
    scores = np.random.default_rng(1).normal(scale=2, size=(2, 5, 5))
    trace = traced(scores)
    equation = weight_equation(scores[1, 4], trace.weights[0, 1, 4], trace.allowed[0, 4], 4, key)
    by_hand = np.exp(scores[1, 4, key]) / np.exp(scores[1, 4]).sum()
    assert equation.text().startswith(f"a(4, {key}) = ") and equation.text().endswith(f" = {by_hand:.4f}")
    assert equation.right.value == pytest.approx(by_hand, abs=2e-4)


def test_an_equation_that_does_not_come_to_what_the_model_computed_is_refused():
    scores, weights = np.array([1.0, 0.0]), np.array([0.5, 0.5])
    with pytest.raises(ValueError, match="0.7"):
        weight_equation(scores, weights, np.ones(2, bool), 1, 0)


def test_the_formula_of_the_map_has_its_letters():
    caption = map_caption(even(), LABELS, 0, 1)
    assert caption.line == "A = softmax(Q₁ K₀ᵀ / √D + M)" and numbers_where("D = #: head_dim", caption.legend) == [10]
    assert numbers_where("# × #", caption.legend) == [5, 5]
    latent = traced(np.zeros((5, 5, 5)), config=ModelConfig(1, 30, 5, d_ff=17, vocab_size=101, **LATENT))
    assert "K₃: expanded keys of head 3" in map_caption(latent, LABELS, 0, 3).legend


def test_a_key_that_is_masked_has_no_equation():
    caption = path_caption(even(), LABELS, 0, 0, 2, 4)
    assert (caption.formula, caption.line) == ("", "") and caption.title.endswith("key 4 “·it”: masked")


def test_a_row_that_is_masked_as_a_whole_has_no_formula():
    allowed = np.tri(5, dtype=bool)
    allowed[2] = False
    caption = path_caption(traced(np.zeros((2, 5, 5)), allowed), LABELS, 0, 0, 2, 0)
    assert (caption.formula, caption.line) == ("", "") and "Every key is masked" in caption.note
    assert caption.alt.endswith("none.")


def test_a_name_can_be_made_safe_for_where_it_goes():
    own = ["[a](b) **c** " * 9, *LABELS[1:]]
    plain = path_caption(even(), own, 0, 0, 0, 0).title
    assert plain == f"From score to weight: query 0 “{own[0][:39]}…”, key 0 “{own[0][:39]}…”: 1.0000"
    assert f"query 0 {quoted(own[0][:39] + '…')}, key 0" in path_caption(even(), own, 0, 0, 0, 0, quoted).title


@pytest.mark.parametrize(
    ("label", "shown"), [("", ""), ("abcde", "abcde"), ("abcdef", "abcd…"), ("好" * 6, "好好好好…")]
)
def test_a_long_label_ends_in_dots(label, shown):
    assert shortened(label, 5) == shown


@pytest.mark.parametrize("how", [{}, {"scale": "linear"}, {"scale": "log"}, {"exclude_first": True}])
def test_the_chart_says_the_same(how):
    trace = traced(np.random.default_rng(0).normal(size=(2, 5, 5)))
    drawing, caption = heads.head_map(trace, LABELS, 0, 1, **how), map_caption(trace, LABELS, 0, 1, **how)
    assert drawing.note.startswith(caption.note)
    assert (drawing.title, drawing.alt, drawing.formula) == (caption.title, caption.alt, caption.formula)


def test_the_words_and_the_theme_come_without_plotly():
    """The heads page shows captions before any chart is opened."""
    code = "import sys, attnviz.figures.head_captions, attnviz.figures.theme; "
    code += "print('plotly' in sys.modules, 'torch' in sys.modules)"
    root = Path(__file__).parents[2]
    said = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert said.stdout.split() == ["False", "False"]
