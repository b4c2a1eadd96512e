"""pytest tests/test_analysis_heads.py: statistics and roles against patterns whose answers are known."""

import numpy as np
import pytest

from attnviz.analysis.heads import LOCAL, probes, role_scores, roles, statistics

PERIOD = 11
T = 2 * PERIOD


def pattern(key_of) -> np.ndarray:
    """(1, 1, T, T): every query puts all its weight on key_of(query), or on itself where that is no key."""
    weights = np.zeros((1, 1, T, T), np.float32)
    for i in range(T):
        j = key_of(i)
        weights[0, 0, i, j if 0 <= j <= i else i] = 1
    return weights


def uniform() -> np.ndarray:
    rows = np.tril(np.ones((T, T), np.float32))
    return (rows / rows.sum(-1, keepdims=True))[None, None]


TEXTBOOK = {
    "previous token": lambda i: i - 1,
    "induction": lambda i: i - PERIOD + 1,
    "duplicate token": lambda i: i - PERIOD,
    "same token": lambda i: i,
    "first token": lambda i: 0,
}


@pytest.mark.parametrize("role", TEXTBOOK)
def test_a_head_that_only_does_this_scores_one_and_is_named_so(role):
    scores = role_scores(pattern(TEXTBOOK[role]), PERIOD)
    assert scores[role][0, 0] == pytest.approx(1)
    found = roles(scores)[0][0]
    assert (found.name, found.score) == (role, pytest.approx(1))


def test_a_uniform_head_is_broad_and_its_scores_are_those_of_chance():
    scores = role_scores(uniform(), PERIOD)
    assert roles(scores)[0][0].name == "broad"
    assert scores["broad"][0, 0] == pytest.approx(1)
    by_hand = np.mean([1 / (i + 1) for i in range(PERIOD, T)])
    assert scores["induction"][0, 0] == pytest.approx(by_hand)
    assert scores["local"][0, 0] == pytest.approx(np.mean([LOCAL / (i + 1) for i in range(LOCAL, T)]))


def test_a_head_spread_over_the_neighbourhood_is_local():
    weights = np.zeros((1, 1, T, T), np.float32)
    for i in range(T):
        near = range(max(0, i - LOCAL + 1), i + 1)
        weights[0, 0, i, list(near)] = 1 / len(near)
    assert roles(role_scores(weights, PERIOD))[0][0].name == "local"


def test_statistics_by_hand():
    weights = np.zeros((1, 2, 3, 3), np.float32)
    weights[0, 0] = [[1, 0, 0], [0.5, 0.5, 0], [0.25, 0.25, 0.5]]
    weights[0, 1] = np.eye(3)
    s = statistics(weights)
    assert s.entropy[0] == pytest.approx([(0 + 1 + 1.5) / 3, 0])
    assert s.distance[0] == pytest.approx([(0 + 0.5 + 0.75) / 3, 0])
    assert s.first_token[0] == pytest.approx([0.375, 0])
    assert statistics(np.ones((1, 1, 1, 1), np.float32)).first_token[0, 0] == 1


def test_roles_are_laid_out_layer_by_head():
    weights = np.concatenate([pattern(TEXTBOOK["previous token"]), pattern(TEXTBOOK["induction"])])  # (L=2, H=1)
    named = [[r.name for r in layer] for layer in roles(role_scores(weights, PERIOD))]
    assert named == [["previous token"], ["induction"]]


def test_probes_say_distinct_tokens_twice_and_repeat_themselves():
    a = probes(101, 13, 3)
    assert a == probes(101, 13, 3)
    for p in a:
        assert p[:13] == p[13:] and len(set(p)) == 13
