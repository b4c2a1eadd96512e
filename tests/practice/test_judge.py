"""Judge files that try to pass without the right outputs, and files that fail, each in a separate process."""

import os
import sys
import time
from contextlib import redirect_stdout
from pathlib import Path

import psutil
import pytest
import torch

from attnviz.practice import child
from attnviz.practice.__main__ import main
from attnviz.practice.child import EXTRA_MEMORY
from attnviz.practice.judge import judge, printable, run_limited, task_named_in
from attnviz.practice.task import LIMITS, SECONDS
from attnviz.practice.tasks import TASKS
from attnviz.practice.tasks.flash import MANY_KEYS, MANY_QUERIES
from attnviz.practice.verdict_text import verdict_text
from tests.practice.answers import ANSWERS
from tests.practice.styles import STYLES

pytestmark = pytest.mark.slow  # most start a process, and some of these import torch

RIGHT = ANSWERS["rms-norm"][0]
WRONG = "def rms_norm(x, weight, eps=1e-6):\n    return x\n"
HOSTILE = {  # against the child
    "patches torch": "import torch\ntorch.allclose = lambda *a, **k: True\n"
    "torch.Tensor.__le__ = lambda *a: torch.ones(1)"
    "\ntorch.Tensor.all = lambda *a: True\n" + WRONG,
    "patches what writes": "import sys\nchild = sys.modules['__main__']\nchild.run_steps = lambda *a: []\n" + WRONG,
}
AGAINST_THE_PARENT = {
    "puts other things there and ends with exit code 0": "import sys, os, pathlib\nroot = pathlib.Path(sys.argv[1])\n"
    "out = root / 'out'\nos.mkfifo(out / '0.safetensors')\n"
    "os.symlink(root / 'inputs.safetensors', out / '1.safetensors')\n"
    "(out / '2.safetensors').write_bytes(b'passed')\n(out / '3.safetensors').mkdir()\n"
    "print('5 of 5 checks passed.\\x1b[2J', flush=True)\nos._exit(0)",
    "kills its parent's group": "import os, signal\nos.killpg(0, signal.SIGTERM)\n" + RIGHT,
}
HARMLESS = {  # safe to run in this process
    "ends the program": "import sys\nprint('5 of 5 checks passed\\x1b[2J')\nsys.exit(0)",
    "does not parse": "def rms_norm(x, weight, eps=1e-6:\n    return x",
    "always equal": "class Equal:\n    shape = property(lambda s: s)\n    __eq__ = lambda *a: True\n"
    "def rms_norm(x, weight, eps=1e-6):\n    return Equal()",
}


@pytest.fixture
def written(tmp_path):
    def write(source: str, name: str = "answer.py"):
        file = tmp_path / name
        file.write_text(source)
        return file

    return write


@pytest.fixture
def in_this_process(monkeypatch):
    """Run the child's code in this process, which has imported torch, for tests that do not need isolation."""

    def run(command, folder, *limits):
        with (folder / "printed").open("w") as printed, redirect_stdout(printed):
            child.main(*map(Path, command[-2:]))
        return 0

    monkeypatch.setattr(child, "limit", lambda: None)
    monkeypatch.setattr("attnviz.practice.judge.run_limited", run)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setitem(sys.modules, "answer", None)


@pytest.fixture
def forked(monkeypatch):
    """Run the child's code in a fork of this process, which has imported torch: a new process takes 3 s for that."""

    def run(command, folder, *limits):
        pid = os.fork()
        if pid:
            return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        try:
            sys.modules["__main__"] = child
            sys.stdout = (folder / "printed").open("w")
            child.main(*map(Path, command[-2:]))
        finally:
            os._exit(0)

    monkeypatch.setattr("attnviz.practice.judge.run_limited", run)


@pytest.fixture
def nothing_left():
    """Check that no process is left of those that the test has started."""
    before = set(psutil.Process().children(recursive=True))  # of a browser, if tests of pages ran in this process
    yield
    assert not set(psutil.Process().children(recursive=True)) - before


