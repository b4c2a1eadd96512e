"""User actions while the page is still running: clicks on another page or head, a setting, a tab.

pytest tests/browser/test_meanwhile.py
"""

import asyncio
import random
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from urllib.parse import parse_qs

import pytest
from playwright.sync_api import Page, expect
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

from attnviz.session.examples import EXAMPLES
from tests.browser.conftest import go, turn_to
from tests.browser.heads import VIEW, choose, shows
from tests.browser.painted import PATIENCE, settle
from tests.browser.server import Server, serve
from tests.browser.sidebar import the_text, to_page
from tests.soak.session import Session, another_value, connected, widget_id
from tests.waiting import result_of

# ---- navigating or selecting while a page is still running


def a_setting_made_while_another_page_comes_is_in_force_there(page: Page) -> None:
    turn_to(page, VIEW)
    page.get_by_test_id("stSidebar").get_by_role("link", name="RoPE", exact=True).click()
    page.wait_for_timeout(200)
    page.get_by_role("radio", name="a list", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("RoPE")
    expect(page).to_have_url(re.compile("rope.*apples"))
    settle(page)
    expect(the_text(page)).to_have_value(EXAMPLES["a list"])


def a_text_that_was_not_applied_goes_along_to_the_page_that_is_tapped(page: Page) -> None:
    """A touchpad's tap leaves the field and clicks within a few milliseconds, as is done here without any between."""
    turn_to(page, "")
    the_text(page).fill("Typed, and then a tap.")
    to_page(page, "Query grouping").evaluate("link => { document.activeElement.blur(); link.click(); }")
    expect(page.get_by_role("heading", level=1)).to_have_text("Query grouping")
    expect(page).to_have_url(re.compile("query_groups.*Typed"))
    settle(page)
    expect(the_text(page)).to_have_value("Typed, and then a tap.")


def a_page_that_a_click_on_the_front_page_opens_can_be_used_each_time(page: Page) -> None:
    turn_to(page, "")
    for example in ("a list", "brackets"):
        choose(page, "Layer 3, head 4")
        expect(page.get_by_role("heading", level=1)).to_have_text("Heads")
        expect(page.get_by_role("heading", name="Layer 3, head 4")).to_be_visible()
        expect(page).to_have_url(re.compile("layer=3&head=4"))
        settle(page)
        page.get_by_role("radio", name=example, exact=True).click()
        expect(page.get_by_role("gridcell", name="Layer 0, head 0,")).to_be_visible()
        expect(the_text(page)).to_have_value(EXAMPLES[example])
        choose(page, "Layer 1, head 2")
        expect(page.get_by_role("heading", name="Layer 1, head 2")).to_be_visible()
        to_page(page, "Overview").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
        settle(page)


def a_head_chosen_while_another_text_comes_is_shown_for_that_text(page: Page) -> None:
    for milliseconds in (0, 100):
        turn_to(page, VIEW)
        page.get_by_role("radio", name="a list", exact=True).click()
        page.wait_for_timeout(milliseconds)
        choose(page, "Layer 3, head 4")
        shows(page, "Layer 3, head 4", EXAMPLES["a list"])


def a_part_chosen_while_another_text_comes_is_shown(page: Page) -> None:
    turn_to(page, "cost")
    page.get_by_role("radio", name="a list", exact=True).click()
    page.get_by_role("radio", name="Measured here", exact=True).click()
    expect(page).to_have_url(re.compile(r"apples.*&\w+="))
    settle(page)
    expect(page.get_by_role("radio", name="Measured here", exact=True)).to_be_checked()
    expect(the_text(page)).to_have_value(EXAMPLES["a list"])


WALK = (
    a_text_that_was_not_applied_goes_along_to_the_page_that_is_tapped,
    a_page_that_a_click_on_the_front_page_opens_can_be_used_each_time,
    a_setting_made_while_another_page_comes_is_in_force_there,
    a_head_chosen_while_another_text_comes_is_shown_for_that_text,
    a_part_chosen_while_another_text_comes_is_shown,
)


def test_what_is_done_while_a_page_is_still_at_something_else_is_shown(visit: Callable[..., Page]) -> None:
    page = visit()
    for each in WALK:
        each(page)


# ---- the server's messages in such cases


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


def test_what_is_used_on_a_page_that_was_left_does_not_take_the_next_one_away(server: Server) -> None:
    """Streamlit's frontend clears the page, and gets stuck, for a fragment run of another page."""

    async def left() -> tuple[str, list[ForwardMsg]]:
        session, other = [await connected(server.url, "model=own") for _ in range(2)]
        await session.open("heads")
        await other.open("cost")
        answers = await leave_and_use(session, other.page_hash)
        for each in (session, other):
            await each.socket.close()
        return other.page_hash, answers

    to, answers = result_of(left())
    assert {a.new_session.page_script_hash for a in answers if a.WhichOneof("type") == "new_session"} == {to}
    assert all(a.delta.new_element.WhichOneof("type") != "exception" for a in answers)


SLOWLY = """
from streamlit.runtime import runtime_util
runtime_util.MESSAGE_FLUSH_INTERVAL_SECS = 0.2
"""


@pytest.fixture(scope="module")
def slow_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Start a server that sends its messages slowly, so that most are pending when the next request arrives."""
    folder = tmp_path_factory.mktemp("slow")
    (folder / "sitecustomize.py").write_text(SLOWLY)
    with serve(env={"PYTHONPATH": str(folder)}) as running:
        yield running


def test_what_is_set_while_a_page_comes_does_not_leave_its_parts_without_a_place(slow_server: Server) -> None:
    """Streamlit drops unsent messages when the next run starts, but keeps the fragments inside the dropped ones."""

    async def came(url: str) -> list[ForwardMsg]:
        session, answers, runs = await connected(url, ""), [], 0
        opening = BackMsg()
        opening.rerun_script.page_name = "heads"
        await session.socket.send(opening.SerializeToString())
        while runs < 2:
            answers.append(ForwardMsg.FromString(await asyncio.wait_for(session.socket.recv(), PATIENCE / 1000)))
            runs += answers[-1].WhichOneof("type") == "script_finished"
            session._take(answers[-1], set())
            if session.control("model") and opening:
                await session.socket.send(session.asks("model", "mqa").SerializeToString())
                opening = None
        await session.socket.close()
        return answers

    answers = result_of(came(slow_server.url))
    assert without_a_place([a for a in answers if a.WhichOneof("type") == "delta"]) == []


def test_a_run_that_was_cut_off_does_not_end_in_the_next_connection(slow_server: Server) -> None:
    """Streamlit stops it and reports a finished run: a browser would clear the elements not reached by then."""

    async def came(url: str) -> list[str]:
        session = await connected(url, "")
        await session.open("heads")
        started = next(a for frame in session.frames if (a := ForwardMsg.FromString(frame)).HasField("new_session"))
        asked = session.asks("text", "A dog met another dog. " * 20)
        await session.socket.send(asked.SerializeToString())
        await asyncio.sleep(0.1)
        session.socket.transport.abort()  # like a network failure: no closing handshake
        again = await connected(url, "", resumes=started.new_session.initialize.session_id)
        left = []
        with suppress(TimeoutError):
            while frame := await asyncio.wait_for(again.socket.recv(), 2):
                left.append(ForwardMsg.FromString(frame).WhichOneof("type"))
        await again.socket.send(asked.SerializeToString())  # a fragment known only to the same session
        while not ForwardMsg.FromString(await asyncio.wait_for(again.socket.recv(), PATIENCE / 1000)).HasField("delta"):
            pass
        await again.socket.close()
        return left

    assert not {"new_session", "delta", "script_finished"} & set(result_of(came(slow_server.url)))


def without_a_place(deltas: list[ForwardMsg]) -> list[tuple[int, ...]]:
    """Return the positions of deltas whose preceding siblings were never sent."""
    held: dict[tuple[int, ...], int] = {(): 4}  # number of children by container; those of the root exist
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
    {"n_heads": "1"},  # takes the slider of KV heads away
    {"text": "word " * 3000},
    {"text": "", "rope": "0"},
    {"text": "a b"},
)


def test_a_part_of_a_page_stays_what_it_is_whatever_comes_and_goes_above_it(server: Server) -> None:
    """Streamlit would drop a rerun of a fragment whose id has changed meanwhile."""

    async def walked() -> list[set[str]]:
        session = await connected(server.url, "tiled=1")
        await session.open("query_groups")
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


def test_the_old_value_of_a_widget_elsewhere_does_not_undo_a_change(server: Server) -> None:
    """A browser sends all widgets' values, also of those that a callback has changed and it has not redrawn yet."""

    async def walked() -> str:
        session = await connected(server.url, "text=A+dog+met+another+dog.")
        await session.open("heads")
        example = next(s for s in session.shown.values() if widget_id(s.element).endswith("-example"))
        text, tab = session.control("text"), session.control("tab")
        for used, values in ((example, ["a list"]), (tab, ["Score, mask, softmax"])):
            message = BackMsg()
            message.rerun_script.fragment_id = used.fragment
            states = message.rerun_script.widget_states.widgets
            states.add(id=widget_id(text.element), string_value="A dog met another dog.")
            states.add(id=widget_id(used.element)).string_array_value.data.extend(values)
            await session._run(message)
        await session.socket.close()
        return session.query

    query = parse_qs(result_of(walked()))
    assert (query["text"], query["tab"]) == ([EXAMPLES["a list"]], ["stages"])


@pytest.mark.parametrize("used", ["sampling-more", "control-layer"])
def test_a_part_interrupted_by_a_request_for_another_one_is_drawn_after_it(server: Server, used: str) -> None:
    """Without a callback the request draws only its own part; with one, the parts that the callback asks for."""

    async def walked() -> list[str]:
        session = await connected(server.url, f"tab=bounded&text={used}+{'A+dog+met+another.+' * 40}")
        opening = BackMsg()
        opening.rerun_script.page_name, opening.rerun_script.query_string = "decode", session.query
        await session.socket.send(opening.SerializeToString())
        interrupted, charts = False, []
        with suppress(TimeoutError):
            while len(charts) < 3:
                answer = ForwardMsg.FromString(await asyncio.wait_for(session.socket.recv(), 15))
                session._take(answer, set())
                kind = answer.delta.new_element.WhichOneof("type") if answer.HasField("delta") else None
                if kind == "progress" and not interrupted:  # the tab is being computed
                    interrupted = True
                    await session.socket.send(used_once(session, used).SerializeToString())
                charts += [kind] * (kind == "plotly_chart")
        await session.socket.close()
        assert interrupted
        return charts

    assert len(result_of(walked())) == 3


def used_once(session: Session, key: str) -> BackMsg:
    """Return the message that a browser sends when the widget with this key is set to another value."""
    shown, message = next(s for s in session.shown.values() if widget_id(s.element).endswith(f"-{key}")), BackMsg()
    client = message.rerun_script
    client.query_string, client.page_script_hash, client.fragment_id = session.query, session.page_hash, shown.fragment
    client.widget_states.widgets.append(another_value(shown.element, random.Random(0)))
    return message


STALE = {"pair": "1: 99.9° per token", "query": "7 ·nobody", "model": "A model that is not there"}


def test_the_label_of_an_option_that_has_another_one_by_now_is_not_taken(server: Server) -> None:
    """A browser sends the label that it shows, which an earlier change, here of base or text, may have replaced."""

    async def used(session: Session, field: str, label: str) -> None:
        shown, message = session.control(field), BackMsg()
        message.rerun_script.fragment_id = shown.fragment
        message.rerun_script.widget_states.widgets.add(id=widget_id(shown.element), string_value=label)
        await session._run(message)

    async def walked() -> tuple[list[str], str]:
        session, wrong = await connected(server.url, ""), []
        await session.open("rope")
        for field, stale in STALE.items():
            selected = session.control(field).element.selectbox
            for label in (stale, selected.raw_value, stale):
                await used(session, field, label)
                wrong += session.said("exception")
        await session.socket.close()
        return wrong, session.query

    wrong, query = result_of(walked())
    assert (wrong, [field for field in STALE if f"{field}=" in query]) == ([], [])


def test_the_label_of_a_mistake_that_has_another_one_by_now_is_not_taken(server: Server) -> None:
    """The labels of mistakes depend on the model and on the answers given."""

    async def walked() -> tuple[list[str], str]:
        session = await connected(server.url, "")
        await session.open("mistakes")
        box = next(s for s in session.shown.values() if widget_id(s.element).endswith("-box"))
        message = BackMsg()
        message.rerun_script.fragment_id = box.fragment
        message.rerun_script.widget_states.widgets.add(id=widget_id(box.element), string_value="Mask · An old title")
        await session._run(message)
        await session.socket.close()
        return session.said("exception"), session.query

    assert result_of(walked()) == ([], "")


# Records, for every component's script, its calls, their clean-up functions, and the listeners it has. Streamlit does
# not call a component that it has removed or mounted anew.
CALLED = """
window.calls = new Map();
window.listeners = [];
const listen = EventTarget.prototype.addEventListener;
EventTarget.prototype.addEventListener = function (type, run, options) {
  if (options?.signal) window.listeners.push([type, options.signal]);
  return listen.call(this, type, run, options);
};
window.mounted = () => [...calls].filter(([at]) => at.isConnected).map(([, call]) => call);
window.listening = () => window.listeners.filter(([, signal]) => !signal.aborted).map(([type]) => type).sort();
const plain = window.Blob;
window.Blob = class extends plain {
  constructor(parts, options) {
    const said = String(parts?.[0]), ours = "export default async (component) =>"; // of the line that imports a script
    super(said.includes(ours) ? [said.replace(ours, "const draw = async (component) =>") + `
      export default async function kept(given) {
        const end = await draw(given);
        window.calls.set(given.parentElement, { again: () => kept(given), end });
        return end;
      }`] : parts, options);
  }
};
"""


# A component's script is fetched when it is first drawn: waits until some are, and no other one for 0.4 s.
ALL_DRAWN = """(async () => {
  for (let n = 0, since = performance.now(); !n || n !== mounted().length;) {
    if (performance.now() - since > 60_000) throw Error("no component was drawn");
    n = mounted().length;
    await new Promise((later) => setTimeout(later, 400));
  }
})()"""


AGAIN = """Promise.all(mounted().map(async ({ again, end }) => {
  await again();
  end?.();
}))"""


def test_a_component_hears_on_when_an_earlier_call_of_it_ends_late(tab: Callable[..., Page], server: Server) -> None:
    """Streamlit calls a component for each change, and may clean up a superseded call after the later one has begun."""
    _, page = tab(), tab()  # the second is closed afterwards, and its script with it
    page.add_init_script(CALLED)
    go(page, server, "")
    for address in ("heads", "query_groups", "rope", "steps"):
        page.evaluate("calls.clear()")
        turn_to(page, address)
        page.evaluate(ALL_DRAWN)
        settle(page)
        before = page.evaluate("listening()")
        assert before, address
        page.evaluate(AGAIN)
        assert page.evaluate("listening()") == before, address
        page.evaluate("mounted().forEach(({ end }) => end?.())")
        assert page.evaluate("listening()") == [], address
