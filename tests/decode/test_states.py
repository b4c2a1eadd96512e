"""Decoding with layers that keep a state: it does not grow, and every way to decode equals recomputing."""

import numpy as np
import pytest
import torch

from attnviz.decode import Sampling, generate, speculate
from attnviz.decode.comparisons import bounded, quantised, shared, step_seconds, with_and_without
from attnviz.decode.speculation import NGramDrafter
from attnviz.decode.writing import write
from attnviz.experiments.measurement import timings
from attnviz.figures.decode import cache_equation, prefill_sentence, state_parts
from attnviz.modules import Transformer
from attnviz.trace import trace
from tests.mixed import HYBRID

IDS = [5, 7, 2, 5, 19, 30, 0, 5, 7, 11, 13]
GREEDY = Sampling(temperature=0)
STATE = 4 * (6 * 5 * 7 + 4 * (2 * 3 * 5 + 6 * 7))  # bytes of H · D · V, and of w inputs of the convolution
PER_TOKEN = 4 * 2 * 3 * 13


@pytest.fixture(scope="module")
def model() -> Transformer:
    return Transformer.random(HYBRID, seed=3)


def recomputed(model: Transformer, ids: list[int], n: int) -> list[int]:
    ids = list(ids)
    with torch.no_grad():
        for _ in range(n):
            ids.append(int(model(torch.tensor([ids]))[0, -1].argmax()))
    return ids[-n:]


def test_a_state_does_not_grow_beside_a_cache_that_does(model):
    written = write(model, IDS, (), 5, GREEDY, layer=0)
    assert [step.id for step in written.steps] == recomputed(model, IDS, 5)
    for n, step in enumerate(written.steps, len(IDS)):
        assert step.layer_bytes == (STATE, PER_TOKEN * n, STATE)
        assert cache_equation(HYBRID, n).value == sum(step.layer_bytes)
    assert state_parts(HYBRID, written.steps[0].layer_bytes)[0] == [
        STATE // 4, f"state and convolution: 210 + 288 = 498 numbers, {STATE:,} B"
    ]  # fmt: skip
    said = prefill_sentence(written.steps[0], len(IDS), HYBRID)
    assert f"2 layers then keep a state of {2 * STATE:,} B" in said and f"{PER_TOKEN} B per token" in said


def test_the_maps_of_a_state_are_those_of_the_whole_text(model):
    written = write(model, IDS, (), 4, GREEDY, layer=0)
    ids = IDS + [step.id for step in written.steps]
    shares = trace(model, ids).layers[0].shares
    for n, step in enumerate(written.steps, len(IDS)):
        np.testing.assert_allclose(step.rows, shares[:, n - 1, :n], atol=1e-5)
        np.testing.assert_allclose(step.rows.sum(-1), 1, atol=1e-5)
    np.testing.assert_allclose(written.rows, shares[:, : len(IDS) - 1, : len(IDS)], atol=1e-5)


def test_another_token_is_chosen_and_the_text_goes_on_from_there(model):
    first = write(model, IDS, (), 4, GREEDY, layer=1)
    other = first.steps[1].candidates[2]
    fixed = (first.steps[0].id, other)
    again = write(model, IDS, fixed, 4, GREEDY, 1, before=first)
    assert [step.id for step in again.steps] == [*fixed, *recomputed(model, [*IDS, *fixed], 2)]
    longer = write(model, IDS, fixed, 6, GREEDY, 1, before=again)
    assert [step.id for step in longer.steps][4:] == recomputed(model, [*IDS, *(s.id for s in again.steps)], 2)


def test_speculation_rewinds_the_state(model):
    ids = [*IDS, *IDS]
    rounds = list(speculate(model, ids, 7, NGramDrafter(HYBRID.vocab_size), 3, GREEDY))
    assert sum((each.ids for each in rounds), [])[:7] == recomputed(model, ids, 7)
    assert any(each.n_accepted < len(each.proposed) for each in rounds)


def test_bounded_quantised_and_paged_caches_keep_the_state(model):
    ids = [*IDS, *IDS]
    for cache in bounded(model, ids, 7, 2):
        limit = 7 if "slide" in cache.name or "stop" in cache.name else len(ids) - 1
        assert len(cache.held) == limit and cache.nbytes == 2 * STATE + PER_TOKEN * limit
    exact, int8, _ = quantised(model, ids)
    assert exact.nbytes > int8.nbytes > 2 * STATE and int8.largest_error < 0.5
    found = shared(model, IDS, 3, 4, 2, Sampling(temperature=0.8, seed=1), 32)
    assert found.difference < 1e-4 and len(set(found.ids)) == 3


def test_a_step_is_compared_and_timed(model):
    found = with_and_without(model, IDS)
    assert found.difference < 1e-4 and found.with_cache.cache_bytes == 2 * STATE + PER_TOKEN * len(IDS)
    assert all(each.median > 0 for each in step_seconds(model, IDS))
    (timing,) = timings([HYBRID], [50])
    assert timing.cache_bytes == 2 * STATE + PER_TOKEN * 50
    assert [step.id for step in generate(model, IDS, 3, GREEDY)] == recomputed(model, IDS, 3)
