"""Websocket messages are sent without waiting for an acknowledgement."""

import math
import random
import socket
from contextlib import closing

import pytest

from attnviz.server.undelayed import Undelayed
from tests.browser.server import serve
from tests.soak.session import connected
from tests.waiting import result_of

DELAY = 0.04  # seconds: Linux's minimum for a delayed acknowledgement


class Uvicorns:
    """Minimal stand-in for uvicorn's protocol and asyncio's transport, to which `send` is bound."""

    def __init__(self, used: socket.socket) -> None:
        self.transport, self.used = self, used

    def get_extra_info(self, name: str) -> object:
        return {"socket": self.used}.get(name)

    async def send(self, message: dict) -> None:
        raise AssertionError("nothing is sent here")


def passed_on(kind: str, send) -> list[tuple]:
    """Return the arguments with which the middleware calls the app for a connection of this kind."""
    calls = []

    async def app(*called_with: object) -> None:
        calls.append(called_with)

    async def receive() -> dict:
        raise AssertionError("nothing is received here")

    result_of(Undelayed(app)({"type": kind}, receive, send))
    return [(scope["type"], sends) for scope, _, sends in calls]


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
@pytest.mark.parametrize(("kind", "waits"), [("websocket", False), ("http", True), ("lifespan", True)])
def test_a_websocket_does_not_wait_and_nothing_else_is_touched(family, kind, waits):
    with closing(socket.socket(family)) as used:
        assert used.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 0
        send = Uvicorns(used).send
        assert passed_on(kind, send) == [(kind, send)]
        assert (used.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 0) == waits


def test_a_socket_that_is_no_tcp_is_left_alone():
    with closing(socket.socket(socket.AF_UNIX)) as used:
        send = Uvicorns(used).send
        assert passed_on("websocket", send) == [("websocket", send)]


def test_a_server_that_is_not_uvicorn_goes_on():
    async def send(message: dict) -> None:
        raise AssertionError("nothing is sent here")

    assert passed_on("websocket", send) == [("websocket", send)]


@pytest.mark.slow
def test_a_change_of_the_front_page_is_answered_without_the_delay():
    """End to end through a running server. With the delay no change is faster; a busy machine has a hundred tries."""

    async def fastest(url: str) -> float:
        session, chance = await connected(url, ""), random.Random(0)
        await session.open("")
        least = math.inf
        for _ in range(100):
            least = min(least, (await session.change(chance))[1])
            if least < DELAY:
                break
        await session.socket.close()
        return least

    with serve() as server:
        assert result_of(fastest(server.url)) < DELAY
