"""Results of the Decode page equal independent computations: a full pass, `generate`, the bytes of live tensors."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch

from attnviz import decode
from attnviz.checkpoints import load_checkpoint
from attnviz.compute import decode as compute
from attnviz.compute import queue
from attnviz.compute.byte_cache import ByteCache
from attnviz.compute.view import View
from attnviz.config import FAMILY
from attnviz.decode import comparisons, writing
from attnviz.decode.comparisons import Spread
from attnviz.decode.writing import ROWS_BEFORE
from attnviz.session.settings import Settings
from attnviz.trace import trace

TEXT = "The old man found a red ball. The old man"
MODELS = ("gqa-4", "mla")


def view(**changes: object) -> View:
    return View(Settings(**{"text": TEXT, **changes}))


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compute, "N_READ", 21)
    monkeypatch.setattr(compute, "N_SPECULATED", 13)


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
def test_steps_are_those_of_generate_and_of_a_whole_pass_with_the_bytes_of_the_cache(model: str) -> None:
    v = view(model=model, temperature=1.3, draw_seed=5, layer=2)
    written, live = compute.written_of(v), load_checkpoint(model)[0]
    plain = list(decode.generate(live, v.ids, compute.AHEAD, compute.sampling_of(v.settings)))
    assert [step.id for step in written.steps] == [step.id for step in plain]
    assert [s.probability for s in written.steps] == pytest.approx([s.probability for s in plain], abs=1e-5)
    ids = [*v.ids, *(step.id for step in written.steps)]
    whole = trace(live, ids)
    n, c = len(v.ids), v.config
    numbers = c.kv_lora_rank + c.qk_rope_head_dim if model == "mla" else 2 * c.n_kv_heads * c.head_dim
    for i, step in enumerate(written.steps):
        assert step.layer_bytes == (4 * numbers * (n + i),) * c.n_layers
        assert np.allclose(step.rows, whole.weights[2, :, n + i - 1, : n + i], atol=1e-5)
        odds = torch.tensor(whole.logits[n + i - 1]).softmax(-1)
        assert step.probability == pytest.approx(float(odds[step.id]), abs=1e-5)
        assert step.stages[0][1] == pytest.approx(odds[list(step.candidates)].tolist(), abs=1e-5)
        assert step.id in step.candidates
    assert np.allclose(written.rows, whole.weights[2, :, max(0, n - 1 - ROWS_BEFORE) : n - 1, :n], atol=1e-5)


def test_tokens_of_the_link_are_written_first() -> None:
    free = [step.id for step in compute.written_of(view()).steps]
    other = next(i for i in compute.written_of(view()).steps[3].candidates if i != free[3])
    fixed = (*free[:3], other)
    steps = compute.written_of(view(written=fixed)).steps
    assert tuple(s.id for s in steps[:4]) == fixed and len(steps) == 4 + compute.AHEAD
    again = list(
        decode.generate(load_checkpoint("gqa-4")[0], [*view().ids, *fixed], 5, decode.Sampling(0.8, top_p=0.95))
    )
    assert [s.id for s in steps[4:9]] == [s.id for s in again]


@pytest.mark.parametrize("model", MODELS)
def test_tokens_of_the_link_are_seen_as_they_were_when_drawn(model: str) -> None:
    """The link's tokens are run in one pass; candidates, weights and bytes equal those of single decode steps."""
    free = compute.written_of(view(model=model)).steps
    fixed = compute.written_of(view(model=model, written=tuple(step.id for step in free))).steps
    assert [step.id for step in fixed[: len(free)]] == [step.id for step in free]
    for one, other in zip(free, fixed, strict=False):
        assert one.layer_bytes == other.layer_bytes
        assert np.allclose(one.rows, other.rows, atol=1e-5) and one.rows.shape == other.rows.shape
        for (name, odds), (same, again) in zip(one.stages, other.stages, strict=True):
            assert name == same and sorted(odds) == pytest.approx(sorted(again), abs=1e-5)
    assert sum(step.rows.untyped_storage().nbytes() for step in fixed) == sum(step.rows.nbytes for step in fixed)


