"""No fragment of a previous page runs; nothing is sent of an earlier connection's run, or of one without a drawing."""

import asyncio

import pytest
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

from attnviz.server.stale import Connection, Stale
from tests.browser.server import serve
from tests.soak.session import connected
from tests.waiting import result_of

HEADS, ROPE = "a1", "b2"  # Streamlit's hashes of two pages


def asks(page: str, fragment: str = "") -> bytes:
    message = BackMsg()
    message.rerun_script.page_script_hash, message.rerun_script.fragment_id = page, fragment
    return message.SerializeToString()


def says(page: str) -> ForwardMsg:
    """Return the navigation message that the server sends in a run of a whole page."""
    message = ForwardMsg()
    message.navigation.page_script_hash = page
    return message


def starts(page: str) -> ForwardMsg:
    """Return the message at the start of any run; its hash is another page's where a page is requested by name."""
    message = ForwardMsg()
    message.new_session.page_script_hash = page
    return message


def ends(how: int = ForwardMsg.FINISHED_SUCCESSFULLY) -> ForwardMsg:
    """Return the message at the end of any run."""
    message = ForwardMsg()
    message.script_finished = how
    return message


def running(now: bool) -> ForwardMsg:
    """Return the message on whether a run is in progress."""
    message = ForwardMsg()
    message.session_status_changed.script_is_running = now
    return message


def draws() -> ForwardMsg:
    message = ForwardMsg()
    message.delta.new_element.markdown.body = "long " * 10_000
    return message


def stopped() -> bytes:
    message = BackMsg()
    message.stop_script = True
    return message.SerializeToString()


def through(kind: str, *course: bytes | ForwardMsg) -> tuple[list[bytes], list[bytes]]:
    """Play a sequence of browser messages (bytes) and app messages (ForwardMsg) through the middleware.

    Return the messages that the app receives and those that the browser receives.
    """
    events, received, sent = list(course), [], []

    async def receive() -> dict:
        while events and isinstance(events[0], ForwardMsg):
            await answer[0]({"type": f"{kind}.send", "bytes": events.pop(0).SerializeToString()})
            await asyncio.sleep(0)
        return {"type": f"{kind}.receive", "bytes": events.pop(0)} if events else {"type": f"{kind}.disconnect"}

    async def send(message: dict) -> None:
        sent.append(message["bytes"])

    answer = []

    async def app(scope: dict, receive, send) -> None:
        answer.append(send)
        await asyncio.sleep(0)
        while "bytes" in (message := await receive()):
            received.append(message["bytes"])

    result_of(Stale(app)({"type": kind}, receive, send))
    return received, sent


def passed(kind: str, *course: bytes | ForwardMsg) -> list[bytes]:
    """Return what the app receives; assert that the browser receives everything the app sends."""
    received, sent = through(kind, *course)
    assert sent == [each.SerializeToString() for each in course if isinstance(each, ForwardMsg)]
    return received


@pytest.mark.parametrize("first", [HEADS, ""])
def test_a_part_of_the_page_that_is_shown_runs(first):
    sent = asks(first), asks(HEADS, "part"), asks(HEADS, "another")
    assert passed("websocket", sent[0], says(HEADS), *sent[1:]) == list(sent)


@pytest.mark.parametrize("first", [HEADS, ""])
def test_a_part_of_a_page_that_was_left_does_not(first):
    opened, part, left, other_part = asks(first), asks(HEADS, "part"), asks(ROPE), asks(ROPE, "part")
    shown = starts("main"), says(HEADS), ends(), part, starts(HEADS), ends()
    course = opened, *shown, left, part, starts(ROPE), part, says(ROPE), part, ends(), other_part, asks(HEADS), part
    assert passed("websocket", *course) == [opened, part, left, other_part, asks(HEADS), part]


def test_the_run_of_a_part_does_not_bring_a_left_page_back():
    opened, part, left = asks(HEADS), asks(HEADS, "part"), asks(ROPE)
    course = opened, says(HEADS), part, left, starts(HEADS), part, says(ROPE), ends(), part
    assert passed("websocket", *course) == [opened, part, left]


