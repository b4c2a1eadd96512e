"""Right solutions in other styles pass the judge and have the right maps in each layer; wrong ones have others."""

import pytest
import torch

from attnviz.modules.attention import attend
from attnviz.practice.child import Refused
from attnviz.practice.judge import difference
from attnviz.practice.live import Live, checkpoint_for, layer_for
from attnviz.practice.tasks import TASKS
from attnviz.steps import Selection, Walk, record_file
from attnviz.ui.run_user_file import packed
from tests.practice.answers import ANSWERS
from tests.practice.styles import EACH, GQA_HEAD, STYLES
from tests.practice.test_live import HEAD, TEXT, live, models, names_of  # noqa: F401, a fixture

WITH_ROPE = ("attention", "rope", "flash", "sparse")


def expected(given: Live, task: str) -> torch.Tensor:
    """The weights from the q and k of the run of the shipped model, without any channel."""
    record = given.recorded
    if task == "delta":
        return record.weights[0]
    q, k = (record.q, record.k) if task in WITH_ROPE else (record.q_pre_rope, record.k_pre_rope)
    allowed = torch.ones(given.T, given.T).tril().bool()
    if task == "sparse":
        ranked = record.own["index_scores"][0].masked_fill(~allowed, float("-inf")).sort(-1, descending=True).values
        allowed &= record.own["index_scores"][0] >= ranked[:, given.top_k - 1, None]
    weights = attend(q, k, record.v, allowed).weights[0]
    return weights[[HEAD]] if task in ("self-attention", "flash") else weights


@pytest.mark.parametrize(("task", "style"), EACH)
def test_each_style_passes_the_judge(task, style):
    names = names_of(STYLES[task][style])
    for case in TASKS[task].cases(7):
        if not case.large:
            for found, right in zip(case.run(names), case.run(TASKS[task].right), strict=True):
                assert difference(found, right, case.tolerance) == "", case.label


@pytest.mark.parametrize("layer", [0, 3])  # in layer 0 repeated tokens have equal inputs
@pytest.mark.parametrize(("task", "style"), [(task, style) for task, style in EACH if task != "rms-norm"])
def test_each_style_has_the_maps_of_the_shipped_model(models, task, style, layer):  # noqa: F811
    given = live(models, task, layer_for(task, models[checkpoint_for(task, "gqa-4")][0].config, layer))
    maps = given.maps(task, names_of(STYLES[task][style]))
    torch.testing.assert_close(maps, expected(given, task), atol=2e-5, rtol=0)


@pytest.mark.parametrize("task", ["cache", "mla", "block", "self-attention", "mha"])
def test_the_maps_of_repeated_tokens_are_told_apart(models, task):  # noqa: F811
    given = live(models, task, 0)
    maps = given.maps(task, names_of(ANSWERS[task][0]))
    weights = given.recorded.weights[0] if task in ("cache", "mla") else expected(given, task)
    torch.testing.assert_close(maps, weights, atol=2e-5, rtol=0)


MISTAKES = [  # task, style, line, in its place
    ("gqa", "x @ weight.T", "q, k.repeat_interleave(self.H // self.K, 1)", "q, k.repeat(1, self.H // self.K, 1, 1)"),
    ("gqa", "F.linear with the weights", "self.k_proj, self.v_proj))", "self.k_proj, self.k_proj))"),
    ("gqa", "float64 inside", "math.sqrt(q.shape[-1])", "q.shape[-1]"),
    ("gqa", "in place", "q *= self.D ** -0.5", "q *= 1.0"),
    ("gqa", "one fused weight", "-1, -1).flatten(1, 2)", "-1, -1).transpose(1, 2).flatten(1, 2)"),
    ("gqa", "torch's kernel with enable_gqa", "is_causal=mask is None", "is_causal=False"),
    ("gqa", "views of the transposed weights taken in __init__", "detach().T", "detach().T.clone()"),
    ("block", "residual stream in place, weights read", "self.attn_norm.weight, 1e-6)", "None, 1e-6)"),
    (
        "block",
        "residual stream in place, weights read",
        "y = F.rms_norm(x, (C,), self.attn_norm.weight, 1e-6)",
        "y = x",
    ),
    ("flash", "loops over queries and tiles", "row * factor", "row"),
    ("rope", "in place", "b * angles.cos() + a * angles.sin()", "b * angles.cos() - a * angles.sin()"),
]


@pytest.mark.parametrize(("task", "style", "line", "mistaken"), MISTAKES)
def test_a_mistake_in_another_style_has_other_maps(models, task, style, line, mistaken):  # noqa: F811
    source = STYLES[task][style]
    assert line in source
    given = live(models, task, 0)
    try:
        found = given.maps(task, names_of(source.replace(line, mistaken)))
    except Refused as refused:
        assert "NaN" in str(refused)  # weights copied before they are set: whatever was in memory
        return
    assert float((found - expected(given, task)).abs().max()) > 0.02


@pytest.mark.parametrize(
    ("end", "message"),
    [
        ("return self.o_proj(out), out", "returned 2 tensors; the task asks for the output alone"),
        ("return self.o_proj(out), None", "returned NoneType in a tuple"),
        ("return self.o_proj(out)[0]", r"has shape \(26, 192\) instead of \(1, 26, 192\)"),
        ("return self.o_proj(out) / 0", "contains NaN or ∞"),
    ],
)
def test_what_cannot_be_judged_is_said(models, end, message):  # noqa: F811
    source = GQA_HEAD + (
        "    def forward(self, x, mask=None):\n"
        "        out = self.merged(attended(*self.heads(self.q_proj(x), self.k_proj(x), self.v_proj(x)), mask))\n"
        f"        {end}\n"
    )
    with pytest.raises(Refused, match=message):
        live(models, "gqa").maps("gqa", names_of(source))


@pytest.mark.slow
@pytest.mark.parametrize(("task", "style"), EACH)
def test_each_style_is_walked(models, tmp_path, task, style):  # noqa: F811
    file = tmp_path / "own.py"
    file.write_text(STYLES[task][style])
    given = live(models, task, text=TEXT.partition(".")[0])
    names: dict = {}
    exec(compile(file.read_text(), str(file), "exec"), names)
    call = given.call(task, names)
    before = given.normed.clone(), given.recorded.q.clone(), given.x.clone()
    run = record_file(call.run, str(file), call.module, given.model, [1] * given.T, 1)
    walk = Walk(run, Selection(HEAD, given.mixer.kv_head_of[HEAD], 5, 2, -1))
    assert packed(walk, ["a"] * given.T, given.mixer.n_kv_heads, 0)[0] and len(walk.stops) > 1
    for was, now in zip(before, (given.normed, given.recorded.q, given.x), strict=True):
        assert was.equal(now)  # what the code changes in place is its own
