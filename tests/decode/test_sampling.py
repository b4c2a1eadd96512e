"""Filters give the distributions of transformers, and draws follow them."""

import itertools

import pytest
import torch
from transformers import (
    LogitsProcessorList,
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from attnviz.checks import ConfigError
from attnviz.decode import Sampling, distribution, stages
from attnviz.decode.sampling import draw, keep_min_p, keep_top_k, keep_top_p, penalise_repetition, uniform

V = 101
IDS = [2, 3, 5, 7, 7, 100]


def theirs(logits: torch.Tensor, ids: list[int], s: Sampling) -> torch.Tensor:
    """Return the logits processors of transformers' generate for these settings, in its order."""
    processors = LogitsProcessorList()
    if s.repetition_penalty != 1:
        processors.append(RepetitionPenaltyLogitsProcessor(s.repetition_penalty))
    if s.temperature != 1:
        processors.append(TemperatureLogitsWarper(s.temperature))
    if s.top_k is not None:
        processors.append(TopKLogitsWarper(s.top_k))
    if s.top_p is not None and s.top_p < 1:
        processors.append(TopPLogitsWarper(s.top_p))
    if s.min_p is not None:
        processors.append(MinPLogitsWarper(s.min_p))
    return processors(torch.tensor([ids]), logits[None].clone())[0].softmax(-1)


FIELDS = ("temperature", "top_k", "top_p", "min_p", "repetition_penalty")
VALUES = (0.3, 1.0, 1.7), (None, 1, 11, 1000), (None, 0.1, 0.83), (None, 0.07), (1.0, 1.3, 0.7)
ALL = [dict(zip(FIELDS, values, strict=True)) for values in itertools.product(*VALUES)]


def test_every_combination_gives_the_distribution_of_transformers():
    logits = 3 * torch.randn(V)
    for settings in ALL:
        sampling = Sampling(**settings)
        ours = distribution(logits, IDS, sampling)
        expected = theirs(logits, IDS, sampling).double()
        assert ((ours > 0) == (expected > 0)).all(), settings
        assert (ours - expected).abs().max() < 1e-6, settings


def test_the_order_of_the_filters_matters_and_is_that_of_transformers():
    logits = torch.tensor([2.0, 1.0, 0.5, -1.0])
    hot = stages(logits, [0], Sampling(temperature=3.0, top_p=0.6))[-1].probabilities
    assert (hot > 0).sum() == 2  # top-p first would keep one: softmax(logits)[0] = 0.61
    assert (keep_top_p(logits, 0.6) > -torch.inf).sum() == 1


def test_equal_logits_stay_together_in_top_k_and_one_token_stays_in_the_others():
    assert (keep_top_k(torch.tensor([1.0, 2.0, 1.0, 0.0]), 2) > -torch.inf).tolist() == [True, True, True, False]
    for keep in (keep_top_p, keep_min_p):
        assert (keep(torch.tensor([1.0, 2.0, 0.5]), 0.0) > -torch.inf)[1]
    assert (keep_top_p(torch.tensor([1.0, 2.0, 0.5]), 0.0) > -torch.inf).sum() == 1
    assert (keep_min_p(torch.tensor([1.0, 2.0, 0.5]), 1.0) > -torch.inf).sum() == 1


def test_a_repeated_token_is_penalised_once_whatever_its_sign():
    logits = torch.tensor([3.0, -3.0, 1.0])
    assert penalise_repetition(logits, [0, 0, 1], 1.5).tolist() == [2.0, -4.5, 1.0]
    assert logits.tolist() == [3.0, -3.0, 1.0]  # the input is unchanged


def test_stages_name_what_is_switched_on():
    sampling = Sampling(0.7, 5, 0.9, 0.05, 1.2)
    found = stages(torch.randn(V), IDS, sampling)
    assert [s.name for s in found] == ["model", "repetition penalty", "temperature", "top-k", "top-p", "min-p"]
    assert all(abs(float(s.probabilities.sum()) - 1) < 1e-12 for s in found)
    assert [s.name for s in stages(torch.randn(V), IDS, Sampling())] == ["model"]


def test_temperature_0_is_greedy_after_the_repetition_penalty():
    logits = torch.tensor([3.0, 2.9, 1.0])
    assert distribution(logits, [2], Sampling(temperature=0)).tolist() == [1, 0, 0]
    assert distribution(logits, [0], Sampling(temperature=0, repetition_penalty=1.5)).tolist() == [0, 1, 0]
    assert distribution(logits, [2], Sampling(temperature=0, top_k=2, top_p=0.1)).tolist() == [1, 0, 0]


def chi_square(counts: torch.Tensor, probabilities: torch.Tensor) -> float:
    expected = probabilities * counts.sum()
    return float(((counts - expected) ** 2 / expected).sum())


def critical_value(degrees: int) -> float:
    """Return the chi-square that is exceeded once in 10,000 times (Wilson and Hilferty's approximation)."""
    return degrees * (1 - 2 / (9 * degrees) + 3.719 * (2 / (9 * degrees)) ** 0.5) ** 3


@pytest.mark.slow
@pytest.mark.parametrize("vary", ["position", "seed"])
def test_draws_follow_the_distribution(vary):
    probabilities = distribution(torch.randn(13), [], Sampling(temperature=1.3))
    counts, n = torch.zeros(13, dtype=torch.float64), 4_000
    for i in range(n):
        u = uniform(7, i) if vary == "position" else uniform(i, 11)
        counts[draw(probabilities, u)] += 1
    assert chi_square(counts, probabilities) < critical_value(12)
    assert chi_square(counts, probabilities.flip(0)) > critical_value(12)  # the test can fail


def test_draws_at_neighbouring_positions_are_independent():
    drawn = [int(5 * uniform(3, i)) for i in range(20_001)]
    pairs = torch.tensor([5 * a + b for a, b in itertools.pairwise(drawn)])
    counts = pairs.bincount(minlength=25).double()
    assert chi_square(counts, torch.full((25,), 1 / 25, dtype=torch.float64)) < critical_value(24)


def test_a_token_of_probability_0_is_not_drawn():
    p = torch.tensor([0.0, 0.25, 0.0, 0.75, 0.0], dtype=torch.float64)
    assert [draw(p, u) for u in (0.0, 0.2499, 0.25, 0.5, 1 - 2**-53)] == [1, 1, 3, 3, 3]


@pytest.mark.parametrize(
    "wrong, names",
    [
        (dict(temperature=-0.1), "temperature"), (dict(temperature=float("nan")), "temperature"),
        (dict(top_k=0), "top_k"), (dict(top_k=2.5), "top_k"), (dict(top_p=1.1), "top_p"), (dict(min_p=-1), "min_p"),
        (dict(repetition_penalty=0), "repetition_penalty"), (dict(seed=-1), "seed"), (dict(seed="a"), "seed"),
    ],
)  # fmt: skip
def test_a_setting_that_cannot_be_used_is_refused_by_name(wrong, names):
    with pytest.raises(ConfigError, match=names):
        Sampling(**wrong)