def test_pages_that_only_a_browser_speaks_of_are_not_remembered():
    """A client cannot fill the server's memory with invented pages."""
    connection = Connection()
    for n in range(99):
        assert connection.accepts_request(asks(f"page {n}")) and connection.accepts_request(asks(f"page {n}", "part"))
    assert len(connection._shown) == 0 and connection.accepts_request(asks("page 7", "part"))


def test_a_page_that_the_server_goes_to_itself_is_not_left():
    """A head clicked on the front page: the front page runs and switches to the Heads page, every time."""
    front, part = asks("f0"), asks(HEADS, "part")
    there = front, starts("f0"), says("f0"), starts(HEADS), says(HEADS), ends(), part, starts(HEADS), ends(), part
    sent = [each for each in there if isinstance(each, bytes)]
    assert passed("websocket", *there, *there) == sent + sent


def test_whatever_else_is_sent_goes_on():
    sent = asks(HEADS), stopped(), b"", b"\xff\xff", asks(HEADS, "part")
    assert passed("websocket", *sent) == list(sent)


def test_what_is_no_websocket_goes_on():
    sent = asks(HEADS), asks(ROPE), asks(HEADS, "part")
    assert passed("http", *sent) == list(sent)


def test_what_is_left_of_a_run_that_another_connection_asked_for_does_not_arrive():
    """It was stopped when that connection was lost, and the browser would clear the elements it had not reached."""
    status, drawing = ForwardMsg(), draws()
    status.session_status_changed.run_on_save = True
    left = starts(HEADS), drawing, ends()
    own = asks(HEADS), starts(HEADS), drawing, ends()
    _, sent = through("websocket", *left, asks(HEADS))
    assert sent == []
    _, sent = through("websocket", status, *left, *own)
    assert sent == [each.SerializeToString() for each in (status, *own[1:])]


CALLBACK = starts(HEADS), running(True), ends(ForwardMsg.FINISHED_EARLY_FOR_RERUN), running(False)


def answered(*course: ForwardMsg) -> list[ForwardMsg]:
    """Return what the browser receives of the messages that the app sends after a request."""
    return [ForwardMsg.FromString(each) for each in through("websocket", asks(HEADS), *course, stopped())[1]]


def test_a_run_that_ends_for_another_before_it_draws_is_not_announced():
    own = starts(HEADS), running(True), draws(), draws(), ends(), running(False)
    assert answered(*CALLBACK, *own) == [*own]
    assert answered(*CALLBACK, *CALLBACK, *own, *CALLBACK, *own) == [*own, *own]


def test_the_start_of_a_run_is_announced_with_its_first_drawing_or_its_end():
    start = starts(HEADS), running(True)
    assert answered(*start) == []
    assert answered(*start, draws()) == [*start, draws()]
    assert answered(*start, ends()) == [*start, ends()]
    stopped_early = *start, draws(), ends(ForwardMsg.FINISHED_EARLY_FOR_RERUN), running(False)
    assert answered(*stopped_early, *CALLBACK) == [*stopped_early]
    assert answered(running(False), draws()) == [running(False), draws()]


async def starts_of_a_change(url: str) -> int:
    session = await connected(url, "")
    await session.open("heads")
    await session.set({"model": "mqa"})
    await session.socket.close()
    return [ForwardMsg.FromString(frame).WhichOneof("type") for frame in session.frames].count("new_session")


@pytest.mark.slow
def test_a_change_of_the_heads_page_is_announced_as_one_run(server):
    """End to end: Streamlit ends the run of the callback before that of the parts."""
    assert result_of(starts_of_a_change(server.url)) == 1


@pytest.mark.slow
def test_without_the_middleware_it_is_announced_as_two():
    with serve(env={"ATTNVIZ_WITHOUT": "stale"}) as server:
        assert result_of(starts_of_a_change(server.url)) == 2
