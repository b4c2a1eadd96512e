"""Judge a file: compare its outputs, computed in a separate process, with those of AttnViz's modules.

The child (child.py) only computes outputs. The right outputs are computed here and never written where the child could
read them. The inputs are drawn again for every judgement, so that hard-coded results do not pass.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import secrets
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from tokenize import detect_encoding
from typing import Any

import psutil
import torch
from safetensors.torch import load, save_file
from torch import Tensor

from attnviz.phrases import count
from attnviz.practice.child import EXTRA_MEMORY
from attnviz.practice.diagnosis import Diagnosis, diagnose, failing_argument
from attnviz.practice.task import SECONDS, Case, Task, printable
from attnviz.trace import use_one_thread

MEMORY = 2 * 2**30  # bytes, of all processes of a file together
LARGEST_FILE, LARGEST_OUTPUT = 2**20, 2**26  # bytes: of a learner's file; of the child's output for one case
NOT_WRITTEN = "not written yet"
_RUN_LOCK = threading.Lock()
TASK_LINE = re.compile(r"""^(?:# )?TASK\s*=\s*["']([a-z-]+)["']""", re.MULTILINE)


@dataclass(frozen=True)
class Check:
    """One row of the verdict."""

    label: str
    expected: str
    got: str
    passed: bool


@dataclass(frozen=True)
class Verdict:
    """The result of judging a file. problem: a sentence if the file could not be judged.

    pattern: a sentence on the checks that fail, if no known mistake explains all of them.
    """

    checks: tuple[Check, ...] = ()
    problem: str = ""
    diagnosis: Diagnosis | None = None
    pattern: str = ""
    printed: str = ""
    seed: int = 0

    @property
    def passed(self) -> bool:
        return not self.problem and bool(self.checks) and all(check.passed for check in self.checks)


class Ended(Exception):
    """The child was stopped; the message says why."""


def unusable(file: Path) -> str:
    """Say why a file cannot be judged, in one sentence; "" if it can. It is read, not run."""
    try:
        if not file.exists():
            return f"There is no file {file.absolute()}."
        if not stat.S_ISREG(file.stat().st_mode):
            return f"{file} is {'a folder' if file.is_dir() else 'not a regular file'}; a Python file is judged."
        if (size := file.stat().st_size) > LARGEST_FILE:
            return f"{file} has {size:,} bytes; at most {LARGEST_FILE:,} are allowed."
        written = file.read_bytes()
    except OSError as error:
        return f"{file} cannot be read: {error.strerror}."
    if not written.strip():
        return f"{file} is empty."
    try:
        binary = b"\0" in written or not written.decode(detect_encoding(BytesIO(written).readline)[0])
    except (SyntaxError, UnicodeDecodeError, LookupError):
        binary = True
    return f"{file} is no Python source: it has bytes that are not text." if binary else ""


def task_named_in(file: Path) -> str | None:
    """Return the task in the file's line # TASK = "…", or None. The file is read, not run."""
    try:
        match = TASK_LINE.search(file.read_bytes()[:LARGEST_FILE].decode("utf-8", "replace"))
    except OSError:
        return None
    return match[1] if match else None


Tick = Callable[[float, str], None]  # called while a file runs: with the seconds so far and what runs


def judge(
    file: Path, task: Task, seed: int | None = None, seconds: float = SECONDS, memory: int = MEMORY,
    tick: Tick | None = None,
) -> Verdict:  # fmt: skip
    """Run the file on inputs drawn with the seed (random by default) and compare its outputs with the right ones."""
    seed = secrets.randbelow(2**31) if seed is None else seed
    use_one_thread()
    if problem := unusable(file):
        return Verdict(problem=problem, seed=seed)
    cases = task.cases(seed)
    right = [case.run(task.right) for case in cases]  # before a line of the file has run
    with tempfile.TemporaryDirectory(prefix="practice-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        (folder / "out").mkdir()
        tensors = {
            f"{i}:{key}": t.clone(memory_format=torch.contiguous_format)
            for i, case in enumerate(cases)
            for key, t in case.tensors.items()
        }
        save_file(tensors, folder / "inputs.safetensors")
        (folder / "cases.json").write_text(json.dumps([case.steps for case in cases]), encoding="utf-8")
        ended = ""
        try:
            command = [
                sys.executable,
                "-I",
                "-X",
                "utf8",
                str(Path(__file__).with_name("child.py")),
                str(folder),
                str(file.resolve()),
            ]

            def report(so_far: float) -> None:
                if tick:
                    begun = len(list((folder / "out").glob("*.begun")))
                    at = f"check {begun} of {len(cases)}: {cases[begun - 1].label}" if begun else "the file is read"
                    tick(so_far, at)

            code = run_limited(command, folder, seconds, memory, report)
            ended = f"the process ended with exit code {code} before the case was computed"
        except Ended as error:
            ended = str(error)
        printed = printable(bounded(folder / "printed", 2**16).decode("utf-8", "replace"))
        whole = error_in(folder / "out" / "file.json")
        if whole:
            return Verdict(problem=f"The file could not be run: {whole}", printed=printed, seed=seed)
        outputs = [_outputs(folder / "out", i, case, ended) for i, case in enumerate(cases)]
    checks = tuple(_check(*each) for each in zip(cases, right, outputs, strict=True))
    problem = ""
    if not any(isinstance(each, list) for each in outputs) and len(set(map(str, outputs))) == 1:
        problem = f"No case could be computed: {outputs[0]}"
    nothing_wrong = all(check.passed for check in checks) or NOT_WRITTEN in problem
    diagnosis = None if nothing_wrong else diagnose(task, cases, right, outputs)
    explained = problem or (diagnosis and diagnosis.whole)
    pattern = "" if explained else failing_argument(cases, [check.passed for check in checks])
    return Verdict(checks, problem, diagnosis, pattern, printed, seed)


def run_limited(
    command: list[str], folder: Path, seconds: float, memory: int, tick: Callable[[float], object] = lambda _: None,
    path: str = "",
) -> int:  # fmt: skip
    """Run a command in this folder and return its exit code. Raises Ended, with the reason, if it was stopped.

    Its output goes to the file "printed" there. One command runs at a time, because the processes it starts are
    recognised by not having existed before. tick: called with the seconds so far, again and again. path: PYTHONPATH.
    """
    inherited = ("PATH", "HOME", "LANG", "SYSTEMROOT", "USERPROFILE", "TEMP", "LD_LIBRARY_PATH")
    environment = {key: value for key, value in os.environ.items() if key in inherited}
    environment |= {"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1", "TMPDIR": str(folder)}
    environment |= {"PYTHONPATH": path} if path else {}
    with _RUN_LOCK, (folder / "printed").open("wb") as printed:
        _adopt_orphans()
        me = psutil.Process()
        before = set(me.children(recursive=True))
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=printed, stderr=subprocess.STDOUT, env=environment,
            cwd=folder, start_new_session=True,
        )  # fmt: skip
        try:
            return _watch(child, me, before, seconds, memory, tick)
        finally:
            _kill(child, me, before)


def _watch(
    child: subprocess.Popen, me: psutil.Process, before: set[psutil.Process], seconds: float, memory: int,
    tick: Callable[[float], object],
) -> int:  # fmt: skip
    begin = time.monotonic()
    while True:
        try:
            return child.wait(0.05)
        except subprocess.TimeoutExpired:
            pass
        tick(time.monotonic() - begin)
        if time.monotonic() > begin + seconds:
            raise Ended(f"stopped after {seconds:g} s, the time limit")
        if sum(map(_resident, set(me.children(recursive=True)) - before)) > memory:
            raise Ended(f"stopped above {memory / 2**30:g} GiB, the limit of all its processes together")


def _resident(process: psutil.Process) -> int:
    try:
        return process.memory_info().rss
    except psutil.Error:  # the process has ended
        return 0


def _kill(child: subprocess.Popen, me: psutil.Process, before: set[psutil.Process]) -> None:
    """Kill the child's process group, and processes that left the group."""
    for _ in range(100):
        if os.name == "posix":
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(child.pid, signal.SIGKILL)
        left = set(me.children(recursive=True)) - before
        for process in left:
            with suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(left, 0.2)
        if not set(me.children(recursive=True)) - before:
            break
    child.wait()


def _adopt_orphans() -> None:
    """Make this process adopt orphaned descendants, so that they can be found and killed (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER


def bounded(path: Path, limit: int) -> bytes:
    """Read at most `limit` bytes of a regular file; b"" for a link, a pipe or a folder that the child created."""
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            return b""
        with path.open("rb") as file:
            return file.read(limit)
    except OSError:
        return b""


def error_in(path: Path) -> str:
    """Return the child's error report as one sentence, or "" if there is none."""
    raw = bounded(path, 2**16)
    if not raw:
        return ""
    try:
        report: Any = json.loads(raw)
        kind, message, line = str(report["kind"]), str(report["message"]), report["line"]
    except (ValueError, KeyError, TypeError):
        return "the process wrote an invalid error report."
    where = f" in line {line}" if isinstance(line, int) else ""
    text = " ".join(printable(message).split())[:300]
    if kind == "Refused":
        return text
    if kind == "NotImplementedError" and not text:
        return f"{NOT_WRITTEN} (NotImplementedError{where})"
    if kind == "SystemExit":
        return f"it exits the program{where} (SystemExit)."
    if kind == "MemoryError" or "can't allocate memory" in text:
        return f"out of memory{where}: the limit is {EXTRA_MEMORY / 2**30:g} GiB, beside what torch itself uses."
    return f"{printable(kind)[:60]}{where}: {text or 'no message'}"


def _outputs(out: Path, i: int, case: Case, ended: str) -> list[Tensor] | str:
    """Return the child's outputs for case i, or a sentence that says why there are none."""
    error = error_in(out / f"{i}.json")
    if error:
        return error
    raw = bounded(out / f"{i}.safetensors", LARGEST_OUTPUT + 1)
    if not raw:
        begun = (out / f"{i}.begun").exists() or not any(out.glob("*.begun"))
        return ended if begun else "not reached"
    try:
        tensors = load(raw)
        return case.ordered([tensors[str(n)] for n in range(len(tensors))])
    except Exception as wrong:  # noqa: BLE001, the child may have written anything
        return f"the process wrote an invalid tensor file ({type(wrong).__name__})"


def _check(case: Case, right: list[Tensor], outputs: list[Tensor] | str) -> Check:
    expected = "; ".join(_short(each) for each in right)
    if isinstance(outputs, str):
        return Check(case.label, expected, outputs, False)
    if len(outputs) != len(right):
        return Check(case.label, expected, f"{count(len(outputs), 'tensor')} instead of {len(right)}", False)
    names = case.outputs if 1 < len(right) == len(case.outputs) else [""] * len(right)
    for name, f, r in zip(names, outputs, right, strict=True):
        if text := difference(f, r, case.tolerance):
            return Check(case.label, expected, f"{name}: {text}" if name else text, False)
    apart = max(
        (float((f.double() - r.double()).abs().max()) for f, r in zip(outputs, right, strict=True)), default=0.0
    )
    return Check(case.label, expected, f"equal, largest difference {apart:.0e}", True)


def difference(output: Tensor, right: Tensor, tolerance: float) -> str:
    """Describe how an output differs from the right one; "" if it does not."""
    if output.shape != right.shape:
        return f"shape {tuple(output.shape)}"
    if output.is_complex():
        return f"numbers of type {output.dtype}"
    a, b = output.double(), right.double()
    close = (a - b).abs() <= tolerance + tolerance * b.abs()  # False for NaN
    if bool(close.all()):
        return ""
    if not output.ndim:
        return f"{output.item():,} instead of {right.item():,}"
    first = (~close).nonzero()[0].tolist()
    at = f"[{', '.join(map(str, first))}]: {float(a[tuple(first)]):.4g} instead of {float(b[tuple(first)]):.4g}"
    if bool(a.isnan().any()):
        return f"{int(a.isnan().sum()):,} of {a.numel():,} are NaN; first wrong at {at}"
    return f"{int((~close).sum()):,} of {a.numel():,} differ, by up to {float((a - b).abs().max()):.2g}; first at {at}"


def _short(tensor: Tensor) -> str:
    if tensor.ndim == 0:
        return f"{tensor.item():,}"
    start = ", ".join(f"{float(x):.3g}" for x in tensor.flatten()[:2])
    return f"{tuple(tensor.shape)} {start} …"
