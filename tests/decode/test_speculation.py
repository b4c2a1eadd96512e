"""Speculative decoding matches the model alone: greedy text is equal, sampled text has the same distribution."""

import itertools

import pytest
import torch

from attnviz.checks import ConfigError
from attnviz.decode import ModelDrafter, NGramDrafter, Sampling, distribution, generate, speculate, speculation
from attnviz.decode.speculation import Proposal, check, remainder
from tests.decode.models import GROUPED, LATENT, PROMPT, small
from tests.decode.test_sampling import chi_square, critical_value

SMALLER = small(1, seed=5)


def written(rounds) -> list[int]:
    return [i for one in rounds for i in one.ids]


def drafter(name: str, model) -> ModelDrafter | NGramDrafter:
    return NGramDrafter(17, 1) if name == "n-grams" else ModelDrafter(model if name == "itself" else SMALLER)


@pytest.mark.parametrize(
    ("name", "settings", "k"),
    [
        ("model", GROUPED, 1), ("model", LATENT, 7), ("itself", GROUPED, 7), ("itself", LATENT, 3),
        ("n-grams", GROUPED, 3), ("n-grams", LATENT, 1),
    ],
)  # fmt: skip
def test_greedy_text_is_that_of_the_model_alone(name, settings, k):
    model, greedy = small(**settings), Sampling(temperature=0, repetition_penalty=1.2)
    rounds = list(speculate(model, PROMPT, 29, drafter(name, model), k, greedy))
    assert written(rounds) == [step.id for step in generate(model, PROMPT, 29, greedy)]
    for one in rounds:
        assert one.ids[:-1] == one.proposed[: one.n_accepted] and len(one.proposed) <= k
    if name == "itself":
        assert all(one.n_accepted == len(one.proposed) for one in rounds) and len(rounds) == -(-29 // (k + 1))


@pytest.mark.slow
@pytest.mark.parametrize(
    "name, settings", [("model", dict(temperature=0.9, top_k=5)), ("n-grams", dict(temperature=1.5))]
)
def test_the_distribution_is_that_of_the_model_alone(name, settings):
    """Compare pairs of tokens from 200 seeds with their exact probabilities under the model."""
    model, n, sampling = small(1), 200, Sampling(**settings)
    counts, exact = torch.zeros(17, 17, dtype=torch.float64), torch.zeros(17, 17, dtype=torch.float64)
    p = distribution(model(torch.tensor([PROMPT]))[0, -1].detach(), PROMPT, sampling)
    for i in range(17):
        then = model(torch.tensor([[*PROMPT, i]]))[0, -1].detach()
        exact[i] = p[i] * distribution(then, [*PROMPT, i], sampling)
    accepted = proposed = 0
    for seed in range(n):
        rounds = list(speculate(model, PROMPT, 2, drafter(name, model), 1, Sampling(**settings, seed=seed)))
        counts[tuple(written(rounds))] += 1
        accepted += sum(one.n_accepted for one in rounds)
        proposed += sum(len(one.proposed) for one in rounds)
    assert 0.02 < accepted / proposed < 0.98  # both cases occur
    assert counts[exact == 0].sum() == 0
    likely = exact * n >= 5
    expected = torch.cat((exact[likely], exact[~likely].sum()[None]))
    found = torch.cat((counts[likely], counts[~likely].sum()[None]))
    found, expected = found[expected > 0], expected[expected > 0]
    assert chi_square(found, expected) < critical_value(len(found) - 1)
    assert chi_square(found, expected.roll(1)) > critical_value(len(found) - 1)  # the test can fail


def test_the_token_written_has_the_distribution_p_exactly(monkeypatch):
    """Summed over the drafter's tokens and a grid of both random numbers that p / q and the remainder fit exactly."""
    p = torch.tensor([0.5, 0.2, 0.3, 0.0], dtype=torch.float64)
    q = torch.tensor([0.1, 0.6, 0.0, 0.3], dtype=torch.float64)
    written, n_accept, n_draw = torch.zeros(4, dtype=torch.float64), 3, 7  # p / q is 1/3; the remainder 4/7 and 3/7
    for x, a, d in itertools.product(range(4), range(n_accept), range(n_draw)):
        u = {"accept": (a + 0.5) / n_accept, "draw": (d + 0.5) / n_draw}
        monkeypatch.setattr(speculation, "uniform", lambda seed, position, purpose="draw", u=u: u[purpose])
        checked, own = check([Proposal(x, q)], p.log().repeat(2, 1), [0], Sampling())
        written[x if checked[0].accepted else own] += q[x] / (n_accept * n_draw)
        assert checked[0][1:3] == pytest.approx((float(q[x]), float(p[x])))
        assert checked[0].overlap == pytest.approx(0.1 + 0.2)
    assert torch.allclose(written, p)


def test_the_rest_of_a_rejected_proposal_comes_from_where_p_exceeds_q():
    p, q = torch.tensor([0.5, 0.2, 0.3, 0.0]).double(), torch.tensor([0.1, 0.6, 0.0, 0.3]).double()
    assert torch.allclose(remainder(p, q), torch.tensor([4 / 7, 0, 3 / 7, 0]).double())


def test_n_grams_propose_what_followed_last():
    proposes = NGramDrafter(17, 2)
    ids = [1, 2, 3, 4, 1, 2, 5, 6, 1, 2]
    assert [p.id for p in proposes.propose(ids, 3, Sampling())] == [5, 6, 1]
    assert proposes.propose(ids, 0, Sampling()) == [] == proposes.propose([1, 2, 3], 3, Sampling())
    assert [float(p.distribution[p.id]) for p in proposes.propose(ids, 2, Sampling())] == [1, 1]


def test_a_drafters_cache_follows_the_text():
    model = small()
    drafter, sampling = ModelDrafter(model), Sampling(temperature=0)
    for ids in (PROMPT, [*PROMPT, 1, 2], PROMPT[:5], PROMPT):
        expected = [step.id for step in generate(model, ids, 4, sampling)]
        assert [p.id for p in drafter.propose(ids, 4, sampling)] == expected


def test_the_text_ends_where_it_was_asked_to():
    model = small()
    for n, k in itertools.product((0, 1, 2, 5), (1, 4)):
        assert len(written(speculate(model, PROMPT, n, ModelDrafter(model), k))) == n


def test_k_of_0_is_refused():
    with pytest.raises(ConfigError, match="k must"):
        speculate(small(), PROMPT, 3, NGramDrafter(17), 0)
