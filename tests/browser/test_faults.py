"""Fault injection: killed servers, damaged files, full disks, cut connections, tabs left open."""

import shutil
import time
import tomllib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from playwright.sync_api import Page, TimeoutError, WebSocketRoute

from tests.browser.heads import TEXT, VIEW, choose, shows, the_text
from tests.browser.painted import PATIENCE, settle
from tests.browser.server import ROOT, Server, serve
from tests.soak.people import ALL_TEXT
from tests.soak.session import Session, connected
from tests.waiting import result_of


def goes_on(page: Page, name: str, text: str = TEXT) -> None:
    """Expect that another head can be chosen. A click before the first run after a reconnect is lost: click again."""
    for _ in range(5):
        choose(page, name)
        with suppress(TimeoutError):
            page.get_by_role("heading", name=name).wait_for(timeout=2000)
            break
    shows(page, name, text)


def connected_again(page: Page) -> None:
    page.locator("[data-testid=stApp][data-test-connection-state=CONNECTED]").wait_for()
    settle(page)


# ---- the server and the connection


class Cable:
    """The websockets of a page, which can be cut, and blocked from reconnecting for a while."""

    def __init__(self, page: Page) -> None:
        self.sockets: list[WebSocketRoute] = []
        self.out = self.cut_when_used = False
        page.route_web_socket("**/_stcore/stream", self._plugged)

    def _plugged(self, socket: WebSocketRoute) -> None:
        if self.out:
            socket.close()
            return
        self.sockets.append(socket)
        server = socket.connect_to_server()
        socket.on_message(lambda message: self._sent(server, message))

    def _sent(self, server: WebSocketRoute, message: str | bytes) -> None:
        server.send(message)
        if self.cut_when_used:
            self.cut_when_used = False
            self.cut()

    def cut(self) -> None:
        self.sockets[-1].close()

    def plugged_in_again(self, page: Page) -> None:
        """Wait until the page has reconnected after its first socket was cut."""
        end = time.monotonic() + PATIENCE / 1000
        while len(self.sockets) < 2:
            assert time.monotonic() < end, "the page did not come back"
            page.wait_for_timeout(50)
        connected_again(page)


def test_a_tab_left_overnight_goes_on(tab: Callable[..., Page]) -> None:
    """The server keeps a session for a day; here for one second, and the tab is disconnected for longer.

    A tab whose server is killed: test_two_processes.py.
    """
    _, page = tab(), tab()  # the second is closed afterwards, and its cable with it
    cable = Cable(page)
    with serve("app.py", "--server.disconnectedSessionTTL=1") as server:
        page.goto(f"{server.url}/{VIEW}")
        settle(page)
        cable.out = True
        cable.cut()
        page.wait_for_timeout(1500)
        cable.out = False
        cable.plugged_in_again(page)
        page.reload()
        shows(page, "Layer 2, head 5")
        goes_on(page, "Layer 3, head 4")
        assert server.tracebacks() == []


def test_a_session_outlives_the_night() -> None:
    kept = tomllib.loads((ROOT / ".streamlit" / "config.toml").read_text())["server"]["disconnectedSessionTTL"]
    assert kept >= 12 * 3600


def test_a_websocket_cut_in_a_run_loses_little_and_another_tab_has_settings_of_its_own(
    tab: Callable[..., Page], server: Server
) -> None:
    other, one = tab(), tab()  # the second is closed afterwards, and its cable with it
    cable = Cable(one)
    for page in (one, other):
        page.goto(f"{server.url}/{VIEW}")
        settle(page)
    the_soak_reads_what_is_typed_drawn_and_read_out(other)
    a_websocket_is_cut_in_the_middle_of_a_run(one, cable)
    choose(one, "Layer 3, head 4")
    the_text(one).fill("one two three")
    the_text(one).press("Control+Enter")
    shows(one, "Layer 3, head 4", "one two three")
    other.get_by_role("combobox", name="Colour scale").select_option("log")
    shows(other, "Layer 2, head 5")


