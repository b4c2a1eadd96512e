"""Several processes of the app behind Debian's nginx, which keeps each person with one of them."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.browser.server import Server, free_port, serve

TEMPLATE = Path(__file__).with_name("nginx.conf")
SECONDS_TO_START = 10.0


@dataclass(frozen=True)
class Proxy:
    """The address people use, and the processes behind it."""

    url: str
    processes: list[Server]
    log: Path

    def process_of(self, person: str) -> Server:
        """The process that answered this person last, by the cookie that nginx gave out."""
        lines = [line.split() for line in self.log.read_text().splitlines()]  # all that were asked stand in the middle
        address = [asked[-1] for who, *asked, _ in lines if who == person][-1]
        return next(process for process in self.processes if process.url.endswith(address))


@contextmanager
def behind_proxy(n_processes: int = 2, port: int = 0) -> Iterator[Proxy]:
    """Start the processes and nginx, and stop them after the block."""
    port = port or free_port()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.chmod(0o755)  # nginx's worker is somebody else where nginx is started by root
        processes = [stack.enter_context(serve()) for _ in range(n_processes)]
        addresses = "\n        ".join(f"server {p.url.removeprefix('http://')} fail_timeout=5s;" for p in processes)
        config = folder / "nginx.conf"
        config.write_text(TEMPLATE.read_text().format(folder=folder, port=port, processes=addresses))
        stack.enter_context(_running([nginx(), "-p", str(folder), "-c", str(config)], port))
        yield Proxy(f"http://127.0.0.1:{port}", processes, folder / "access.log")


def nginx() -> str:
    """Path of the program; Debian keeps it where only root looks."""
    if path := shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin"):
        return path
    raise RuntimeError("No nginx found: install Debian's package nginx-light.")


@contextmanager
def _running(command: list[str], port: int) -> Iterator[None]:
    process = subprocess.Popen(command)
    try:
        end = time.perf_counter() + SECONDS_TO_START
        while not _answers(port):
            if process.poll() is not None or time.perf_counter() > end:
                raise RuntimeError("nginx did not start; it has said why above.")
            time.sleep(0.02)
        yield
    finally:
        process.terminate()
        process.wait(10)


def _answers(port: int) -> bool:
    with socket.socket() as knock:
        return knock.connect_ex(("127.0.0.1", port)) == 0
