"""Files that try to pass without the right outputs, and files that go wrong, each judged in a process of its own."""

import time

import psutil
import pytest

from attnviz.practice.__main__ import main, told
from attnviz.practice.judge import judge, printable, task_named_in
from attnviz.practice.tasks import TASKS
from tests.practice.answers import ANSWERS

pytestmark = pytest.mark.slow  # each judges in a process that imports torch

RIGHT = ANSWERS["rms-norm"][0]
WRONG = "def rms_norm(x, weight, eps=1e-6):\n    return x\n"
HOSTILE = {
    "ends with exit code 0": "import os\nos._exit(0)",
    "ends in the middle": RIGHT.replace("    return", "    import os; os._exit(0)\n    return"),
    "raises SystemExit": "import sys\nprint('6 of 6 checks passed')\nsys.exit(0)",
    "prints a verdict": "print('pass  all\\n5 of 5 checks passed.\\x1b[2J')\n" + WRONG,
    "patches torch": "import torch\ntorch.allclose = lambda *a, **k: True\n"
    "torch.Tensor.__le__ = lambda *a: torch.ones(1)"
    "\ntorch.Tensor.all = lambda *a: True\n" + WRONG,
    "patches what writes": "import sys\nchild = sys.modules['__main__']\nchild.run_steps = lambda *a: []\n" + WRONG,
    "writes no tensor": "import sys, os, pathlib\nout = pathlib.Path(sys.argv[1]) / 'out'\n"
    "for i in range(5):\n    (out / f'{i}.safetensors').write_bytes(b'passed')\nos._exit(0)",
    "links to the inputs": "import sys, os, pathlib\nroot = pathlib.Path(sys.argv[1])\n"
    "for i in range(5):\n    os.symlink(root / 'inputs.safetensors', root / 'out' / f'{i}.safetensors')\nos._exit(0)",
    "puts a pipe there": "import sys, os\nfor i in range(5):\n"
    "    os.mkfifo(sys.argv[1] + f'/out/{i}.safetensors')\nos._exit(0)",
    "does not parse": "def rms_norm(x, weight, eps=1e-6:\n    return x",
    "defines nothing": "x = 1",
    "returns no tensor": "def rms_norm(x, weight, eps=1e-6):\n    return 'right'",
    "always equal": "class Equal:\n    shape = property(lambda s: s)\n    __eq__ = lambda *a: True\n"
    "def rms_norm(x, weight, eps=1e-6):\n    return Equal()",
    "NaN": "def rms_norm(x, weight, eps=1e-6):\n    return x * float('nan')",
    "kills its parent's group": "import os, signal\nos.killpg(0, signal.SIGTERM)\n" + RIGHT,
    "zero bytes": "\0\0\0",
    "recursion": "def rms_norm(x, weight, eps=1e-6):\n    return rms_norm(x, weight)",
}


@pytest.fixture
def written(tmp_path):
    def write(source: str, name: str = "answer.py"):
        file = tmp_path / name
        file.write_text(source)
        return file

    return write


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_never_passes(name, written, capsys):
    file = written(HOSTILE[name])
    assert main(["check", str(file), "--task", "rms-norm"]) != 0
    said = capsys.readouterr().out
    assert "\x1b" not in said and len(said) > 100


def test_a_right_file_passes_and_leaves_nothing(written, capsys):
    file = written(f'TASK = "rms-norm"\n{RIGHT}')
    assert main(["check", str(file)]) == 0
    assert "5 of 5 checks passed" in capsys.readouterr().out
    assert not psutil.Process().children(recursive=True)


@pytest.mark.parametrize("name", ["gqa", "cache"])
def test_right_files_pass_in_their_process(name, written):
    verdict = judge(written(ANSWERS[name][0]), TASKS[name], seconds=60)
    assert verdict.passed, told(written("x"), TASKS[name], verdict)


def test_a_mistake_is_named(written, capsys):
    tiled = ANSWERS["gqa"][0].replace("repeat_interleave(self.n_heads // self.n_kv_heads, 1)",
                                      "repeat(1, self.n_heads // self.n_kv_heads, 1, 1)")  # fmt: skip
    assert tiled != ANSWERS["gqa"][0]
    assert main(["check", str(written(tiled)), "--task", "gqa"]) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert "Your output equals ours with the KV heads tiled" in said and "tiled_kv_heads" in said


@pytest.mark.parametrize(
    "hang",
    [
        "while True: pass",
        "import time, signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(60)",
        "import os, time\nfor _ in range(5):\n    os.fork()\ntime.sleep(60)",
        "import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        time.sleep(60)\n"
        "    os._exit(0)\n"
        "time.sleep(60)",
    ],
)
def test_what_hangs_is_stopped_with_all_it_started(hang, written):
    started = time.monotonic()
    verdict = judge(written(hang), TASKS["rms-norm"], seconds=5)
    assert not verdict.passed and ("5 s" in verdict.problem or "2 GiB" in verdict.problem)
    assert time.monotonic() - started < 30
    assert not psutil.Process().children(recursive=True)


@pytest.mark.parametrize(
    "eat",
    [
        "import torch\nx = [torch.ones(2**26) for _ in range(100)]",
        "x = bytearray(8 * 2**30)",
        "import os, time\nos.fork()\nx = bytearray(b'1') * (1400 * 2**20)\ntime.sleep(60)",
    ],
)
def test_memory_is_bounded(eat, written):
    verdict = judge(written(eat + "\n" + RIGHT), TASKS["rms-norm"], seconds=60)
    assert not verdict.passed and ("memory" in verdict.problem or "2 GiB" in verdict.problem)


def test_a_disk_is_not_filled(written):
    verdict = judge(written("while True:\n    print('x' * 10**6)"), TASKS["rms-norm"], seconds=20)
    assert not verdict.passed and len(verdict.printed) <= 2**16


def test_flash_passes_in_tiles_and_not_at_once(written):
    assert judge(written(ANSWERS["flash"][0]), TASKS["flash"], seconds=90).passed
    whole = """
import torch
def flash_attention(q, k, v, block, mask=None):
    mask = torch.ones(len(q), len(k)).tril().bool() if mask is None else mask
    return torch.nan_to_num((q @ k.T / q.shape[1] ** 0.5).masked_fill(~mask, float("-inf")).softmax(-1)) @ v
"""
    verdict = judge(written(whole), TASKS["flash"], seconds=90)
    assert [row.passed for row in verdict.checks] == [True] * 4 + [False]
    assert "memory" in verdict.checks[-1].came


def test_a_skeleton_is_written_once(tmp_path, capsys):
    assert main(["new", "self-attention", "--folder", str(tmp_path / "mine")]) == 0
    file = tmp_path / "mine" / "self_attention.py"
    assert task_named_in(file) == "self-attention" and "def forward(self, x, mask=None)" in file.read_text()
    file.write_text("mine")
    assert main(["new", "self-attention", "--folder", str(tmp_path / "mine")]) == 2 and file.read_text() == "mine"
    assert main(["check", str(file)]) == 2 and "--task" in capsys.readouterr().err
    assert main(["check", str(tmp_path / "none.py"), "--task", "gqa"]) == 2


def test_what_a_terminal_would_act_on_is_taken_out():
    assert printable("a\x1b[31mb\x1b]0;x\x07\rc\u202ed\n") == "ab0;xcd\n"
