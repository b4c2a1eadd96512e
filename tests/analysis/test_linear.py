"""The state of a linear head against states solved by hand, and against the rule that runs."""

import numpy as np
import pytest
import torch

from attnviz.analysis.linear import Written, implied_difference, most_repeated, reach, recall_errors
from attnviz.modules.delta import effective_weights, gated_delta_rule, l2_normalised

E = np.eye(2, dtype=np.float32)
ONE_KEY_TWICE = Written(E[[0, 1, 0]], np.array([[2.0], [3], [10]], np.float32), np.ones(3), np.ones(3))


def test_a_repeated_key_is_overwritten_and_a_sum_adds_up():
    """Keys e₀, e₁, e₀ with values 2, 3, 10: the delta rule holds 10 and 3, the sum 2 + 10 and 3."""
    assert ONE_KEY_TWICE.state(2).tolist() == [[10], [3]]
    assert ONE_KEY_TWICE.plain_state(2).tolist() == [[12], [3]]
    assert ONE_KEY_TWICE.writes.tolist() == [[2], [3], [8]]  # the difference from what was held
    assert recall_errors(ONE_KEY_TWICE.state(2), ONE_KEY_TWICE.k, ONE_KEY_TWICE.v).tolist() == [4, 0, 0]
    assert recall_errors(ONE_KEY_TWICE.plain_state(2), ONE_KEY_TWICE.k, ONE_KEY_TWICE.v) == pytest.approx([5, 0, 0.2])
    assert ONE_KEY_TWICE.largest == 10
    assert ONE_KEY_TWICE.norms().tolist() == [
        [2, 0, 2],
        [3, 0, pytest.approx(13**0.5)],
        [8, 0, pytest.approx(109**0.5)],
    ]


def test_decay_forgets_and_beta_writes_a_part():
    """Half is forgotten before each write of half the difference: 0 → 4, then 2 → 2 + (8 − 2) / 2 = 5."""
    half = Written(E[[0, 0]], np.array([[8.0], [8]], np.float32), np.full(2, 0.5), np.full(2, 0.5))
    assert [half.state(t)[0, 0] for t in range(2)] == [4, 5]
    assert half.norms().tolist() == [[4, 0, 4], [3, 2, 5]]


@pytest.mark.parametrize("per_channel", [False, True])
def test_the_states_are_those_of_the_rule(per_channel):
    torch.manual_seed(11)
    T, D, V = 13, 5, 7
    k, v, beta = l2_normalised(torch.randn(T, D)), torch.randn(T, V), torch.rand(T)
    decay = torch.rand(T, D) if per_channel else torch.rand(T)
    written = Written(k.numpy(), v.numpy(), decay.numpy(), beta.numpy())
    for t in (0, 4, T - 1):
        part = [each[None, None, : t + 1] for each in (k, k, v, decay, beta)]
        np.testing.assert_allclose(written.state(t), gated_delta_rule(*part)[1][0, 0], atol=1e-5)


def test_the_difference_of_the_implied_map_is_what_was_changed():
    torch.manual_seed(12)
    q, k, v = (l2_normalised(torch.randn(1, 1, 11, 5)) for _ in range(3))
    decay, beta = torch.rand(1, 1, 11), torch.rand(1, 1, 11)
    weights = effective_weights(q, k, decay, beta)[0, 0].numpy()
    output = gated_delta_rule(q, k, v, decay, beta)[0][0, 0].numpy()
    assert implied_difference(weights, v[0, 0].numpy(), output) < 1e-6
    output[3, 2] += 0.25
    assert implied_difference(weights, v[0, 0].numpy(), output) == pytest.approx(0.25, abs=1e-6)


def test_the_repeated_key_is_that_with_another_value():
    """Tokens 0, 1 and 3 have one key; the values of 1 and 3 are opposite, those of 0 and 1 equal."""
    k = np.array([[1.0, 0], [2, 0], [0, 1], [1, 0.01]])
    found = most_repeated(k, np.array([[1.0, 0], [1, 0], [1, 0], [-1, 0]]))
    assert (found.later, found.of_values) == (3, -1) and found.earlier in (0, 1) and found.of_keys > 0.99
    assert most_repeated(k[:1], k[:1]) is None


def test_reach_is_the_share_on_distant_keys():
    weights = np.zeros((2, 7, 7))
    weights[0, 6, [6, 0]] = -1, 3  # of head 0, three quarters are six tokens back
    weights[1, 4, 2] = 5
    assert reach(weights, near=2).tolist() == [0.75, 0]
