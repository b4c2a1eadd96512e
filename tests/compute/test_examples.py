"""Each example's sentence agrees with the trace, recomputed here."""

import re

import numpy as np
import pytest

from attnviz.analysis.roles import NAMED, Share
from attnviz.analysis.search import Found
from attnviz.compute import examples
from attnviz.compute.heads import roles_of
from attnviz.compute.view import View
from attnviz.session.examples import EXAMPLES, LOOK_FOR
from attnviz.session.settings import Settings
from attnviz.session.shared import FIRST_HEAD, NOBODY_CHOSE

MODELS = ("mha", "mla", "own")
TRAINED = ("mha", "gqa-4", "gqa-2", "mqa", "mla")


def picked(name, model="gqa-4", **fields):
    """Return what is shown after this example was picked in the sidebar."""
    return View(Settings(model=model, text=EXAMPLES[name], **NOBODY_CHOSE, **fields), padded=True)


@pytest.mark.parametrize("model", ("gqa-4", "mla"))
@pytest.mark.parametrize("name", EXAMPLES)
def test_the_sentence_says_the_weight_of_the_cell_that_the_example_selects(model, name):
    view = picked(name, model)
    found = examples.found_in(view)
    if (model, name) == ("mla", "brackets"):  # 0.36, less than 0.3 above chance
        assert "No head stands out" in examples.sentence(view, found)
        return
    assert (*view.layer_and_head, view.query, view.key) == (found.layer, found.head, found.query, found.key)
    weight = view.trace.weights[found.layer, found.head, found.query, found.key]
    said = examples.sentence(view, found)
    assert f"{weight:.4f} of its weight" in said and re.findall(r"layer (\d+), head (\d+)", said) == [
        (str(found.layer), str(found.head))
    ]


def test_the_cell_of_an_example_is_not_between_two_bytes_of_one_character():
    """The largest weights of a previous-token head are within the bytes of the family emoji."""
    for name in ("emoji", "中文"):
        view = picked(name)
        found, labels = examples.found_in(view), view.labels
        query, key = labels[found.query], labels[found.key]
        if name == "emoji":  # it has whole words too
            assert query.lstrip("·").isalpha() and key.lstrip("·").isalpha() and found.key == found.query - 1
        else:
            assert query.endswith(" 3/3") and query[0] != key[0]
        row = view.trace.weights[found.layer, found.head, found.query]
        assert row[found.key] == row.max() and found.weight == row[found.key]


def test_a_selected_head_with_the_role_is_named_before_the_one_with_the_largest_score():
    """Layer 1, head 3 is selected by default, and is an induction head; layer 2, head 5 is none."""
    view = View(Settings(), padded=True)
    found, weights = examples.found_in(view), view.trace.weights[1, 3]
    said = examples.sentence(view, found)
    assert said.startswith("**Layer 1, head 3 is an induction head on this text.**")
    assert f"{weights[21, 5]:.4f} of its weight" in said and "Query 21 “·a”" in said.replace("\\", "")
    assert said.endswith(f"layer {found.layer}, head {found.head} has the largest, {found.share.weight:.2f}.")
    padded = View(Settings(padding=6, query=18, key=2), padded=True)  # key 2 is padding, and masked
    assert "gives 0.0000" not in examples.sentence(padded, examples.found_in(padded))
    other = view.but(layer=2, head=5)
    assert examples.sentence(other, found).startswith(f"**Look at layer {found.layer}, head {found.head}**")


@pytest.mark.parametrize("name", EXAMPLES)
def test_no_head_of_an_untrained_model_stands_out(name):
    view = View(Settings(model="own"), padded=True).but(text=EXAMPLES[name])
    found = examples.found_in(view)
    said, share = examples.sentence(view, found), found.share
    assert said.startswith("**No head stands out** on this text: of 32 heads, the largest")
    assert said.endswith(f"{share.weight:.2f} ({share.chance:.2f} by chance).")
    assert picked(name, "own").layer_and_head == FIRST_HEAD


@pytest.mark.parametrize("model", TRAINED)
@pytest.mark.parametrize("name", [name for name, look_for in LOOK_FOR.items() if look_for in NAMED])
def test_the_head_of_an_example_has_this_role_on_random_tokens_too(model, name):
    layer, head = picked(name, model).layer_and_head
    assert roles_of(Settings(model=model))[layer][head].name == LOOK_FOR[name]


def test_another_head_or_query_shows_its_own_strongest_key_after_an_example(monkeypatch):
    about = Found(1, 4, 17, 2, 0.3, Share(0.9, 0.1, 1))  # key 2 is not the strongest
    monkeypatch.setattr(examples, "found_in", lambda view: about)
    view = picked("a pronoun", "mha")
    assert (*view.layer_and_head, view.query, view.key) == (1, 4, 17, 2) and view.strongest_key != 2
    for other in (view.but(layer=2, head=5), view.but(query=17), view.but(query=9)):
        layer, head = other.layer_and_head
        assert other.query in (17, 9) and other.key == view.trace.weights[layer, head, other.query].argmax()


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
    assert picked("a repeated phrase", window=1).layer_and_head == FIRST_HEAD
