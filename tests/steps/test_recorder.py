"""Check that a recorded run matches the trace and the source that ran, for any model."""

import inspect
import linecache
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch

from attnviz import modules
from attnviz.checkpoints import load_checkpoint
from attnviz.config import ModelConfig
from attnviz.mistakes import all_mistakes
from attnviz.modules import Transformer, attention, transformer
from attnviz.steps import Walk, arithmetic, record, with_absorbed
from attnviz.steps.run import HalfWeight, Run
from attnviz.steps.walk import Selection, _sizes
from attnviz.trace import trace

IDS = (5, 17, 5, 17, 101, 3, 5)
ODD = ModelConfig(3, 6 * 14, 6, 3, head_dim=14, d_ff=37, vocab_size=113)
SANDWICH = ModelConfig(3, 6 * 14, 6, 3, head_dim=10, d_ff=37, vocab_size=113, ffn="geglu", norms_per_layer=4,
                       qk_norm="head", attention_softcap=3.0, logit_softcap=5.0, embedding_scale=9.0)  # fmt: skip
GPT = ModelConfig(3, 6 * 14, 6, d_ff=37, vocab_size=113, ffn="gelu", norm="layernorm", norm_bias=True, qkv_bias=True,
                  o_bias=True, ffn_bias=True, position="learned", learned_position_rows=61)  # fmt: skip
OWN = {"odd": ODD, "sandwich": SANDWICH, "gpt": GPT}
MODELS = ["mqa", "mla", *OWN]  # the other checkpoints run the lines of "odd"


def model_of(name: str) -> Transformer:
    return Transformer.random(OWN[name], 7) if name in OWN else load_checkpoint(name)[0]


@cache
def recorded(name: str) -> Run:
    """Return a run with the lines of layer 1."""
    return record(model_of(name), IDS, 1)


def made(run, function: str, name: str) -> np.ndarray:
    """Return the value of `name` after the last line of this function that made it."""
    found = [m for line in run.lines if run.calls[line.call].function == function for m in line.made if m.name == name]
    return found[-1].value.entries


@pytest.mark.parametrize("name", MODELS)
def test_tensors_are_those_of_the_trace(name):
    model = model_of(name)
    run, expected = recorded(name), trace(model, IDS)
    for name, traced in (("q", expected.q), ("k", expected.k), ("v", expected.v), ("weights", expected.weights)):
        np.testing.assert_allclose(made(run, type(model.blocks[1].attn).__name__ + ".forward", name)[0], traced[1])
    np.testing.assert_array_equal(run.logits, expected.logits)
    np.testing.assert_array_equal(made(run, "Transformer.forward", "return")[0], expected.logits)


@pytest.mark.parametrize("name", MODELS)
def test_the_arithmetic_of_entries_comes_to_what_was_recorded(name):
    run, rng, checked = recorded(name), np.random.default_rng(0), set()
    for line in run.lines:
        for operation in line.operations:
            for value in operation.outputs:
                if not value.entries.size:
                    continue
                at = tuple(int(rng.integers(n)) for n in value.shape)
                how = arithmetic(line.operations, value, at)
                assert how is not None
                assert how.value == pytest.approx(float(value.entries[at]), nan_ok=True)
                if how.computed is not None:
                    checked.add(how.operation)
                    assert how.computed == pytest.approx(how.value, rel=1e-4, abs=1e-5)
    hidden = {"gpt": "gelu", "sandwich": "gelu"}.get(name, "silu")
    assert {"linear", "einsum", "softmax", "mul", "add", "rsqrt", hidden, "embedding", "where", "mean"} <= checked


def test_a_weight_in_half_precision_is_read_where_it_is_looked_at():
    from attnviz.checkpoints.stored import stored

    half = model_of("gpt")
    for module in half.modules():
        for name, p in list(module._parameters.items()):
            if p is not None:
                module._parameters[name] = stored(p.detach().bfloat16())
    run = record(half, IDS, 1)
    weights = [v for v in run.values if v.weight and len(v.shape) == 2]
    assert weights and all(isinstance(v.array, HalfWeight) for v in weights)
    linear = next(o for line in run.lines for o in line.operations if o.name == "linear")
    how = arithmetic([linear], linear.outputs[0], (0, 2, 5))
    assert how.computed == pytest.approx(how.value, rel=1e-4, abs=1e-5)
    for stop in Walk(run, Selection(0, 0, 4, 0)).stops:
        assert all(np.isfinite(each.picture.numbers).any() for each in stop.shown)


def test_lines_are_those_of_the_files_and_in_the_order_they_ran():
    run = recorded("odd")
    for call in run.calls:
        source = (Path(modules.__file__).parent / call.file).read_text().splitlines()
        assert source[call.first - 1].strip() in call.source
    numbers = [line.number for line in run.lines if run.calls[line.call].function == "attend"]
    assert numbers == sorted(numbers) and len(set(numbers)) == len(numbers)
    names = {m.name for line in run.lines if run.calls[line.call].function == "attend" for m in line.made}
    assert {"q", "scores", "weights", "output"} <= names


def test_a_walk_begins_with_the_token_ids():
    walk = Walk(recorded("mqa"), Selection(0, 0, 4, 0))
    (shown,) = walk.stops[0].shown
    assert shown.name == "ids" and shown.picture.axes == ("B", "T")
    np.testing.assert_array_equal(shown.picture.numbers, [IDS])


