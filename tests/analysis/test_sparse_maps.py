"""What an indexer keeps, against a case solved by hand and the mask that runs."""

import numpy as np
import pytest
import torch

from attnviz.analysis.sparse import errors_by_k, ranks, softmax
from attnviz.modules.sparse import top_k_mask

CAUSAL = np.tri(11, dtype=bool)


def test_ranks_keep_what_the_mask_of_the_module_keeps():
    scores = np.random.default_rng(3).integers(0, 5, (11, 11)).astype(np.float32)  # with equal scores
    for k in (1, 4, 11):
        mask = top_k_mask(torch.tensor(scores)[None], k, torch.tensor(CAUSAL))[0, 0].numpy()
        assert ((ranks(scores, CAUSAL) < k) == mask).all()


def test_the_error_by_hand():
    """Weights ¼ and ¾ on values 4 and 8, output 7; the index prefers the first key: with it alone 4, 3/7 off."""
    dense, v = np.array([[1, 0], [0.25, 0.75]]), np.array([[4.0], [8.0]])
    rank = ranks(np.array([[0.0, 0], [2, 1]]), CAUSAL[:2, :2])
    assert errors_by_k(dense, rank, v) == pytest.approx([(0 + 3 / 7) / 2, 0])


def test_errors_are_those_of_a_softmax_over_the_kept_keys():
    random = np.random.default_rng(5)
    scores, index, v = random.normal(size=(11, 11)), random.normal(size=(11, 11)), random.normal(size=(11, 7))
    dense, rank = softmax(scores, CAUSAL), ranks(index, CAUSAL)
    for k in (1, 3, 10):
        outputs, whole = softmax(scores, rank < k) @ v, dense @ v
        off = np.linalg.norm(outputs - whole, axis=1) / np.linalg.norm(whole, axis=1)
        assert errors_by_k(dense, rank, v)[k - 1] == pytest.approx(off.mean())


def test_a_row_without_keys_has_no_weight():
    assert softmax(np.zeros((1, 3)), np.zeros((1, 3), bool)).tolist() == [[0, 0, 0]]