def test_nothing_is_sampled_after_the_token_that_ends_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    v = view(model="gqa-2", draw_seed=23)
    free = compute.written_of(v).steps
    ids = [step.id for step in free]
    ninth, n = ids[8], ids.index(ids[8]) + 1
    monkeypatch.setattr(compute, "ends_of", lambda view: frozenset({ninth}))
    monkeypatch.setattr(compute, "_runs", ByteCache(compute.MAX_RUN_BYTES))
    written = compute.written_of(v)
    assert [step.id for step in written.steps] == ids[:n] and written.ended
    assert compute.written_of(v.but(written=tuple(ids[:n])), 40).steps == written.steps  # and none when asked for more
    assert compute.written_of(v.but(written=tuple(ids[: n - 1]))).ended
    other = next(i for i in free[n - 1].candidates if i != ninth)
    instead = compute.written_of(v.but(written=(*ids[: n - 1], other)))
    assert len(instead.steps) > n and instead.steps[n - 1].id == other
    fixed = tuple(ids[: n + 2])  # a link made before may go on after it
    assert [step.id for step in compute.written_of(v.but(written=fixed), 3).steps[: n + 2]] == [*fixed]
    back = compute.written_of(v.but(written=tuple(ids[:n])))
    assert [step.id for step in back.steps] == ids[:n] and back.ended


def test_what_is_the_same_is_not_computed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A click runs one token, and the steps equal those of the whole text generated at once."""
    v = view(model="gqa-2", draw_seed=17)
    free, passes = compute.written_of(v).steps, []
    read = writing.read
    monkeypatch.setattr(writing, "read", lambda m, ids, *rest: passes.append(len(ids)) or read(m, ids, *rest))
    for count in (7, 3):
        step = free[count]
        other = next(i for i in step.candidates[:-1] if i != step.id)
        fixed = (*(s.id for s in free[:count]), other)
        passes.clear()
        steps = compute.written_of(v.but(written=fixed), compute.AT_ONCE).steps
        assert passes == [1] and len(steps) == count + 1 + compute.AT_ONCE
        alone = writing.write(v.model, v.ids, fixed, len(steps), compute.sampling_of(v.settings), v.layer_and_head[0])
        for one, another in zip(steps, alone.steps, strict=True):
            assert (one.id, one.drawn, one.left) == (another.id, another.drawn, another.left)
            assert one.layer_bytes == another.layer_bytes and one.probability == pytest.approx(
                another.probability, abs=1e-5
            )
            assert one.candidates == another.candidates and torch.allclose(one.rows, another.rows, atol=1e-5)
        passes.clear()
        assert len(compute.written_of(v.but(written=fixed), 5).steps) == count + 6 and sum(passes) == 4


def test_a_session_that_wants_something_else_gets_fewer_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    v = view(draw_seed=18)
    monkeypatch.setattr(queue, "rerun_requested", lambda: True)
    assert len(compute.written_of(v).steps) == compute.AT_ONCE
    monkeypatch.setattr(queue, "rerun_requested", lambda: False)
    assert len(compute.written_of(v).steps) == compute.AHEAD


def test_a_step_is_timed_once_per_length_and_the_same_on_each_tab(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compute, "MOMENT", 60)
    compute.measure_again()
    one, whole = compute.step_seconds(view())
    assert compute.step_seconds(view(text=f"A{TEXT[3:]}")) == (one, whole)
    assert [phase.seconds for phase in compute.roofline(view()).phases] == [whole, one]


def test_an_unsteady_measurement_is_dropped_after_a_moment_and_a_steady_one_when_asked(monkeypatch) -> None:
    apart, close = (Spread(1.0, 1.2, high, 9) for high in (1.6, 1.4))
    for spread, moment, n in ((apart, 60, 1), (apart, -1, 2), (close, -1, 1)):
        taken: list[Spread] = []
        monkeypatch.setattr(compute, "MOMENT", moment)
        monkeypatch.setattr(comparisons, "step_seconds", lambda *_, s=spread, t=taken: t.append(s) or (s, s))
        compute.measure_again()
        for _ in range(2):
            compute.step_seconds(view())
        assert len(taken) == n
    compute.measure_again()
    compute.step_seconds(view())
    assert len(taken) == 2
    compute.measure_again()  # what was made up here is not for other tests


def test_ids_that_the_model_lacks_and_more_than_there_is_room_for_are_left_out() -> None:
    assert compute.usable(view(written=(5, 7, 999_999, 3))) == (5, 7)
    long = view(text="cat " * 505)
    n = len(long.ids)
    assert 490 < n < 512 and len(compute.written_of(long).steps) == min(compute.AHEAD, 512 - n)
    assert compute.usable(view(text="cat " * 505, written=(5,) * 40)) == (5,) * (512 - n)
    assert compute.written_of(view(text="cat " * 600)).steps == ()


def test_filters_are_those_of_the_settings() -> None:
    names = [name for name, _ in compute.written_of(view(penalty=1.5, top_k=3, min_p=0.1), 1).steps[0].stages]
    assert names == ["model", "repetition penalty", "temperature", "top-k", "top-p", "min-p"]
    (greedy,) = {step.stages[-1][0] for step in compute.written_of(view(temperature=0.0), 2).steps}
    assert greedy == "greedy"


def test_a_mask_that_looks_ahead_is_not_used() -> None:
    assert [s.id for s in compute.written_of(view(causal=False)).steps] == [
        s.id for s in compute.written_of(view()).steps
    ]


@pytest.mark.parametrize("model", MODELS)
def test_with_and_without_a_cache_the_logits_are_the_same(model: str) -> None:
    found = compute.compared(view(model=model))
    assert found.difference < 1e-4 and found.n_tokens == len(view().ids)
    assert found.with_cache == decode.step_with_cache(load_checkpoint(model)[0], found.n_tokens)


@pytest.fixture
def six_tokens(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let each checkpoint write six tokens, which no other test is given."""
    monkeypatch.setattr(compute, "AHEAD", 6)
    yield
    compute.measure_again()


