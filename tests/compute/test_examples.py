"""Each example's sentence agrees with the trace, recomputed here."""

import re

import numpy as np
import pytest

from attnviz.compute import examples
from attnviz.compute.view import View
from attnviz.session.examples import EXAMPLES, LOOK_FOR
from attnviz.session.settings import Settings

MODELS = ("mha", "mla", "own")


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", EXAMPLES)
def test_the_sentence_says_the_weight_of_the_cell_that_the_example_selects(model, name):
    settings = Settings(model=model)
    view = View(settings, padded=True).but(**examples.chosen(settings, name))
    found = examples.found_in(view)
    assert (*view.layer_and_head, view.query, view.key) == (found.layer, found.head, found.query, found.key)
    weight = view.trace.weights[found.layer, found.head, found.query, found.key]
    said = examples.sentence(view, found)
    assert f"{weight:.4f} of its weight" in said and re.findall(r"layer (\d+), head (\d+)", said) == [
        (str(found.layer), str(found.head))
    ]


@pytest.mark.parametrize("model", MODELS)
def test_no_other_head_has_a_larger_induction_score(model):
    """Computed by hand: mean weight on the key after the earlier occurrence, over queries that have one."""
    view = View(Settings(model=model), padded=True)
    assert LOOK_FOR["a repeated phrase"] == "induction"
    ids, weights = view.ids, view.trace.weights
    scores = np.zeros(weights.shape[:2])
    asking = [q for q in range(len(ids)) if ids[q] in ids[:q]]
    for q in asking:
        scores += weights[:, :, q, [k + 1 for k in range(q) if ids[k] == ids[q]]].sum(-1)
    found = examples.found_in(view)
    assert (found.layer, found.head) == np.unravel_index(scores.argmax(), scores.shape)
    assert found.share.weight == pytest.approx(scores.max() / len(asking), rel=1e-5)


def test_brackets_are_paired_with_their_own():
    view = View(Settings(text=EXAMPLES["brackets"]), padded=True)
    found = examples.found_in(view)
    pairs = {(14, 8), (16, 2), (25, 20)}
    assert (found.query, found.key) in pairs
    assert found.weight == max(view.trace.weights[:, :, q, k].max() for q, k in pairs)


def test_no_sentence_where_there_is_nothing_to_look_at():
    assert examples.found_in(View(Settings(text="Something else."))) is None
    assert examples.found_in(View(Settings(window=1))) is None  # no token sees an earlier one
    assert examples.chosen(Settings(window=1), "a repeated phrase") == {"text": EXAMPLES["a repeated phrase"]}