def a_websocket_is_cut_in_the_middle_of_a_run(page: Page, cable: Cable) -> None:
    """The change may be lost with its answer; nothing else is lost, and the page still works."""
    cable.cut_when_used = True
    choose(page, "Layer 3, head 4")
    cable.plugged_in_again(page)
    assert "layer=3" in page.url or "layer=2" in page.url
    goes_on(page, "Layer 0, head 1")


def the_soak_reads_what_is_typed_drawn_and_read_out(page: Page) -> None:
    """Without these, the soak test would not notice a text on another user's page."""
    seen = page.evaluate(ALL_TEXT)
    assert TEXT in seen and "Query grouping" in seen and "Layer 2, head 5," in seen


# ---- files


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Copy the app to a folder where it can be damaged."""
    for name in ("attnviz", "pages", ".streamlit"):
        shutil.copytree(ROOT / name, tmp_path / "app" / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "app.py", tmp_path / "app")
    return tmp_path / "app"


def visits(server: Server, *addresses: str) -> list[Session]:
    """Open the app at these URLs, each in a separate session."""

    async def visited() -> list[Session]:
        sessions = []
        for address in addresses:
            page, _, query = address.partition("?")
            sessions.append(await connected(server.url, query))
            await sessions[-1].open(page)
            await sessions[-1].socket.close()
        return sessions

    return result_of(visited())


def damage(checkpoints: Path) -> None:
    """Truncate one file, replace one by another model's, make one unreadable even for root."""
    whole = (checkpoints / "gqa-4.safetensors").read_bytes()
    (checkpoints / "gqa-4.safetensors").write_bytes(whole[: len(whole) // 2])
    shutil.copy(checkpoints / "mqa.safetensors", checkpoints / "gqa-2.safetensors")
    (checkpoints / "mla.safetensors").unlink()
    (checkpoints / "mla.safetensors").symlink_to(checkpoints / "mla.safetensors")


def test_damaged_checkpoints_are_one_sentence_a_full_disk_is_not_noticed_and_a_faulty_script_is(
    copy: Path, tmp_path: Path
) -> None:
    """Files are limited to the few lines of the log, and none is written in the home or temporary folder."""
    damage(copy / "attnviz" / "checkpoints")
    (copy / "pages" / "5_steps.py").write_text("[][1]")
    for name in ("home", "tmp"):
        (tmp_path / name).mkdir()
    env = {"HOME": str(tmp_path / "home"), "TMPDIR": str(tmp_path / "tmp"), "PYTHONDONTWRITEBYTECODE": "1"}
    before = set(tmp_path.rglob("*"))
    damaged = ("gqa-4", "gqa-2", "mla")
    pages = ("heads", "query_groups", "rope", "cost")
    with serve(root=copy, under=("prlimit", "--fsize=4096"), env=env) as server:
        refused = visits(server, *(f"heads?model={name}" for name in damaged))
        for name, session in zip(damaged, refused, strict=True):
            sentence = "".join(session.said("alert")).replace("\\", "")  # escaped for markdown
            assert f"{name}.safetensors" in sentence and "Choose another model" in sentence
        addresses = ["heads?model=mqa", "rope?model=own", *(f"{page}?model=gqa-4" for page in pages)]
        for address, session in zip(addresses, visits(server, *addresses), strict=True):
            assert session.said("exception") == [], address
            assert session.said("alert") == [] or "gqa-4" in address, address
        shutil.copy(ROOT / "attnviz" / "checkpoints" / "gqa-4.safetensors", copy / "attnviz" / "checkpoints")
        for mended in visits(server, "", "heads?model=gqa-4", "query_groups"):
            assert mended.said("heading") and mended.said("alert") == mended.said("exception") == []
        assert server.tracebacks() == []
        visits(server, "steps")
        (traceback,) = server.tracebacks()
        assert traceback.endswith("IndexError: list index out of range")
    assert set(tmp_path.rglob("*")) == before
