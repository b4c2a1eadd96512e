"""The walk through a layer with a state: the recurrence of the source, its loop over tokens folded to one token."""

import numpy as np
import pytest
import torch

from attnviz.figures.step_purposes import purpose_of
from attnviz.modules import Transformer
from attnviz.modules.delta import gated_delta_rule
from attnviz.steps import Selection, Walk, record, with_recurrent
from attnviz.trace import trace
from tests.mixed import DELTA, HYBRID

IDS = [5, 7, 2, 5, 19, 30, 0]
LOOP = 6  # lines of the loop that make a tensor
MODEL = Transformer.random(HYBRID, seed=3)


@pytest.fixture(scope="module")
def run():
    return record(with_recurrent(MODEL, 0), IDS, 0)


def walk_at(run, query: int, head: int = 4) -> Walk:
    return Walk(run, Selection(head, DELTA.kv_head_of[head], query, 0))


def in_the_rule(walk: Walk) -> list:
    return [stop for stop in walk.stops if walk.run.calls[stop.line.call].name == "gated_delta_rule"]


@pytest.mark.parametrize("query", [0, 3, 6])
def test_the_loop_is_shown_for_the_query_alone(run, query):
    walk = walk_at(run, query)
    stops = in_the_rule(walk)
    turns = [stop.line.number for stop in stops]
    assert len(turns) == len(set(turns)) and walk.n_folded == len(IDS)
    assert len(walk.stops) == len(walk_at(run, 1).stops)  # links name a stop by its number
    states = [shown for stop in stops for shown in stop.shown if shown.name == "S"]
    one = trace(MODEL, IDS).layers[0]
    keys = np.stack([one.keys_of(h) for h in range(DELTA.n_heads)])
    given = [torch.tensor(x)[None][:, :, : query + 1] for x in (one.q, keys, one.v, one.own["decay"], one.own["beta"])]
    _, state = gated_delta_rule(*given)
    last = states[-1].picture
    np.testing.assert_allclose(last.value.entries, state, atol=1e-5)
    assert last.axes == ("B", "H", "D", "V") and last.hue == DELTA.kv_head_of[4]
    np.testing.assert_allclose(last.numbers, state[0, 4], atol=1e-5)


def test_each_number_of_the_loop_is_computed_from_what_its_line_read(run):
    stops = in_the_rule(walk_at(run, 4))
    found = [shown.arithmetic for stop in stops for shown in stop.shown if shown.arithmetic and shown.sources]
    assert len(found) > LOOP
    for how in found:
        assert how.computed is not None or how.operation == "new_zeros", how.operation
        assert (how.computed or 0.0) == pytest.approx(how.value, rel=1e-4, abs=1e-5)


def test_each_line_of_the_layer_says_what_it_is_for(run):
    walk = walk_at(run, 2)
    lines = [stop.line for stop in walk.stops if run.calls[stop.line.call].file == "delta.py"]
    missing = [
        run.calls[line.call].source.splitlines()[line.number - run.calls[line.call].first]
        for line in lines
        if not purpose_of(run, line)
    ]
    assert not missing


def test_a_layer_without_a_loop_is_not_folded():
    assert Walk(record(MODEL, IDS, 1), Selection(0, 0, 2, 1)).n_folded == 0
