"""The warm start: which requests trigger it, that it runs once, and that it fails silently.

pytest tests/server/test_warm_start.py
"""

from __future__ import annotations

import gc
import threading
import time
import urllib.request
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest
from streamlit.web.server.app_discovery import discover_asgi_app

from attnviz.compute import heads as compute_heads
from attnviz.compute import models
from attnviz.compute.view import View
from attnviz.server import warm_start
from attnviz.session.pages import PAGES
from attnviz.session.settings import Settings
from tests.browser.server import Server, serve
from tests.waiting import result_of

ROOT = Path(__file__).resolve().parents[2]
TORCH = "libtorch_python"  # mapped into a process that has imported torch


@pytest.fixture
def prepared(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Arguments of the calls of `prepare`."""
    calls: list[tuple[str, str]] = []
    monkeypatch.setattr(warm_start, "prepare", lambda *call: calls.append(call))
    return calls


def send(middleware: warm_start.WarmStart, path: str, query: str = "", method: str = "GET", kind: str = "http") -> None:
    """Send one request through the middleware and wait for the thread that it may start."""
    scope = {"type": kind, "path": path, "query_string": query.encode()}
    if kind == "http":
        scope["method"] = method
    result_of(middleware(scope, None, None))
    for thread in threading.enumerate():
        if thread.name == "warm start":
            thread.join(30)


def passing_on() -> tuple[warm_start.WarmStart, list[dict]]:
    passed: list[dict] = []

    async def app(scope: dict, receive: object, send: object) -> None:
        passed.append(scope)

    return warm_start.WarmStart(app), passed


@pytest.mark.parametrize("page", [path for path in PAGES if path])
@pytest.mark.parametrize("before", ["/", "/attnviz/"])
def test_the_first_request_for_a_page_prepares_it_and_no_other_does(prepared, page, before):
    middleware, passed = passing_on()
    send(middleware, before + page, "model=mla&window=3")
    send(middleware, before + page)
    send(middleware, "/rope")
    assert prepared == [(page, "model=mla&window=3")] and len(passed) == 3


@pytest.mark.parametrize(
    "path, options",
    [
        ("/", {}), ("", {}), ("/_stcore/health", {}), ("/static/js/index.js", {}), ("/heads/_stcore/health", {}),
        ("/heads", {"method": "POST"}), ("/_stcore/stream", {"kind": "websocket"}), ("/heads", {"kind": "websocket"}),
    ],
)  # fmt: skip
def test_nothing_else_prepares_anything(prepared, path, options):
    middleware, passed = passing_on()
    send(middleware, path, **options)
    assert prepared == [] and len(passed) == 1


def test_every_page_is_registered_and_draws_itself():
    files = sorted((ROOT / "pages").glob("*.py"))
    assert sorted(page.file for page in PAGES.values()) == ["app.py", *(f"pages/{path.name}" for path in files)]
    for page in PAGES.values():
        assert f'show_page("{page.path}")' in (ROOT / page.file).read_text()


def test_what_a_page_draws_from_is_computed_before_it_asks(monkeypatch):
    settings = Settings(model="own", n_layers=1, n_heads=3, n_kv_heads=1, d_model=42, seed=31, text="a warm dog")
    warm_start.prepare("heads", "&".join(f"{name}={value}" for name, value in settings.to_link().items()))
    for name in ("trace", "load_checkpoint"):
        monkeypatch.setattr(models, name, pytest.fail)
    monkeypatch.setattr(compute_heads, "weights_of", pytest.fail)
    assert View(settings).trace.weights.shape[:2] == (1, 3)
    assert [len(row) for row in compute_heads.roles_of(settings)] == [3]


@pytest.mark.parametrize("page", [path for path in PAGES if path])
@pytest.mark.parametrize("link", ["", "text=", "window=x&nonsense=1&%ff=%fe", "model=own&n_heads=16&d_model=384"])
def test_any_link_can_be_prepared(page, link):
    warm_start.prepare(page, link)


@pytest.mark.usefixtures("no_checkpoints")
def test_what_fails_is_said_by_the_page_and_not_before(caplog, capfd):
    warm_start.prepare("heads", "")
    assert not caplog.records and capfd.readouterr() == ("", "")
    app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60).run().switch_page("pages/1_heads.py").run()
    assert not app.exception and "There is no checkpoint" in app.error[0].value


def test_no_garbage_is_looked_for_while_a_page_is_imported_and_afterwards_it_is(monkeypatch):
    found = []

    def looked(name: str) -> None:
        found.append(gc.isenabled())
        raise ImportError(name)

    monkeypatch.setattr(warm_start, "import_module", looked)
    warm_start.prepare("heads", "")
    assert found == [False] and gc.isenabled()


def test_an_import_that_fails_is_not_the_end(monkeypatch):
    def refused(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(warm_start, "import_module", refused)
    warm_start.prepare("heads", "")


# ---- the server


def test_the_server_finds_the_app():
    assert discover_asgi_app(ROOT / "app.py").import_string == "app:app"


def has_torch(server: Server) -> bool:
    return TORCH in Path(f"/proc/{server.pid}/maps").read_text()


def get(server: Server, path: str) -> bytes:
    with urllib.request.urlopen(f"{server.url}/{path}", timeout=10) as answer:
        return answer.read()


@pytest.mark.slow
def test_a_server_imports_torch_for_a_page_and_not_for_the_front_page():
    with serve() as server:
        assert get(server, "_stcore/health") == b"ok" and b'<div id="root">' in get(server, "")
        time.sleep(1.0)
        assert not has_torch(server)
        get(server, "heads?window=5")
        end = time.monotonic() + 60
        while not has_torch(server) and time.monotonic() < end:
            time.sleep(0.1)
        assert has_torch(server)
        time.sleep(2.0)
        log = server.log.read_text()
    assert "Traceback" not in log and "ScriptRunContext" not in log
