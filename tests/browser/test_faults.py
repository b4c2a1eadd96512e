"""What goes wrong around the app, done to it: servers killed, files damaged, disks full, connections cut, tabs kept."""

import asyncio
import os
import random
import re
import shutil
import signal
import time
import tomllib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlencode

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, WebSocketRoute, expect
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

from attnviz.ui.examples import EXAMPLES
from tests.browser.painted import PATIENCE, settle
from tests.browser.server import ROOT, Server, free_port, serve
from tests.soak.people import ALL_TEXT
from tests.soak.session import Session, connected
from tests.waiting import result_of

TEXT = "A dog met another dog."
VIEW = "heads?" + urlencode({"text": TEXT, "layer": 2, "head": 5})


def the_text(page: Page) -> Locator:
    return page.get_by_label("Text", exact=True)


def choose(page: Page, name: str) -> None:
    page.get_by_role("gridcell", name=f"{name},").click()


def goes_on(page: Page, name: str, text: str = TEXT) -> None:
    """Another head can be chosen. A click before the first run after a connection is lost, so a person clicks again."""
    for _ in range(5):
        choose(page, name)
        page.wait_for_timeout(2000)
        if page.get_by_role("heading", name=name).count():
            break
    shows(page, name, text)


def connected_again(page: Page) -> None:
    page.locator("[data-testid=stApp][data-test-connection-state=CONNECTED]").wait_for()
    settle(page)


def shows(page: Page, name: str, text: str = TEXT) -> None:
    """The page has come to rest on this head of this text, and its address says so."""
    expect(page.get_by_role("heading", name=name)).to_be_visible()
    settle(page)
    expect(the_text(page)).to_have_value(text)
    expect(page.get_by_role("gridcell", selected=True)).to_have_accessible_name(re.compile(f"^{name},"))
    layer, head = name.removeprefix("Layer ").split(", head ")
    assert f"layer={layer}" in page.url and f"head={head}" in page.url


# ---- the server and the connection


def test_a_server_killed_and_started_again_under_an_open_page(window: Callable[..., Page]) -> None:
    page, port = window(), free_port()
    with serve(port=port) as first:
        page.goto(f"{first.url}/{VIEW}")
        settle(page)
        choose(page, "Layer 3, head 4")
        shows(page, "Layer 3, head 4")
        os.kill(first.pid, signal.SIGKILL)
    with page.expect_websocket(), serve(port=port) as second:
        connected_again(page)
        shows(page, "Layer 3, head 4")
        goes_on(page, "Layer 0, head 1")
        assert second.tracebacks() == []


class Cable:
    """The websockets of a page, which can be cut, and kept from coming back for a while."""

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
        end = time.monotonic() + PATIENCE / 1000
        while len(self.sockets) < 2:
            assert time.monotonic() < end, "the page did not come back"
            page.wait_for_timeout(50)
        connected_again(page)


def test_a_websocket_cut_in_the_middle_of_a_run(window: Callable[..., Page], server: Server) -> None:
    """The change may be lost with its answer; nothing else is, and the page goes on."""
    page = window()
    cable = Cable(page)
    page.goto(f"{server.url}/{VIEW}")
    settle(page)
    cable.cut_when_used = True
    choose(page, "Layer 3, head 4")
    cable.plugged_in_again(page)
    assert "layer=3" in page.url or "layer=2" in page.url
    goes_on(page, "Layer 0, head 1")


def test_a_tab_left_overnight_goes_on_and_a_forgotten_one_when_it_is_reloaded(window: Callable[..., Page]) -> None:
    """A session is kept for a day; here it is forgotten after a second, and the tab is away for longer."""
    page = window()
    cable = Cable(page)
    with serve("app.py", "--server.disconnectedSessionTTL=1") as server:
        page.goto(f"{server.url}/{VIEW}")
        settle(page)
        cable.out = True
        cable.cut()
        page.wait_for_timeout(2500)
        cable.out = False
        cable.plugged_in_again(page)
        page.reload()
        shows(page, "Layer 2, head 5")
        goes_on(page, "Layer 3, head 4")
        assert server.tracebacks() == []


def test_a_session_outlives_the_night() -> None:
    kept = tomllib.loads((ROOT / ".streamlit" / "config.toml").read_text())["server"]["disconnectedSessionTTL"]
    assert kept >= 12 * 3600


