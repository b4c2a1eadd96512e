"""Statistics of attention maps, against rows summed by hand."""

import numpy as np
import pytest

from attnviz.analysis.heads import statistics


def test_statistics_by_hand():
    weights = np.zeros((1, 2, 3, 3), np.float32)
    weights[0, 0] = [[1, 0, 0], [0.5, 0.5, 0], [0.25, 0.25, 0.5]]
    weights[0, 1] = np.eye(3)
    s = statistics(weights, np.tri(3, dtype=bool)[None])
    assert s.entropy[0] == pytest.approx([(1 + 1.5 / np.log2(3)) / 2, 0])  # query 0 has no choice: it is left out
    assert s.distance[0] == pytest.approx([(0.5 + 0.75) / 2, 0])
    assert s.first_token[0] == pytest.approx([0.375, 0])


def test_a_head_without_a_choice_has_no_statistics():
    found = statistics(np.ones((1, 1, 1, 1), np.float32), np.ones((1, 1, 1), bool))
    assert all(np.isnan(values).all() for values in (found.entropy, found.distance, found.first_token))


def test_behind_padding_the_first_token_is_the_first_of_the_text():
    allowed = np.tri(5, dtype=bool) & (np.arange(5) >= 2)
    weights = np.zeros((1, 1, 5, 5), np.float32)
    weights[0, 0, 2:, 2] = 1
    assert statistics(weights, allowed[None]).first_token[0, 0] == 1


@pytest.mark.parametrize("window", [2, 3, 5, 11])
def test_uniform_weights_have_a_normalised_entropy_of_one_under_any_window(window):
    allowed = np.tri(11, dtype=bool) & ~np.tri(11, k=-window, dtype=bool)
    weights = (allowed / allowed.sum(-1, keepdims=True)).astype(np.float32)
    assert statistics(weights[None, None], allowed[None]).entropy[0, 0] == pytest.approx(1, abs=1e-6)