@pytest.fixture
def without_torch(monkeypatch):
    """Let the process run the file and nothing else, for tests of what the parent does: it need not import torch."""

    def run(command, *rest):
        python, *options, runner, folder, file = command
        assert Path(runner) == Path(child.__file__)
        run = "import runpy, sys; runpy.run_path(sys.argv[2])"
        return run_limited([python, *options, "-c", run, folder, file], *rest)

    monkeypatch.setattr("attnviz.practice.judge.run_limited", run)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_never_passes(name, written, capsys, forked):
    never_passes(written(HOSTILE[name]), capsys)


@pytest.mark.parametrize("name", AGAINST_THE_PARENT)
def test_a_file_that_attacks_the_parent_never_passes(name, written, capsys, without_torch):
    never_passes(written(AGAINST_THE_PARENT[name]), capsys)


@pytest.mark.parametrize("name", HARMLESS)
def test_a_wrong_file_never_passes(name, written, capsys, in_this_process):
    never_passes(written(HARMLESS[name]), capsys)


def never_passes(file, capsys):
    assert main(["check", str(file), "--task", "rms-norm"]) != 0
    output = capsys.readouterr().out
    assert "\x1b" not in output and len(output) > 100


def test_a_right_file_passes_and_leaves_nothing(written, capsys, nothing_left):
    file = written(f'TASK = "rms-norm"\n{RIGHT}')
    assert main(["check", str(file)]) == 0
    assert "5 of 5 checks passed" in capsys.readouterr().out


@pytest.mark.parametrize("name", [name for name in TASKS if name != "flash"])  # whose last check takes seconds
def test_right_files_pass(name, written, in_this_process):
    verdict = judge(written(ANSWERS[name][0]), TASKS[name])
    assert verdict.passed, verdict_text(written("x"), TASKS[name], verdict)


def test_a_mistake_is_named(written, capsys, in_this_process):
    tiled = ANSWERS["gqa"][0].replace("repeat_interleave(self.n_heads // self.n_kv_heads, 1)",
                                      "repeat(1, self.n_heads // self.n_kv_heads, 1, 1)")  # fmt: skip
    assert tiled != ANSWERS["gqa"][0]
    assert main(["check", str(written(tiled)), "--task", "gqa"]) == 1
    output = " ".join(capsys.readouterr().out.split())
    assert "Your output equals ours with the KV heads tiled" in output
    assert "With the app running: http://localhost:8501/mistakes?mistake=tiled_kv_heads" in output


def test_without_a_known_mistake_the_argument_is_named_that_the_failing_checks_have_in_common(
    written, capsys, in_this_process
):
    with_eps_doubled = RIGHT.replace("+ eps", "+ (eps if eps < 0.1 else 2 * eps)")
    assert main(["check", str(written(with_eps_doubled)), "--task", "rms-norm"]) == 1
    output = capsys.readouterr().out
    assert "The check with the argument eps fails; every other check passes." in output and "equals ours" not in output


HANGS = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()  # leaves the parent's process group
    if os.fork() == 0:
        time.sleep(60)
    os._exit(0)
time.sleep(60)
"""


def test_what_hangs_is_stopped_with_all_it_started(written, without_torch, nothing_left):
    started = time.monotonic()
    verdict = judge(written(HANGS), TASKS["rms-norm"], seconds=2)
    assert not verdict.passed and "stopped after 2 s, the time limit" in verdict.problem
    assert time.monotonic() - started < 30


FILLS_THE_DISK = """
try:
    while True:
        print('x' * 10**6)
except OSError as error:
    assert 'too large' in str(error)
