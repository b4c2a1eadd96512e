"""Where a learned sink takes a share of the weight, captions, equations, statistics and rollout say what they do."""

import numpy as np
import pytest
import torch

from attnviz.analysis.heads import statistics
from attnviz.analysis.rollout import rollout
from attnviz.config import ModelConfig
from attnviz.figures.head_captions import map_caption, path_caption, weight_equation
from attnviz.figures.head_detail import weight_by_steps
from attnviz.figures.rollout import rollout_map
from attnviz.mechanisms import Dense, Grouped, Layer
from attnviz.modules import Transformer
from attnviz.trace import trace
from tests.reading import numbers_where

H, K, D, T = 6, 3, 8, 11
SUNK = Grouped(H, n_kv_heads=K, head_dim=D, sink_logits=True)
READER = Grouped(H, n_kv_heads=K, head_dim=D, reads_cache=True)
MODEL = ModelConfig(
    2, 18, H, K, D, 23, 31,
    mixed_layers=(Layer((SUNK, Dense(23)), rope_theta=53.0),
                  Layer((READER, Dense(23)), rope_theta=53.0, shares_cache_of=0)),
)  # fmt: skip
LABELS = [f"t{i}" for i in range(T)]


@pytest.fixture(scope="module")
def traced():
    model = Transformer.random(MODEL, 3)
    with torch.no_grad():
        model.blocks[0].attn.sinks.copy_(torch.arange(H) * 0.7 - 1)
    return trace(model, list(range(3, 3 + T)))


@pytest.mark.parametrize("query, key", [(T - 1, 4), (3, 0), (0, 0)])
def test_a_weight_is_computed_with_the_sink_in_its_denominator(traced, query, key):
    one, head = traced.layers[0], 4
    row, logit = one.scores_of(head)[query, : query + 1].astype(np.float64), 4 * 0.7 - 1
    by_hand = np.exp(row[key]) / (np.exp(row).sum() + np.exp(logit))
    equation = weight_equation(
        one.scores_of(head)[query], one.weights[head, query], one.allowed[query], query, key, one.sink_logit_of(head)
    )
    assert equation.right.value == pytest.approx(by_hand, abs=2e-4) and one.sink_logit_of(head) == pytest.approx(logit)
    caption = path_caption(traced, LABELS, 0, head, query, key)
    total = float(one.weights[head, query].sum())
    assert numbers_where("the weights sum to #, and # goes to no token", caption.note) == pytest.approx(
        [total, 1 - total], abs=1e-4
    )
    assert "and the sink logit, 1.8000" in caption.legend
    assert f"weight {by_hand:.4f}" in weight_by_steps(traced, LABELS, 0, head, query, key).title


def test_a_maps_caption_says_what_its_rows_sum_to_and_whose_keys_are_read(traced):
    for head in (0, 5):
        share = float(traced.layers[0].own["sink"][head].mean())
        note = map_caption(traced, LABELS, 0, head).note
        assert numbers_where("sum to #% on average: the rest, #%", note) == [
            round(100 * (1 - share)),
            round(100 * share),
        ]
    assert "learned sink logit" in map_caption(traced, LABELS, 0, 0).legend
    reader = map_caption(traced, LABELS, 1, 0)
    assert reader.title.endswith(", in the cache of layer 0") and "The weights of each row sum to 1." in reader.note
    assert (SUNK.summing, READER.summing) == ("sum to 1 with the share of the head's learned sink", "sum to 1")


def test_entropy_and_distance_are_those_of_the_weights_over_their_sum(traced):
    one = traced.layers[0]
    keys = one.weights / one.weights.sum(-1, keepdims=True)
    found, expected = (statistics([w], [one.allowed]) for w in (one.weights, keys))
    np.testing.assert_allclose(found.entropy, expected.entropy, atol=1e-5)
    np.testing.assert_allclose(found.distance, expected.distance, atol=1e-4)
    np.testing.assert_allclose(found.first_token[0], one.weights[:, 1:, 0].mean(-1), atol=1e-6)  # of all the weight
    nothing = statistics([np.zeros_like(one.weights)], [one.allowed])
    assert not nothing.entropy.any() and not nothing.distance.any()


def test_rollout_scales_rows_to_one_and_says_so(traced):
    shares = rollout(one.weights for one in traced.layers)
    np.testing.assert_allclose(shares.sum(-1), 1)
    mean = traced.layers[0].weights.mean(0)  # (T, T)
    row = (mean[7] + np.eye(T)[7]) / 2
    np.testing.assert_allclose(shares[0, 7], row / row.sum(), atol=1e-6)
    drawn = rollout_map(shares, np.ones((2, T, T), bool), LABELS, 1, 3, [SUNK.rollout_note])
    assert drawn.more.endswith("which is then larger than α.") and READER.rollout_note == ""