def test_two_tabs_of_one_person_have_settings_of_their_own(window: Callable[..., Page], server: Server) -> None:
    one = window()
    context: BrowserContext = one.context
    other = context.new_page()
    for page in (one, other):
        page.goto(f"{server.url}/{VIEW}")
        settle(page)
    choose(one, "Layer 3, head 4")
    the_text(one).fill("one two three")
    the_text(one).press("Control+Enter")
    shows(one, "Layer 3, head 4", "one two three")
    other.get_by_label("Colour scale").select_option("log")
    shows(other, "Layer 2, head 5")


# ---- going to another page while this one is still used


@pytest.mark.parametrize("milliseconds", [0, 100, 300])
def test_a_setting_made_while_another_page_comes_is_in_force_there(
    visit: Callable[..., Page], milliseconds: int
) -> None:
    page = visit(VIEW)
    page.get_by_test_id("stSidebar").get_by_role("link", name="RoPE", exact=True).click()
    page.wait_for_timeout(milliseconds)
    page.get_by_role("button", name="a list", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("RoPE")
    expect(page).to_have_url(re.compile("rope.*apples"))
    settle(page)
    expect(the_text(page)).to_have_value(EXAMPLES["a list"])


def test_a_page_that_a_click_on_the_front_page_opens_can_be_used_each_time(
    visit: Callable[..., Page], walk: Callable[[Page, str], None]
) -> None:
    page = visit("")
    for example in ("a list", "brackets"):
        choose(page, "Layer 3, head 4")
        expect(page.get_by_role("heading", level=1)).to_have_text("Heads")
        settle(page)
        page.get_by_role("button", name=example, exact=True).click()
        expect(page.get_by_role("gridcell", name="Layer 0, head 0,")).to_be_visible()
        expect(the_text(page)).to_have_value(EXAMPLES[example])
        choose(page, "Layer 1, head 2")
        expect(page.get_by_role("heading", name="Layer 1, head 2")).to_be_visible()
        walk(page, "front")


# ---- going on while the page is still being drawn


@pytest.mark.parametrize("milliseconds", [0, 50, 150])
def test_a_head_chosen_while_another_text_comes_is_shown_for_that_text(
    visit: Callable[..., Page], milliseconds: int
) -> None:
    page = visit(VIEW)
    page.get_by_role("button", name="a list", exact=True).click()
    page.wait_for_timeout(milliseconds)
    choose(page, "Layer 3, head 4")
    shows(page, "Layer 3, head 4", EXAMPLES["a list"])


@pytest.mark.parametrize(
    ("address", "part"),
    [("heads", "Rollout"), ("query_groups", "What sharing costs"), ("rope", "Two layouts"), ("cost", "Measured here")],
)
def test_a_part_chosen_while_another_text_comes_is_shown(visit: Callable[..., Page], address: str, part: str) -> None:
    page = visit(address)
    page.get_by_role("button", name="a list", exact=True).click()
    page.get_by_role("radio", name=part, exact=True).click()
    expect(page).to_have_url(re.compile(r"apples.*&\w+="))
    settle(page)
    expect(page.get_by_role("radio", name=part, exact=True)).to_be_checked()
    expect(the_text(page)).to_have_value(EXAMPLES["a list"])


SLOWLY = """
from streamlit.runtime import runtime_util
runtime_util.MESSAGE_FLUSH_INTERVAL_SECS = 0.2
"""


@pytest.mark.parametrize("page", ["heads", "query_groups", "rope", "cost"])
def test_what_is_set_while_a_page_comes_does_not_leave_its_parts_without_a_place(tmp_path: Path, page: str) -> None:
    """Streamlit forgets what it has not sent when the next run begins, but not the parts inside of it."""
    (tmp_path / "sitecustomize.py").write_text(SLOWLY)  # so that there is much that it has not sent

    async def came(url: str) -> list[ForwardMsg]:
        session, answers, runs = await connected(url, ""), [], 0
        opening = BackMsg()
        opening.rerun_script.page_name = page
        await session.socket.send(opening.SerializeToString())
        while runs < 2:
            answers.append(ForwardMsg.FromString(await asyncio.wait_for(session.socket.recv(), PATIENCE / 1000)))
            runs += answers[-1].WhichOneof("type") == "script_finished"
            session._take(answers[-1], set())
            if (courier := session.component("settings_courier")) and opening:
                await session.socket.send(session.asks(courier, {"model": "mqa"}).SerializeToString())
                opening = None
        await session.socket.close()
        return answers

    with serve(env={"PYTHONPATH": str(tmp_path)}) as server:
        answers = result_of(came(server.url))
    assert without_a_place([a for a in answers if a.WhichOneof("type") == "delta"]) == []


def without_a_place(deltas: list[ForwardMsg]) -> list[tuple[int, ...]]:
    """Where a browser is told to put something after others that have never come."""
    held: dict[tuple[int, ...], int] = {(): 4}  # how much each box holds; the page's own are there
    unplaced = []
    for delta in deltas:
        *box, at = delta.metadata.delta_path
        if at > held.get(tuple(box), 0):
            unplaced.append((*box, at))
        held[tuple(box)] = max(held.get(tuple(box), 0), at + 1)
    return unplaced


CHANGES = (
    {"text": EXAMPLES["emoji"]},
    {"model": "mla"},
    {"model": "own", "n_layers": "1"},
    {"n_heads": "1"},
    {"text": "word " * 3000},
    {"text": "", "rope": "0"},
    {"text": "a b"},
)


@pytest.mark.parametrize("address", ["heads", "query_groups?tiled=1", "rope?theta=500", "cost?compare=nobody"])
def test_a_part_of_a_page_stays_what_it_is_whatever_comes_and_goes_above_it(server: Server, address: str) -> None:
    """What is asked of a part that has become another one meanwhile would be dropped."""
    page, _, query = address.partition("?")

    async def walked() -> list[set[str]]:
        session = await connected(server.url, query)
        await session.open(page)
        parts = [fragments(session)]
        for changes in CHANGES:
            await session.set(changes)
            parts.append(fragments(session))
        await session.socket.close()
        return parts

    first, *later = result_of(walked())
    assert len(first) >= 2
    assert set().union(*later) == first


def fragments(session: Session) -> set[str]:
    return {shown.fragment for shown in session.shown.values() if shown.fragment}


# Keeps, of every component's script, what it was called with and what ends that call; and which listeners it has.
CALLED = """
window.calls = new Map();
window.listeners = [];
const listen = EventTarget.prototype.addEventListener;
EventTarget.prototype.addEventListener = function (type, run, options) {
  if (options?.signal) window.listeners.push([type, options.signal]);
  return listen.call(this, type, run, options);
};
window.listening = () => window.listeners.filter(([, signal]) => !signal.aborted).map(([type]) => type).sort();
const plain = window.Blob;
window.Blob = class extends plain {
  constructor(parts, options) {
    const said = String(parts?.[0]), ours = "export default function";
    super(said.includes(ours) ? [said.replace(ours, "function called") + `
      export default function kept(given) {
        const end = called(given);
        window.calls.set(given.parentElement, { again: () => kept(given), end });
        return end;
      }`] : parts, options);
  }
};
"""


@pytest.mark.parametrize("address", ["heads", "query_groups", "rope"])
def test_a_component_hears_on_when_an_earlier_call_of_it_ends_late(
    window: Callable[..., Page], server: Server, address: str
) -> None:
    """Streamlit calls it for each change, and ends a call that a change has overtaken when the later one has begun."""
    page = window()
    page.add_init_script(CALLED)
    page.goto(f"{server.url}/{address}")
    settle(page)
    before = page.evaluate("listening()")
    assert len(before) >= 5
    page.evaluate("[...calls.values()].map(({ again, end }) => [again(), end]).forEach(([, end]) => end?.())")
    assert page.evaluate("listening()") == before
    page.evaluate("calls.forEach(({ end }) => end?.())")
    assert page.evaluate("listening()") == []


def asked(page_hash: str, query: str) -> BackMsg:
    message = BackMsg()
    message.rerun_script.page_script_hash, message.rerun_script.query_string = page_hash, query
    return message


async def leave_and_use(session: Session, to: str) -> list[ForwardMsg]:
    """Ask for another page, then use every control of this one; all that comes until nothing more does."""
    await session.socket.send(asked(to, session.query).SerializeToString())
    for _, shown, state in session.possible(random.Random(0)):
        use = asked(session.page_hash, session.query)
        use.rerun_script.fragment_id = shown.fragment
        use.rerun_script.widget_states.widgets.append(state)
        await session.socket.send(use.SerializeToString())
        await asyncio.sleep(0.02)
    answers = []
    with suppress(TimeoutError):
        while frame := await asyncio.wait_for(session.socket.recv(), 3):
            answers.append(ForwardMsg.FromString(frame))
    return answers


@pytest.mark.parametrize("page", ["", "heads", "query_groups", "rope", "cost"])
def test_what_is_used_on_a_page_that_was_left_does_not_take_the_next_one_away(server: Server, page: str) -> None:
    """Streamlit's browser side clears the page, and cannot go on, for a run of another page's part."""

    async def left() -> tuple[str, list[ForwardMsg]]:
        session, other = [await connected(server.url, "model=own") for _ in range(2)]
        await session.open(page)
        await other.open("heads" if page == "cost" else "cost")
        answers = await leave_and_use(session, other.page_hash)
        for each in (session, other):
            await each.socket.close()
        return other.page_hash, answers

    to, answers = result_of(left())
    assert {a.new_session.page_script_hash for a in answers if a.WhichOneof("type") == "new_session"} == {to}
    assert all(a.delta.new_element.WhichOneof("type") != "exception" for a in answers)


# ---- files


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The app, copied to where it can be damaged."""
    for name in ("attnviz", "pages", ".streamlit"):
        shutil.copytree(ROOT / name, tmp_path / "app" / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "app.py", tmp_path / "app")
    return tmp_path / "app"


def visits(server: Server, *addresses: str) -> list[Session]:
    """The app at these addresses, each in a session of its own."""

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
    """One cut off, one replaced by another model's, one that cannot be read, by root neither."""
    whole = (checkpoints / "gqa-4.safetensors").read_bytes()
    (checkpoints / "gqa-4.safetensors").write_bytes(whole[: len(whole) // 2])
    shutil.copy(checkpoints / "mqa.safetensors", checkpoints / "gqa-2.safetensors")
    (checkpoints / "mla.safetensors").unlink()
    (checkpoints / "mla.safetensors").symlink_to(checkpoints / "mla.safetensors")


def test_damaged_checkpoints_are_one_sentence_and_the_others_work(copy: Path) -> None:
    damage(copy / "attnviz" / "checkpoints")
    damaged = ("gqa-4", "gqa-2", "mla")
    pages = ("heads", "query_groups", "rope", "cost")
    with serve(root=copy) as server:
        refused = visits(server, *(f"heads?model={name}" for name in damaged))
        for name, session in zip(damaged, refused, strict=True):
            sentence = "".join(session.said("alert")).replace("\\", "")  # escaped for markdown
            assert f"{name}.safetensors" in sentence and "Choose another model" in sentence
        addresses = [f"{page}?model={model}" for page in pages for model in ("mqa", "own", "gqa-4")]
        for address, session in zip(addresses, visits(server, *addresses), strict=True):
            assert session.said("exception") == [], address
            assert session.said("alert") == [] or "gqa-4" in address, address
        shutil.copy(ROOT / "attnviz" / "checkpoints" / "gqa-4.safetensors", copy / "attnviz" / "checkpoints")
        (mended,) = visits(server, "heads?model=gqa-4")
        assert mended.said("alert") == []
        assert server.tracebacks() == []


def test_a_full_disk_is_not_noticed(copy: Path, tmp_path: Path) -> None:
    """No file may grow beyond the few lines of the log, and none is written at home or in the folder for them."""
    for name in ("home", "tmp"):
        (tmp_path / name).mkdir()
    env = {"HOME": str(tmp_path / "home"), "TMPDIR": str(tmp_path / "tmp"), "PYTHONDONTWRITEBYTECODE": "1"}
    before = {path for path in tmp_path.rglob("*")}
    with serve(root=copy, under=("prlimit", "--fsize=4096"), env=env) as server:
        for session in visits(server, "", "heads", "query_groups", "rope", "cost"):
            assert session.said("heading") and session.said("exception") == []
        assert server.tracebacks() == []
    assert {path for path in tmp_path.rglob("*")} == before


# ---- what tests and the soak would notice


def test_what_goes_wrong_in_a_script_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "wrong.py").write_text("[][1]")
    with serve(tmp_path / "wrong.py") as server:
        visits(server, "")
        (traceback,) = server.tracebacks()
        assert traceback.endswith("IndexError: list index out of range")


def test_the_soak_reads_what_is_typed_drawn_and_read_out(visit: Callable[..., Page]) -> None:
    seen = visit(VIEW).evaluate(ALL_TEXT)
    assert TEXT in seen and "Query groups" in seen and "Layer 2, head 5," in seen
