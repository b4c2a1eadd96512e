"""Minimal driver for Chromium over the DevTools protocol, with the few commands that a measurement needs.

Playwright passes every websocket frame through two processes as base64, and polls the page: with a grid of 300 KB that
takes longer than painting it.
"""

import itertools
import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import Request, urlopen

from websockets.sync.client import ClientConnection, connect

from tests.browser.server import CHROMIUM_ARGS, chromium

CODES = {"ArrowLeft": 37, "ArrowRight": 39}
PATIENCE = 60.0  # seconds
# All matching elements, also in shadow roots.
DEEP = """
window.deep = (css, root = document) => [...root.querySelectorAll(css),
  ...[...root.querySelectorAll("*")].flatMap((e) => (e.shadowRoot ? deep(css, e.shadowRoot) : []))];
"""
IDLE = "document.querySelector('[data-testid=stApp]')?.dataset.testScriptState === 'notRunning'"


class Tab:
    """One browser tab, 1440 × 900."""

    def __init__(self, socket: ClientConnection, script: str) -> None:
        self._socket, self._numbers = socket, itertools.count(1)
        self.send("Page.enable")
        size = {"width": 1440, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self.send("Emulation.setDeviceMetricsOverride", **size)
        self.send("Page.addScriptToEvaluateOnNewDocument", source=DEEP + script)

    def send(self, method: str, **params: object) -> dict:
        """Send a command of the DevTools protocol and return its result."""
        number = next(self._numbers)
        self._socket.send(json.dumps({"id": number, "method": method, "params": params}))
        while True:
            message = json.loads(self._socket.recv(PATIENCE))
            if message.get("id") == number:
                assert "error" not in message, (method, params, message)
                return message["result"]

    def evaluate(self, expression: str, wait: bool = False):
        """Evaluate an expression; wait: await its promise."""
        answer = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=wait)
        assert "exceptionDetails" not in answer, (expression, answer)
        return answer["result"].get("value")

    def wait_until(self, expression: str) -> None:
        until = time.monotonic() + PATIENCE
        while not self.evaluate(expression):
            assert time.monotonic() < until, f"never came true: {expression}"
            time.sleep(0.1)

    def open(self, url: str) -> None:
        self.send("Page.navigate", url=url)
        self.wait_until(IDLE)
        time.sleep(1)  # for drawings made only in the browser

    def press(self, css: str, key: str) -> None:
        """Press a key on the first matching element."""
        self.evaluate(f"deep({css!r})[0].focus()")
        time.sleep(0.3)
        for kind in ("rawKeyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=CODES[key])

    def click(self, css: str, n: int) -> None:
        """Click in the middle of the n-th matching element, which must be in the viewport."""
        box = self.evaluate(f"deep({css!r})[{n}].getBoundingClientRect().toJSON()")
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)


class Chromium:
    """A browser; `open(url)` returns a `Tab`. script: run in every page before the page's own."""

    def __init__(self, port: int, script: str) -> None:
        self._port, self._script = port, script

    def open(self, url: str) -> Tab:
        asked = Request(f"http://127.0.0.1:{self._port}/json/new?about:blank", method="PUT")
        with urlopen(asked) as answer:
            address = json.load(answer)["webSocketDebuggerUrl"]
        tab = Tab(connect(address, max_size=None, legacy=True), self._script)
        tab.open(url)
        return tab


@contextmanager
def browsing(script: str) -> Iterator[Chromium]:
    """Run a separate Chromium for the block."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        command = [chromium(), *CHROMIUM_ARGS, "--remote-debugging-port=0", f"--user-data-dir={folder}"]
        nothing = subprocess.DEVNULL
        process = subprocess.Popen(command, stdout=nothing, stderr=nothing, start_new_session=True)
        try:
            yield Chromium(_port_of(Path(folder) / "DevToolsActivePort"), script)
        finally:
            os.killpg(process.pid, signal.SIGTERM)  # the command is a shell script, which would leave its child running
            process.wait()


def _port_of(file: Path) -> int:
    until = time.monotonic() + PATIENCE
    while not (file.exists() and file.read_text().strip()):
        assert time.monotonic() < until, "Chromium did not start"
        time.sleep(0.1)
    return int(file.read_text().split()[0])
