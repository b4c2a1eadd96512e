"""Compare the attention maps of a learner's code on the shipped weights with the trace and the right version."""

import numpy as np
import pytest
import torch

from attnviz.checkpoints import load_checkpoint
from attnviz.practice.child import Refused, load_namespace
from attnviz.practice.live import OF_ONE_HEAD, WITH_A_STATE, WITH_MAPS, Live, checkpoint_for, layer_for
from attnviz.practice.tasks import TASKS
from attnviz.steps import Selection, Walk, record_file
from attnviz.steps.recorder import MAX_LINES
from attnviz.trace import trace
from attnviz.ui.run_user_file import packed
from tests.practice.answers import ANSWERS

TEXT = "The little girl found a red ball. The little girl found a ball, and the old man laughed at the girl."
SHORT = TEXT.partition(".")[0]  # for walks: a walk through loops takes the square of its tokens
LAYER, HEAD = 1, 5


@pytest.fixture(scope="module")
def models():
    return {name: load_checkpoint(name) for name in ("gqa-4", "mla", "hybrid", "sparse")}


def live(models, task: str, layer: int = LAYER, text: str = TEXT) -> Live:
    model, tokenizer = models[checkpoint_for(task, "gqa-4")]
    return Live(model, tokenizer.encode(text), layer, HEAD)


def names_of(source: str) -> dict:
    names: dict = {}
    exec(source, names)
    return names


@pytest.mark.parametrize(("task", "i"), [(t, i) for t in WITH_MAPS for i in range(len(ANSWERS[t]))])
def test_the_maps_are_those_of_the_right_version(models, task, i):
    given = live(models, task)
    yours, ours = (given.maps(task, names) for names in (names_of(ANSWERS[task][i]), TASKS[task].right))
    n = 1 if task in OF_ONE_HEAD else 8
    assert yours.shape == ours.shape == (n, given.T, given.T)
    torch.testing.assert_close(yours, ours, atol=2e-6, rtol=0)
    if task not in WITH_A_STATE:
        torch.testing.assert_close(yours.sum(-1), torch.ones(n, given.T), atol=1e-5, rtol=0)
    assert float(yours.triu(1).abs().max()) < 2e-6


def test_each_task_that_reads_other_tokens_has_maps(models):
    """The last token's output depends on earlier tokens, so the right version attends. RoPE's maps are computed with
    our scores and softmax."""
    assert {task for task in TASKS if reads_earlier_tokens(live(models, task), task)} == {*WITH_MAPS} - {"rope"}


def reads_earlier_tokens(given: Live, task: str) -> bool:
    """Change all tokens but the last in each input of the call, and compare the last token's output."""

    def output() -> torch.Tensor:
        found = given.call(task, TASKS[task].right).run()
        return found[0] if isinstance(found, tuple) else found

    with torch.no_grad():
        before = output().clone()
        record = given.recorded
        for x in (given.x, given.normed, given.ffn_input, record.q, record.k, record.v, record.q_pre_rope):
            if x is not None:
                x[..., :-1, :] += torch.linspace(-1, 2, x.shape[-1])  # not a constant, which a norm could ignore
        after = output()
    last = (lambda out: out) if before.ndim == 1 else (lambda out: out[..., -1, :])
    return not torch.allclose(last(before), last(after), atol=1e-5)


@pytest.mark.parametrize("task", ["attention", "rope", "cache", "mla", "delta"])
def test_with_rope_they_are_the_maps_of_the_trace(models, task):
    model, tokenizer = models[checkpoint_for(task, "gqa-4")]
    weights = trace(model, tokenizer.encode(TEXT)[: live(models, task).T]).weights[LAYER]
    np.testing.assert_allclose(live(models, task).maps(task, names_of(ANSWERS[task][0])).numpy(), weights, atol=2e-5)


def test_each_query_keeps_a_quarter_of_the_keys_by_the_layers_own_index_scores(models):
    """The layer itself keeps 32 keys, all of a short text. The kept ones are found again from the trace's scores."""
    model, tokenizer = models["sparse"]
    given = live(models, "sparse")
    maps = given.maps("sparse", names_of(ANSWERS["sparse"][0])).numpy()
    layer, k = trace(model, tokenizer.encode(TEXT)[: given.T]).layers[LAYER], given.T // 4
    assert given.top_k == k == 6
    for t in range(given.T):
        best = np.argsort(-layer.own["index_scores"][t, : t + 1], kind="stable")[:k]
        dense = layer.weights[:, t, best]  # of all keys, so that their ratios are those over the kept ones
        np.testing.assert_allclose(maps[:, t, best], dense / dense.sum(-1, keepdims=True), atol=2e-5)
        assert np.isclose(maps[:, t].sum(-1), 1, atol=1e-5).all() and (maps[:, t, best] > 0).all()


def test_a_layer_without_a_state_is_replaced_by_the_nearest_one_that_keeps_one(models):
    config = models["hybrid"][0].config
    assert [layer_for("delta", config, i) for i in range(4)] == [0, 1, 2, 2]
    assert [layer_for("gqa", config, i) for i in range(4)] == [3, 3, 3, 3]
    assert [layer_for("sparse", models["sparse"][0].config, i) for i in range(4)] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("end", "message"), [("torch.stack(out, 2)", "returned 1 tensor; the task asks for output and state"),
                         ("torch.stack(out, 1), S", r"has shape \(1, 26, 8, 26\) instead of \(1, 8, 26, 26\)")],
)  # fmt: skip
def test_output_and_state_are_asked_for(models, end, message):
    source = ANSWERS["delta"][0].replace("torch.stack(out, 2), S", end)
    with pytest.raises(Refused, match=message):
        live(models, "delta").maps("delta", names_of(source))


