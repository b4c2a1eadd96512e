"""pytest tests/test_left_page.py: what a browser asks of a page that it has left does not reach Streamlit."""

import asyncio

import pytest
from streamlit.proto.BackMsg_pb2 import BackMsg

from attnviz.ui.left_page import LeftPage

HEADS, ROPE = "a1", "b2"  # Streamlit's hashes of two pages


def asks(page: str, fragment: str = "") -> bytes:
    message = BackMsg()
    message.rerun_script.page_script_hash, message.rerun_script.fragment_id = page, fragment
    return message.SerializeToString()


def stopped() -> bytes:
    message = BackMsg()
    message.stop_script = True
    return message.SerializeToString()


def passed(kind: str, *sent: bytes) -> list[bytes]:
    """Which of a browser's messages an app behind the middleware receives."""
    messages = iter([{"type": f"{kind}.receive", "bytes": each} for each in sent] + [{"type": f"{kind}.disconnect"}])
    received = []

    async def receive() -> dict:
        return next(messages)

    async def app(scope: dict, receive, send) -> None:
        while "bytes" in (message := await receive()):
            received.append(message["bytes"])

    asyncio.run(LeftPage(app)({"type": kind}, receive, None))
    return received


@pytest.mark.parametrize("first", [HEADS, ""])
def test_a_part_of_the_page_that_is_shown_runs(first):
    sent = asks(first), asks(HEADS, "part"), asks(HEADS, "another")
    assert passed("websocket", *sent) == list(sent)


@pytest.mark.parametrize("first", [HEADS, ""])
def test_a_part_of_a_page_that_was_left_does_not(first):
    part, other_part = asks(HEADS, "part"), asks(ROPE, "part")
    before, after = (asks(first), part, asks(ROPE)), (other_part, asks(HEADS), part)
    assert passed("websocket", *before, part, part, *after) == [*before, *after]


def test_whatever_else_is_sent_goes_on():
    sent = asks(HEADS), stopped(), b"", b"\xff\xff", asks(HEADS, "part")
    assert passed("websocket", *sent) == list(sent)


def test_what_is_no_websocket_goes_on():
    sent = asks(HEADS), asks(ROPE), asks(HEADS, "part")
    assert passed("http", *sent) == list(sent)
