"""The user's own code file: which requests may run it, and its results on the shipped weights."""

import json
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from attnviz.compute import own_code
from attnviz.compute.view import View
from attnviz.practice import child_on_shipped, on_shipped
from attnviz.session.settings import Settings
from attnviz.ui.run_user_file import packed
from tests.practice.answers import ANSWERS

ROOT = Path(__file__).parents[2]


def test_the_file_comes_from_the_environment_alone(monkeypatch, tmp_path):
    monkeypatch.delenv("ATTNVIZ_CODE", raising=False)
    assert own_code.own_file() is None
    monkeypatch.setenv("ATTNVIZ_CODE", str(tmp_path / "gqa.py"))
    assert own_code.own_file() == tmp_path / "gqa.py"
    assert own_code.stamp_of(tmp_path / "gqa.py") == (0, 0)
    assert not any("code" in name for name in Settings().to_link())


def test_make_hands_the_file_on_and_binds_to_loopback():
    def said(*given: str) -> str:
        command = ["make", "--dry-run", "--always-make", "--directory", str(ROOT), "run", *given]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    own = said("CODE=practice/gqa.py", "ARGS=--server.port=8600")
    assert f"ATTNVIZ_CODE='{ROOT / 'practice' / 'gqa.py'}'" in own
    assert "--server.address=localhost --server.port=8600" in own
    assert "ATTNVIZ_CODE" not in said()


def written(folder, task: str, source: str):
    file = folder / f"{task}.py"
    file.write_text(f'TASK = "{task}"\n{source}')
    return file


VIEW = View(Settings(text="The little girl found a red ball. The little girl found a ball.", layer=1, head=3))


@pytest.mark.slow
def test_a_file_is_shown_with_its_maps_and_its_lines(tmp_path):
    tiled = ANSWERS["gqa"][0].replace(
        "repeat_interleave(self.n_heads // self.n_kv_heads, 1)", "repeat(1, self.n_heads // self.n_kv_heads, 1, 1)"
    )
    file = written(tmp_path, "gqa", tiled)
    assert own_code.task_of(file, "mha") == "gqa" and own_code.task_of(tmp_path / "none.py", "mha") == "mha"
    look = own_code.run_on_weights(VIEW, file, "gqa")
    assert [apart > 1e-3 for apart in look.max_difference] == [h % 4 != h // 2 for h in range(8)]
    yours, right = look.maps[3]
    n = len(look.labels)
    assert np.isclose(sum(w for w in yours[-1] if w is not None), 1, atol=2e-3)
    assert all(right[i][j] is None for i in range(n) for j in range(i + 1, n))
    (size,) = struct.unpack("<I", look.found.walk[:4])
    header = json.loads(look.found.walk[4 : 4 + size])
    made = [shown["name"] for stop in header["stops"] for shown in stop["shown"]]
    assert {"q", "k", "v", "mask", "out"} <= set(made) and header["calls"][0]["file"] == "gqa.py"
    assert len(look.found.places) == len(header["stops"]) and "The call begins" in header["stops"][0]["does"]
    assert own_code.run_on_weights(VIEW, file, "gqa") is look  # until it is saved again


@pytest.fixture
def in_this_process(monkeypatch):
    """Run the file in this process, which has everything imported, where process isolation is not tested."""

    def run(command, folder, *limits, path):
        child_on_shipped.run(*map(Path, command[-2:]), packed)
        return 0

    monkeypatch.setattr(child_on_shipped, "limit", lambda: None)
    monkeypatch.setattr(on_shipped, "run_limited", run)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setitem(sys.modules, "answer", None)


@pytest.mark.slow
def test_the_state_of_the_nearest_layer_that_keeps_one_is_read_as_signed_maps(tmp_path, in_this_process):
    """Layer 3 of the hybrid attends. The decay after the write changes weights by less than what shows of a softmax."""
    decayed = "        S = S * decay[:, :, t, None, None]\n"
    late = ANSWERS["delta"][0].replace(decayed, "").replace(", kt, new)\n", f", kt, new)\n{decayed}")
    view = VIEW.but(layer=7, head=3)  # of a deeper model: it is the last one here
    right = own_code.run_on_weights(view, written(tmp_path, "delta", ANSWERS["delta"][0]), "delta")
    wrong = own_code.run_on_weights(view, written(tmp_path, "delta-late", late), "delta")
    assert (right.checkpoint, right.asked, right.layer, right.top_k) == ("hybrid", 3, 2, None)
    assert right.found.right.min() < 0 and right.found.right.shape == (8, len(right.labels), len(right.labels))
    largest = float(np.abs(right.found.right).max())
    assert np.isclose(right.least_shown, own_code.LEAST_SHOWN * largest) and largest < 0.5
    assert max(right.max_difference) < right.least_shown < max(wrong.max_difference)
    assert len(right.found.places) > 20 and right.mixer.kv_head_of == (0, 0, 1, 1, 2, 2, 3, 3)


@pytest.mark.slow
def test_an_indexers_keys_are_a_quarter_of_a_short_text(tmp_path, in_this_process):
    look = own_code.run_on_weights(VIEW, written(tmp_path, "sparse", ANSWERS["sparse"][0]), "sparse")
    n = len(look.labels)
    assert (look.checkpoint, look.layer, look.top_k, look.mixer.top_k) == ("sparse", 1, n // 4, 32)
    assert max(look.max_difference) < look.least_shown
    kept = (look.found.yours > 0).sum(-1)
    assert (kept == np.minimum(np.arange(1, n + 1), n // 4)).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "maps", "walk"),
    [
        ("raise RuntimeError('here')", "here", "here"),
        ("def rms_norm(x, weight, eps=1e-6):\n    return x * nothing", "", "nothing"),
    ],
)
def test_what_goes_wrong_is_said(tmp_path, in_this_process, source, maps, walk):
    says_what_goes_wrong(tmp_path, source, maps, walk)


@pytest.mark.slow
def test_what_never_ends_is_stopped_and_said(tmp_path, monkeypatch):
    """It is stopped from outside, whatever it does, so it is not given the time to import torch."""
    monkeypatch.setattr(on_shipped, "SECONDS", 0.5)
    says_what_goes_wrong(tmp_path, "while True:\n    pass", "after 0.5 s", "after 0.5 s")


def says_what_goes_wrong(tmp_path, source, maps, walk):
    task = "rms-norm" if "rms_norm" in source else "gqa"
    look = own_code.run_on_weights(VIEW, written(tmp_path, task, source), task)
    assert look.found.yours is None and look.found.walk == b""
    assert maps in look.found.maps_problem and walk in look.found.walk_problem


@pytest.mark.slow
def test_loops_over_tokens_are_walked_as_far_as_is_shown(tmp_path, in_this_process):
    view = View(Settings(text="The little girl found a red ball.", layer=1, head=3))
    look = own_code.run_on_weights(view, written(tmp_path, "attention", ANSWERS["attention"][0]), "attention")
    assert max(look.max_difference) < 1e-3 and 50 < len(look.found.places) <= 200
