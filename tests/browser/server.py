"""A separate Streamlit server for a test or a benchmark, and the path of Chromium."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CHROMIUM_NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
CHROMIUM_ARGS = (
    "--headless",
    "--no-sandbox",  # tests run as root in containers
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
# Tests load pages once and read them: without V8's optimising compiler, twelve pages took nine tenths of the processor
# time. Garbage is collected less often, and animations have no threads of their own. Not for measurements: the
# benchmarks' Chromium does as a visitor's.
FEWER_OPTIMISATIONS = (
    "--js-flags=--no-opt --semi-space-growth-factor=4 --min-semi-space-size=32",
    "--disable-threaded-animation",
    "--num-raster-threads=1",
)
SECONDS_TO_START = 60.0


@dataclass(frozen=True)
class Server:
    """A running server: its URL, and the file with its output."""

    url: str
    log: Path
    started: float  # time.perf_counter() just before its process was started
    pid: int

    def tracebacks(self) -> list[str]:
        """Return the tracebacks in the log, whether a page showed them or not."""
        text = self.log.read_text(errors="replace")
        return [part.strip() for part in text.split("Traceback (most recent call last):")[1:]]


def chromium() -> str:
    """Return the path of the browser. Tests fail without one; they are not skipped."""
    for name in (os.environ.get("CHROMIUM", ""), *CHROMIUM_NAMES):
        if path := shutil.which(name):
            return path
    raise RuntimeError("No Chromium found: install Debian's package chromium, or name the program in CHROMIUM.")


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@contextmanager
def serve(
    script: str | Path = "app.py",
    *options: str,
    port: int = 0,
    root: Path = ROOT,
    under: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
) -> Iterator[Server]:
    """Run a Streamlit script until the block ends.

    port: a free one by default; root: of the project or of a copy; under: a wrapper command, such as prlimit; env:
    added to the environment.
    """
    port = port or free_port()
    command = [*under, sys.executable, "-m", "streamlit", "run", str(script), f"--server.port={port}"]
    command += ["--server.address=127.0.0.1", "--server.headless=true", "--server.fileWatcherType=none"]
    command += ["--logger.enableRich=false", *options]  # rich, if installed, would colour the tracebacks
    with serving(command, port, root, env) as server:
        yield server


@contextmanager
def serving(command: Sequence[str], port: int, root: Path, env: Mapping[str, str] | None = None) -> Iterator[Server]:
    """Run a command that serves the app on this port, in the folder `root`, until the block ends."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log.txt"
        started = time.perf_counter()
        with log.open("wb") as file:
            process = subprocess.Popen(
                command, cwd=root, env={**os.environ, **(env or {})}, stdout=file, stderr=subprocess.STDOUT
            )
        server = Server(f"http://127.0.0.1:{port}", log, started, process.pid)
        try:
            _wait_until_healthy(server, process)
            yield server
        finally:
            process.terminate()
            process.wait(15)


def _wait_until_healthy(server: Server, process: subprocess.Popen) -> None:
    while time.perf_counter() < server.started + SECONDS_TO_START and process.poll() is None:
        try:
            with urllib.request.urlopen(f"{server.url}/_stcore/health", timeout=1) as answer:
                if answer.read() == b"ok":
                    return
        except OSError:
            time.sleep(0.02)
    raise RuntimeError(f"The server did not start:\n{server.log.read_text(errors='replace')}")
