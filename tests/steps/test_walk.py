"""The walk: which tensor of a line is shown at first, and what it was made from."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from attnviz.checkpoints import load_checkpoint
from attnviz.steps import Selection, Walk, record, record_file

IDS = (5, 17, 5, 17, 101, 3, 5)


@pytest.fixture(scope="module", params=["gqa-4", "mla"])
def walk(request) -> Walk:
    return Walk(record(load_checkpoint(request.param)[0], IDS, 1), Selection(3, 0, 4, 2))


def stop_of(walk: Walk, code: str):
    """Return the first stop whose line contains the code."""
    for stop in walk.stops:
        call = walk.run.calls[stop.line.call]
        if code in "\n".join(call.source.splitlines()[stop.line.number - call.first : stop.line.last - call.first + 1]):
            return stop
    raise AssertionError(f"no line contains {code}")


def sources(stop, name: str) -> list[str]:
    return [source.name for shown in stop.shown if shown.name == name for source in shown.sources]


def test_the_softmax_is_shown_at_first_and_made_from_the_scores(walk):
    stop = stop_of(walk, ".softmax(-1) * sees")
    assert stop.shown[stop.opens].name == "softmax(…)"
    assert stop.shown[stop.opens].arithmetic.operation == "softmax"
    assert sources(stop, "softmax(…)") == ["scores"] and sources(stop, "weights") == ["softmax(…)", "sees"]
    (softmax,) = [shown for shown in stop.shown if shown.name == "softmax(…)"]
    masked = softmax.sources[0].picture.value.entries  # the scores after the mask was added
    assert np.isneginf(masked[0, 0, 0, 1:]).all()


def test_another_line_opens_with_its_last_tensor(walk):
    others = [stop for stop in walk.stops if stop.shown[stop.opens] is not stop.shown[-1]]
    assert others == [stop_of(walk, ".softmax(-1) * sees")]


def test_a_tensor_is_made_from_each_name_once(walk):
    for stop in walk.stops:
        for shown in stop.shown:
            names = [source.name for source in shown.sources]
            assert len(names) == len(set(names)), names
        chips = [shown.name for shown in stop.shown]
        assert len(chips) == len(set(chips)), chips


def test_a_call_or_an_operation_has_its_own_inputs_only(walk):
    ffn = stop_of(walk, "self.ffn(self.ffn_norm(x))")
    assert sources(ffn, "return") == ["x", "ffn(…)"]
    hidden = stop_of(walk, "F.silu(self.gate_proj(x))")
    assert sources(hidden, "hidden") == ["silu(…)", "2nd linear(…)"]
    assert sources(hidden, "2nd linear(…)") == ["x", "self.up_proj.weight"]
    output = stop_of(walk, "self.o_proj(output")
    assert sources(output, "return") == ["flatten(…)", "self.o_proj.weight", "output"]
    rotated = stop_of(walk, "torch.cat((a * cos")
    assert sources(rotated, "return") == ["3rd mul(…)", "4th mul(…)"] or sources(rotated, "return") == [
        "1st mul(…)", "2nd mul(…)",
    ]  # fmt: skip


def test_a_line_with_two_calls_shows_for_each_result_its_own_argument():
    walk = Walk(record(load_checkpoint("gqa-4")[0], IDS, 1), Selection(3, 1, 4, 2))
    stop = stop_of(walk, "rope(q, past), rope(k, past)")
    assert sources(stop, "q") == ["q"] and sources(stop, "k") == ["k"]
    assert stop.called == ("Rope.__call__",)


OWN = """
def run(x, ones, twos):
    a = x.softmax(-1) * ones
    b = x.softmax(-1) * twos
    c = x * ones
    d = (x + 1) * ones * ones
    return a + b + c + d
"""


def test_only_an_operation_that_changes_no_entry_is_passed_over(tmp_path):
    file = tmp_path / "own.py"
    file.write_text(OWN)
    space: dict = {}
    exec(compile(OWN, str(file), "exec"), space)
    x = torch.arange(6.0).reshape(2, 3)
    model = load_checkpoint("gqa-4")[0]
    run = record_file(lambda: space["run"](x, torch.ones(3), 2 * torch.ones(3)), str(file), None, model, IDS, 1)
    walk = Walk(run, Selection(0, 0, 0, 0))
    opened = {stop.shown[-1].name: stop.shown[stop.opens].name for stop in walk.stops}
    assert opened["a"] == "softmax(…)" and opened["b"] == "b" and opened["c"] == "c" and opened["d"] == "add(…)"


def axes_of(walk: Walk, code: str, name: str) -> tuple[str, ...]:
    (shown,) = [shown for shown in stop_of(walk, code).shown if shown.name == name]
    return shown.picture.axes


@pytest.mark.parametrize("n", (7, 12))  # gqa-4 rotates 12 pairs: as many as the second text has tokens
def test_axes_named_after_an_ellipsis_are_not_taken_for_others_of_the_same_size(n):
    walk = Walk(record(load_checkpoint("gqa-4")[0], range(n), 1), Selection(3, 1, 4, 2))
    assert axes_of(walk, "a, b = x.chunk(2, dim=-1)", "b") == ("B", "H", "T", "n_pairs")


def test_the_shared_key_of_all_heads_has_an_axis_of_keys():
    walk = Walk(record(load_checkpoint("mla")[0], IDS, 1), Selection(3, 0, 4, 2))
    assert axes_of(walk, "return shared_key.unsqueeze(1)", "return") == ("B", "H", "S", "P")


def test_the_positions_of_the_keys_are_no_batch():
    model = load_checkpoint("gqa-4")[0]
    walk = Walk(record(model.with_config(replace(model.config, sliding_window=3)), IDS, 1), Selection(3, 1, 4, 2))
    assert axes_of(walk, "key = torch.arange(", "key") == ("1", "S")
    assert axes_of(walk, "query = torch.arange(", "query") == ("T", "1")
