"""The tabs of the Decode page: caches of limited size, in fewer bits and shared, drafters, the roofline."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from attnviz import decode
from attnviz.checkpoints import load_checkpoint
from attnviz.compute import decode as compute
from attnviz.compute.choices import with_text_of
from attnviz.compute.view import View
from attnviz.config import FAMILY
from attnviz.decode import comparisons
from attnviz.figures.decode import single_text
from attnviz.figures.decode_caches import sampled
from attnviz.session.pages import PAGES
from attnviz.session.settings import Settings
from attnviz.session.shared import DEFAULT_TEXT
from attnviz.trace import trace

TEXT = "The old man found a red ball. The old man"


def view(**changes: object) -> View:
    return View(Settings(**{"text": TEXT, **changes}))


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compute, "N_READ", 21)
    monkeypatch.setattr(compute, "N_SPECULATED", 13)


def test_caches_of_limited_size_hold_what_they_should_and_lose_what_they_must() -> None:
    v = view(bound=11, kept_first=3)
    full, stop, slide, sinks = compute.bounded(v)
    ids, own = compute.running_text(v)
    assert not own and len(ids) == 21
    odds = torch.tensor(trace(v.model, ids).logits).log_softmax(-1)
    expected = [-float(odds[i, ids[i + 1]]) for i in range(20)]
    assert full.losses == pytest.approx(expected, abs=1e-4)
    for each in (stop, slide, sinks):
        assert each.losses[:11] == pytest.approx(expected[:11], abs=1e-4)
    assert (len(stop.losses), len(slide.losses)) == (11, 20)
    assert (stop.held, slide.held, sinks.held) == (
        tuple(range(11)), tuple(range(9, 20)), (0, 1, 2, *range(12, 20)),
    )  # fmt: skip
    assert full.nbytes == 20 * 3072 and stop.nbytes == slide.nbytes == sinks.nbytes == 11 * 3072


def test_the_persons_own_text_is_read_where_it_is_long_enough() -> None:
    v = view(text="one two three " * 20)
    assert compute.running_text(v) == (v.ids[:21], True)


def test_keys_and_values_in_fewer_bits_take_the_bytes_that_the_formula_says() -> None:
    exact, int8, int4 = compute.quantised(view())
    vectors = 2 * 4 * 4 * 20  # k and v of 4 KV heads in 4 layers; the last of the 21 tokens is not read
    assert exact.nbytes == vectors * 24 * 4 == compute.bounded(view(bound=11, kept_first=3))[0].nbytes
    assert (
        0 < int8.largest_error < int4.largest_error and abs(int8.loss - exact.loss) < abs(int4.loss - exact.loss) < 0.5
    )
    scale = int8.nbytes - vectors * 24
    assert int4.nbytes == vectors * 12 + scale and scale in (vectors * 2, vectors * 4)


def test_texts_that_share_blocks_are_those_of_a_plain_cache() -> None:
    v = view(model="mla", n_texts=3, block_size=5)
    found = compute.shared(v)
    assert found.difference < 1e-4 and len({*found.tables}) == 3
    whole = (len(v.ids) - 1) // 5  # blocks that are full before generation
    assert len({table[:whole] for table in found.tables}) == 1
    assert {found.users[block] for block in found.tables[0][:whole]} == {3}
    n_blocks = math.ceil(found.n_tokens / 5)
    assert {len(table) for table in found.tables} == {n_blocks}
    assert sum(n > 0 for n in found.users) == whole + 3 * (n_blocks - whole)
    assert found.unused == 3 * (n_blocks * 5 - found.n_tokens)
    assert found.unused_if_reserved == 3 * (512 - found.n_tokens)


@pytest.mark.parametrize("model", FAMILY)
def test_what_decode_writes_at_first_does_not_repeat(model: str) -> None:
    """Of the first 64 tokens, no four in a row occur twice, and no six occurred in the story."""
    settings = with_text_of(PAGES["decode"], Settings())
    v = View(replace(settings, model=model))
    ids = [step.id for step in compute.written_of(v, 64).steps]
    four, six = (set(zip(*(ids[i:] for i in range(n)), strict=False)) for n in (4, 6))
    assert len(ids) == 64 and len(four) == 61
    assert not six & set(zip(*(v.ids[i:] for i in range(6)), strict=False))
    assert single_text(compute.written_of(v, 64).steps[: compute.AHEAD]) == ""  # most steps have a choice


@pytest.mark.parametrize("model", FAMILY)
@pytest.mark.parametrize("text", (DEFAULT_TEXT, "a a a a a a a a a a a a", "床前明月光，疑是地上霜。床前明月光，"))
def test_texts_that_share_blocks_differ(model: str, text: str) -> None:
    """On a text that the model repeats, equal ones were shown as different texts."""
    found = compute.shared(view(text=text, model=model, n_texts=3))
    assert len({*found.ids}) == 3 and len({sampling.temperature for sampling in found.samplings}) == 1
    said = sampled(found)
    assert f"temperature {found.samplings[0].temperature:g} " in said and "so that the texts differ" in said
    live = load_checkpoint(model)[0]
    for ids, sampling in zip(found.ids, found.samplings, strict=True):
        plain = decode.generate(live, view(text=text).ids, len(ids), sampling)
        assert tuple(step.id for step in plain) == ids


@pytest.mark.parametrize(("apart", "lowest"), [(0.0, 0.8), (11.0, 1.3)])
def test_equal_texts_get_another_seed_and_then_more_temperature(apart: float, lowest: float, monkeypatch) -> None:
    """One token of 7 is `apart` above the others, whatever the text: at 11, a temperature of 0.8 draws it each time."""
    logits = torch.tensor([apart, 0, 0, 0, 0, 0, 0])

    def write(model: None, ids: list[int], n: int, sampling: decode.Sampling) -> list[SimpleNamespace]:
        numbers = np.random.default_rng(sampling.seed)
        odds = (logits / sampling.temperature).softmax(0).double().numpy()
        return [SimpleNamespace(id=int(numbers.choice(7, p=odds / odds.sum()))) for _ in range(n)]

    monkeypatch.setattr(comparisons, "generate", write)
    found = comparisons.differing(None, [1], 3, 2, decode.Sampling(0.8))
    assert len({tuple(step.id for step in steps) for _, steps in found}) == 3
    assert {sampling.temperature for sampling, _ in found} == {found[0][0].temperature}
    assert (found[0][0].temperature == 0.8) == (lowest == 0.8) and found[0][0].temperature >= lowest
    assert len(comparisons.differing(None, [1], 3, 0, decode.Sampling(0.8))) == 3  # nothing that could differ


@pytest.fixture
def timed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    timed = comparisons.spreads
    monkeypatch.setattr(comparisons, "spreads", lambda *runs, n=1: timed(*runs, n=1))


@pytest.mark.parametrize("drafter", ["mqa", "n-grams"])
@pytest.mark.slow
def test_a_drafter_writes_the_same_in_fewer_passes(drafter: str, timed_once: None) -> None:
    v = view(drafter=drafter, temperature=0.0)
    found = compute.speculated(v)
    greedy = decode.generate(load_checkpoint("gqa-4")[0], v.ids, found.n_tokens, decode.Sampling(0.0))
    assert [i for each in found.rounds for i in each.ids] == [step.id for step in greedy]
    assert found.n_tokens == compute.N_SPECULATED and all(s.low > 0 for s in compute.speculation_seconds(v))
    assert len(found.rounds) < found.n_tokens


def test_the_roofline_counts_and_measures() -> None:
    v = view()
    found = compute.roofline(v)
    prefill, one = found.phases
    assert prefill.n_tokens == len(v.ids) and one.n_tokens == 1
    assert prefill.flops == 2 * decode.step_without_cache(v.model, len(v.ids)).multiplications
    assert one.bytes_read == decode.step_with_cache(v.model, len(v.ids)).bytes_read
    assert prefill.flops / prefill.bytes_read > one.flops / one.bytes_read
    assert all(phase.flops / phase.seconds.low < 4 * found.flops.high for phase in found.phases)