def test_each_checkpoint_writes_what_it_writes_alone(six_tokens: None) -> None:
    v = view(temperature=0.7, draw_seed=3, top_p=1.0)
    found = compute.family(v)
    assert [member.model for member in found] == list(FAMILY)
    for member in found:
        alone = decode.generate(load_checkpoint(member.model)[0], v.ids, compute.AHEAD, decode.Sampling(0.7, seed=3))
        assert list(member.ids) == [step.id for step in alone]
    assert {m.model: m.token_bytes for m in found} == {
        "mha": 6144,
        "gqa-4": 3072,
        "gqa-2": 1536,
        "mqa": 768,
        "mla": 1280,
    }


def test_each_checkpoint_runs_with_the_mask_and_positions_of_the_settings(six_tokens: None) -> None:
    v = view(window=7, n_sinks=2, rope=False, temperature=0.0)
    for member in compute.family(v):
        model = load_checkpoint(member.model)[0]
        own = model.with_config(replace(model.config, sliding_window=7, n_sinks=2, position="none"))
        alone = decode.generate(own, v.ids, compute.AHEAD, decode.Sampling(0.0))
        assert list(member.ids) == [step.id for step in alone]


@pytest.mark.slow
def test_a_model_agrees_with_itself_as_a_drafter_under_any_mask() -> None:
    for changes in ({"window": 8}, {"rope": False}, {"theta": 500.0}):
        found = compute.speculated(view(model="mqa", drafter="mqa", **changes))
        assert found.n_accepted == found.n_proposed > 0, changes


def test_a_text_of_one_token_is_known_to_be_read_twice() -> None:
    assert compute.is_read_twice(view(text="a")) and not compute.is_read_twice(view(text="a", written=(5,)))
    assert not compute.is_read_twice(view(text="a dog"))


@pytest.mark.slow
def test_steps_of_drafter_and_model_are_timed_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    order, read = [], comparisons.read
    monkeypatch.setattr(comparisons, "read", lambda model, *rest: order.append(model.config.name) or read(model, *rest))
    compute.measure_again()
    drafter, model = compute.drafter_seconds(view(model="gqa-4", drafter="mqa", window=8))
    assert drafter.n_runs == model.n_runs == 9
    assert order[-18:] == ["mqa", "gqa-4"] * 9
    assert compute.drafter_seconds(view(drafter="n-grams")) == ()
