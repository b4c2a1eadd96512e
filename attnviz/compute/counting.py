"""A config.json that no reader knows, counted by the installed `transformers` in a process of its own.

Only on the user's own machine: a hosted server builds no classes for strangers. One count runs at a time, for at most
SECONDS; its result is kept for all sessions.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from cachetools import LRUCache

from attnviz.config import ConfigError
from attnviz.session import openable

CHILD = Path(__file__).parents[1] / "counting" / "__main__.py"
SECONDS = 30.0  # of a count, torch's and transformers' imports included
KEPT = 16  # counts
FIRST_STAGE = "a Python process is started"
_INHERITED = ("PATH", "HOME", "LANG", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "SYSTEMROOT", "USERPROFILE")
_RUNNING = threading.Semaphore(1)


class BeingCounted(ConfigError):
    """The count of this file has not ended; `count` is it."""

    def __init__(self, count: Count) -> None:
        super().__init__("This configuration is being counted by transformers")
        self.count = count


class Count:
    """A thread that counts one config.json in a process. found: what it has counted; problem: why it has not."""

    def __init__(self, config: dict[str, Any], seconds: float = SECONDS) -> None:
        self.found: dict[str, Any] | None = None
        self.problem, self.stage = "", FIRST_STAGE
        self.begun, self.seconds = time.monotonic(), seconds
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(config,), name="counting", daemon=True)
        self._thread.start()

    @property
    def running(self) -> bool:
        """True while nothing is found and the process runs."""
        return self._thread.is_alive()

    @property
    def share(self) -> float:
        """Share of the time limit that has passed, 0 to 1."""
        return min((time.monotonic() - self.begun) / self.seconds, 1.0)

    def stop(self) -> None:
        """End the process; what it has found so far is kept."""
        self._stop.set()

    def join(self) -> None:
        """Wait for the end."""
        self._thread.join()

    def _run(self, config: dict[str, Any]) -> None:
        if not _RUNNING.acquire(timeout=self.seconds):
            self.problem = "another configuration is being counted; try again in half a minute"
            return
        try:
            with tempfile.TemporaryDirectory(prefix="counting-", ignore_cleanup_errors=True) as folder:
                self._count(config, folder)
        finally:
            _RUNNING.release()

    def _count(self, config: dict[str, Any], folder: str) -> None:
        environment = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        environment |= {"TMPDIR": folder, "HF_HOME": folder, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
        child = subprocess.Popen(
            [sys.executable, "-I", "-X", "utf8", str(CHILD)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, env=environment, cwd=folder, start_new_session=True, encoding="utf-8",
        )  # fmt: skip
        ender = threading.Thread(target=self._end, args=(child,), daemon=True)
        ender.start()
        assert child.stdin and child.stdout
        with child.stdin, child.stdout:
            try:
                json.dump(config, child.stdin)
                child.stdin.close()
                for line in child.stdout:
                    self._take(json.loads(line))
            except (OSError, ValueError):  # it has been ended within a line
                pass
        code = child.wait()
        if not self.found and not self.problem:
            self.problem = self._why_ended(code)

    def _take(self, message: dict[str, Any]) -> None:
        self.stage = message.get("stage", self.stage)
        self.found = message.get("counted", self.found)
        self.problem = message.get("problem", self.problem)

    def _why_ended(self, code: int) -> str:
        if self._stop.is_set():
            return "the count was cancelled"
        if time.monotonic() - self.begun > self.seconds:
            return f"it was not counted within {self.seconds:g} s; the last step: {self.stage}"
        return f"the counting process ended with code {code}; the last step: {self.stage}"

    def _end(self, child: subprocess.Popen) -> None:
        """End the process at the time limit or when it is cancelled."""
        while child.poll() is None:
            if self._stop.wait(0.05) or time.monotonic() - self.begun > self.seconds:
                child.kill()
                return


_counts: LRUCache[str, Count] = LRUCache(KEPT)
_lock = threading.Lock()


def why_not() -> str:
    """Return why no configuration is counted here, and what to do, as a sentence; "" if it can be."""
    if not openable.is_local():
        return "On your own machine, with transformers installed beside AttnViz, it is counted by building it there."
    if find_spec("transformers") is None:
        return "With transformers installed beside AttnViz (pip install transformers), it is counted by building it."
    return ""


def counted(config: dict[str, Any]) -> dict[str, Any]:
    """Return the counts of this configuration. BeingCounted until they are there, ConfigError if there are none."""
    key = json.dumps(config, sort_keys=True)
    with _lock:
        count = _counts.get(key)
        if count is None:
            count = _counts[key] = Count(config)
    if count.running:
        raise BeingCounted(count)
    if count.found is None:
        raise ConfigError(count.problem)
    return count.found


def forget(config: Any) -> None:
    """Count this configuration again when it is asked for, unless it has been counted or is being."""
    key = json.dumps(config, sort_keys=True)
    with _lock:
        count = _counts.get(key)
        if count is not None and not count.running and count.found is None:
            del _counts[key]