"""


def test_memory_of_a_process_and_a_file_on_disk_are_bounded(written):
    """In one process: memory is asked for only once the file is full."""
    verdict = judge(written(f"{FILLS_THE_DISK}x = bytearray(8 * 2**30)\n{RIGHT}"), TASKS["rms-norm"], seconds=60)
    assert not verdict.passed and "1 GiB" in verdict.problem and 0 < len(verdict.printed) <= 2**16


def test_memory_of_all_processes_together_is_bounded(written, without_torch):
    eat = "import os, time\nos.fork()\nx = bytearray(b'1') * (150 * 2**20)\ntime.sleep(60)"  # each within the limit
    verdict = judge(written(eat), TASKS["rms-norm"], seconds=60, memory=2**28)
    assert not verdict.passed and "stopped above 0.25 GiB, the limit of all" in verdict.problem


def test_flash_passes_in_tiles_and_would_not_fit_at_once(written):
    """In processes of their own: in a fork of this one, memory that was freed before would hold all scores."""
    verdict = judge(written(ANSWERS["flash"][0]), TASKS["flash"], seconds=90)
    assert verdict.passed and "all scores at once would not fit" in verdict.checks[-1].label
    assert 4 * MANY_QUERIES * MANY_KEYS > EXTRA_MEMORY  # scores in float32
    at_once = "def flash_attention(q, k, v, block, mask=None):\n    return q @ k.mT @ v\n"
    assert "the limit is 1 GiB" in judge(written(at_once), TASKS["flash"], seconds=90).checks[-1].got


def test_watching_judges_at_every_save_until_it_is_ended(written, monkeypatch):
    file, judged, naps = written("one"), [], iter(("one", "two", "two", None))

    def nap(seconds):
        text = next(naps)
        if text is None:
            raise KeyboardInterrupt
        if file.read_text() != text:
            file.write_text(text)
            os.utime(file, ns=(1, 1))

    def check(file, task, seed=None):
        judged.append((file.read_text(), seed))
        return len(judged)

    monkeypatch.setattr("attnviz.practice.__main__.check", check)
    monkeypatch.setattr("time.sleep", nap)
    assert main(["check", str(file), "--task", "gqa", "--watch", "--seed", "7"]) == 2
    assert judged == [("one", 7), ("two", 7)]


def test_a_skeleton_is_written_once(tmp_path, capsys):
    assert main(["new", "self-attention", "--folder", str(tmp_path / "mine")]) == 0
    file = tmp_path / "mine" / "self_attention.py"
    assert task_named_in(file) == "self-attention" and "def forward(self, x, mask=None)" in file.read_text()
    file.write_text("mine")
    assert main(["new", "self-attention", "--folder", str(tmp_path / "mine")]) == 2 and file.read_text() == "mine"
    assert main(["check", str(file)]) == 2 and "--task" in capsys.readouterr().err
    assert main(["check", str(tmp_path / "none.py"), "--task", "gqa"]) == 2


def test_terminal_control_characters_are_removed():
    assert printable("a\x1b[31mb\x1b]0;x\x07\rc\u202ed\n") == "ab0;xcd\n"


def test_a_right_loop_over_queries_and_tiles_passes_in_half_the_time(written):
    """It took 23 s of 20 with tiles of 512 keys."""
    verdict = judge(written(STYLES["flash"]["loops over queries and tiles"]), TASKS["flash"], seconds=SECONDS / 2)
    assert verdict.passed, verdict.checks


def test_what_runs_is_reported_while_it_runs(written):
    told: list[tuple[float, str]] = []
    file = written("import time\ntime.sleep(0.3)\n" + RIGHT.replace("    return", "    time.sleep(0.2)\n    return"))
    assert judge(file, TASKS["rms-norm"], tick=lambda *at: told.append(at)).passed
    n = len(TASKS["rms-norm"].cases(0))
    checks = [at for _, at in told if at.startswith("check ")]
    assert told[0][1] == "the file is read" and told == sorted(told, key=lambda each: each[0])
    assert {at.partition(":")[0] for at in checks} == {f"check {i} of {n}" for i in range(1, n + 1)}


def test_the_limits_stand_where_the_task_is_read():
    assert all(f"# Limits: {LIMITS}." in task.source() for task in TASKS.values())
    assert f"{SECONDS:.0f} s" in LIMITS and "1 GiB" in LIMITS


def test_a_verdict_is_computed_with_one_thread(tmp_path):
    """On a busy machine of two cores, a second thread's waiting took ten times as long as the computation."""
    torch.set_num_threads(2)
    try:
        judge(tmp_path / "nothing.py", TASKS["rms-norm"])
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(1)


def test_an_unwritten_file_is_not_compared_with_mistakes(tmp_path, monkeypatch):
    """Running all mistaken versions of the task would take seconds before it says that nothing is written yet."""
    monkeypatch.setattr("attnviz.practice.judge.diagnose", lambda *_: pytest.fail("compared with mistakes"))
    file = tmp_path / "gqa.py"
    file.write_text(TASKS["gqa"].source(), encoding="utf-8")
    assert judge(file, TASKS["gqa"]).problem.startswith("No case could be computed: not written yet")
