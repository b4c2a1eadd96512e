"""Several processes of the app behind Debian's nginx with sticky sessions."""

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
    """The public address, and the processes behind it."""

    url: str
    processes: list[Server]
    log: Path

    def process_of(self, person: str) -> Server:
        """Return the process that last answered this user, identified by nginx's cookie."""
        lines = [line.split() for line in self.log.read_text().splitlines()]  # cookie, processes tried, path
        address = [asked[-1] for who, *asked, _ in lines if who == person][-1]
        return next(process for process in self.processes if process.url.endswith(address))


@contextmanager
def behind_proxy(n_processes: int = 2, port: int = 0) -> Iterator[Proxy]:
    """Run the processes and nginx for the block."""
    port = port or free_port()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.chmod(0o755)  # nginx's workers run as another user if root starts nginx
        processes = [stack.enter_context(serve()) for _ in range(n_processes)]
        addresses = "\n        ".join(f"server {p.url.removeprefix('http://')} fail_timeout=5s;" for p in processes)
        config = folder / "nginx.conf"
        config.write_text(TEMPLATE.read_text().format(folder=folder, port=port, processes=addresses))
        stack.enter_context(_running([nginx(), "-p", str(folder), "-c", str(config)], port))
        yield Proxy(f"http://127.0.0.1:{port}", processes, folder / "access.log")


def nginx() -> str:
    """Return the path of nginx; Debian installs it outside of a user's PATH."""
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