def test_the_other_blocks_are_one_line_each():
    run = record(model_of("gqa-4"), IDS, 2)
    assert [line.skipped for line in run.lines if line.skipped] == ["blocks.0", "blocks.1", "blocks.3"]
    assert sum(call.function == "Block.forward" for call in run.calls) == 1


def test_a_value_changed_in_place_is_kept_before_and_after():
    run = record(model_of("gqa-4"), IDS, 0)
    scores = [m.value.entries for line in run.lines for m in line.made if m.name == "scores"]
    assert len(scores) == 2 and np.isfinite(scores[0]).all()
    allowed = np.tril(np.ones((len(IDS), len(IDS)), bool))
    assert (np.isneginf(scores[1][0]) == ~allowed).all()
    np.testing.assert_array_equal(scores[1][0][:, allowed], scores[0][0][:, allowed])


def test_another_source_shows_other_names(monkeypatch):
    """The source that runs is the one that is shown: no variable name is hard-coded."""
    text = inspect.getsource(attention.attend).replace("scores", "affinities")
    name = str(Path(modules.__file__).parent / "changed_for_a_test.py")
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    space = dict(vars(attention))
    exec(compile(text, name, "exec"), space)
    monkeypatch.setattr(attention, "attend", space["attend"])
    try:
        run = record(model_of("gqa-4"), IDS, 1)
    finally:
        del linecache.cache[name]
    names = {m.name for line in run.lines for m in line.made}
    assert "affinities" in names and "scores" not in names
    assert any("affinities" in call.source for call in run.calls)


@pytest.mark.parametrize("name", MODELS)
def test_axes_that_comments_name_have_the_sizes_of_the_model(name):
    run = recorded(name)
    sizes, found = _sizes(run), 0
    for line in run.lines:
        for each in line.made:
            for axis, n in zip(each.axes, each.value.shape, strict=True) if each.axes else ():
                if axis in sizes and axis not in (
                    "D",
                    "P",
                    "R",
                ):  # these letters have different meanings in attention.py and latent.py
                    found += 1
                    assert sizes[axis] == n, (each.name, each.axes, each.value.shape)
    assert found > 20


def test_bytes_are_bounded_and_shapes_stay():
    run = record(model_of("gqa-4"), IDS, 1, max_bytes=10_000)
    assert run.nbytes <= 10_000
    assert any(value.array is None and value.shape for value in run.values)
    assert Walk(run, Selection(0, 0, 0, 0)).stops


def test_nothing_is_left_behind_after_an_error():
    before = sys.gettrace()
    with pytest.raises(IndexError):
        record(model_of("gqa-4"), (10**6,), 1)
    assert sys.gettrace() is before
    assert torch.overrides._get_current_function_mode() is None
    for ids, layer in (((), 0), (IDS, 9), (IDS, -1)):
        with pytest.raises(ValueError, match=r"layer|token"):
            record(model_of("gqa-4"), ids, layer)


def test_the_absorbed_form_never_expands_keys():
    model = model_of("mla")
    plain, absorbed = recorded("mla"), record(with_absorbed(model, 1), IDS, 1)
    np.testing.assert_allclose(absorbed.logits, plain.logits, atol=1e-4)
    names = {call.function for call in absorbed.calls}
    assert any("_absorbed" in name for name in names) and not any("_expand" in name for name in names)


@pytest.mark.parametrize(
    ("name", "n"), [*((name, len(IDS)) for name in MODELS), ("mla", 1), ("odd", 1), ("mla", 60), ("gpt", 60)]
)
def test_every_stop_has_a_picture_with_its_entry_in_it(name, n):
    model, ids = model_of(name), tuple(range(n))
    c = model.config
    walk = Walk(
        recorded(name) if n == len(IDS) else record(model, ids, 1),
        Selection(c.n_heads - 1, c.n_kv_heads - 1, len(ids) - 1, 0),
    )
    assert len(walk.stops) > 30
    for stop in walk.stops:
        for shown in stop.shown:
            p = shown.picture
            row, column = (at - first for at, first in zip(p.at, p.first, strict=True))
            assert 0 <= row < p.numbers.shape[0] and 0 <= column < p.numbers.shape[1]
            np.testing.assert_array_equal(p.numbers[row, column], p.value.entries[p.index])
            for source in shown.sources:
                assert source.picture.numbers.size


TWO_BASES = ModelConfig(3, 6 * 14, 6, 3, head_dim=14, d_ff=37, vocab_size=113, sliding_window=3, full_layers=(1,),
                        rope_theta=501.0, rope_theta_windowed=77.0)  # fmt: skip
DYNAMIC = replace(ODD, max_context=5, rope_scaling=(("rope_type", "dynamic"), ("factor", 2.0)))  # depends on the length


@pytest.mark.parametrize(("config", "version"), [(TWO_BASES, "softmax_over_queries"), (DYNAMIC, None)])
def test_the_first_run_has_the_lines_of_every_other(config, version):
    """Links name a step by its number, and a mistaken version computes RoPE's frequencies for itself."""
    model = Transformer.random(config, 7)
    if version:
        model = all_mistakes()[version].version().like(model)
    transformer._frequencies.cache_clear()
    first, second = ([(line.call, line.number) for line in record(model, IDS, 1).lines] for _ in range(2))
    assert first == second