def test_tiled_kv_heads_are_seen_in_the_heads_that_read_another_one(models):
    tiled = ANSWERS["gqa"][0].replace(
        "repeat_interleave(self.n_heads // self.n_kv_heads, 1)", "repeat(1, self.n_heads // self.n_kv_heads, 1, 1)"
    )
    given = live(models, "gqa")
    apart = (given.maps("gqa", names_of(tiled)) - given.maps("gqa", TASKS["gqa"].right)).abs().amax((1, 2))
    assert [h for h in range(8) if apart[h] > 1e-3] == [h for h in range(8) if h % 4 != h // 2]


@pytest.mark.parametrize("task", [t for t in TASKS if t not in WITH_MAPS])
def test_what_has_no_maps_is_run_all_the_same(models, task):
    given = live(models, task)
    assert given.maps(task, TASKS[task].right) is None
    yours, ours = (given.call(task, names).run() for names in (names_of(ANSWERS[task][0]), TASKS[task].right))
    torch.testing.assert_close(yours, ours, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("task", [t for t in WITH_MAPS if t not in ("rope", "flash")])
def test_the_call_that_is_walked_gives_the_right_output(models, task):
    given = live(models, task)
    with torch.no_grad():
        yours, ours = (given.call(task, names).run() for names in (names_of(ANSWERS[task][0]), TASKS[task].right))
    torch.testing.assert_close(yours, ours, atol=1e-4, rtol=1e-3)  # of delta, output and state


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("x = 1", "no GroupedQueryAttention"),
        ("from torch import nn\nclass GroupedQueryAttention(nn.Module):\n    def __init__(self, **_):\n"
         "        super().__init__()", "no parameter k_proj.weight"),
        (ANSWERS["gqa"][0].replace("return self.o_proj(", "return (").replace("reshape(B, T, -1)", "flatten()"), "(1,"),
    ],
)  # fmt: skip
def test_a_wrong_interface_is_reported(models, source, message):
    with pytest.raises(Refused, match=message.replace("(", r"\(")):
        live(models, "gqa").maps("gqa", names_of(source))


def walked(models, tmp_path, task: str, source: str) -> Walk:
    """Record a file's run on the shipped weights line by line, and pack it for the browser."""
    file = tmp_path / f"{task}.py"
    file.write_text(source)
    given = live(models, task, text=SHORT)
    call = given.call(task, load_namespace(file))
    ids = trace_ids(models, task, given.T)
    run = record_file(call.run, str(file), call.module, given.model, ids, LAYER)
    walk = Walk(run, Selection(HEAD, given.mixer.kv_head_of[HEAD], 5, 2, -1))
    data, places = packed(walk, [str(i) for i in ids], given.mixer.n_kv_heads, 0)
    assert len(places) == len(walk.stops) and len(data) < 4_000_000
    return walk


def trace_ids(models, task: str, n: int) -> list[int]:
    return models[checkpoint_for(task, "gqa-4")][1].encode(TEXT)[:n]


@pytest.mark.parametrize(("task", "i"), [(t, i) for t in ANSWERS for i in range(len(ANSWERS[t]))])
@pytest.mark.slow
def test_each_solution_is_walked_and_each_explained_sum_is_right(models, tmp_path, task, i):
    walk = walked(models, tmp_path, task, ANSWERS[task][i])
    assert 2 <= len(walk.stops) <= MAX_LINES and {call.file for call in walk.run.calls} == {f"{task}.py"}
    explained = [shown.arithmetic for stop in walk.stops for shown in stop.shown if shown.arithmetic]
    for how in explained:
        assert how.computed is None or np.isclose(how.computed, how.value, rtol=2e-3, atol=2e-4, equal_nan=True)
    if task in ("gqa", "mha", "self-attention", "mla", "block"):
        with torch.no_grad():
            output = live(models, task, text=SHORT).call(task, names_of(ANSWERS[task][i])).run()
        returned = walk.run.calls[0].returned[-1].value.entries
        np.testing.assert_allclose(returned, output.numpy(), atol=1e-5)


def test_an_operation_in_another_form_is_not_explained_wrongly(models, tmp_path):
    source = ANSWERS["self-attention"][0].replace("softmax(-1)", "softmax(-2)")
    assert source != ANSWERS["self-attention"][0]
    walk = walked(models, tmp_path, "self-attention", source)
    made = [s.arithmetic for stop in walk.stops if "softmax" in stop.operations for s in stop.shown if s.arithmetic]
    over_queries = [how for how in made if how.operation == "softmax"]
    assert over_queries and all(np.isclose(how.computed, how.value, atol=1e-4) for how in over_queries)


def test_a_file_whose_functions_are_not_called_is_reported(models, tmp_path):
    with pytest.raises(ValueError, match="no function of the file"):
        record_file(lambda: None, str(tmp_path / "none.py"), None, models["gqa-4"][0], [1], 0)
