"""The server runs on uvloop, which sends websocket messages without waiting for an acknowledgement."""

import math
import random

import pytest

from tests.browser.server import Server
from tests.server.timed import Timed
from tests.soak.session import connected
from tests.waiting import result_of

DELAY = 0.04  # seconds: Linux's minimum for a delayed acknowledgement


@pytest.mark.slow
def test_the_messages_of_a_change_follow_each_other_without_the_delay(server: Server) -> None:
    """End to end through a running server. On asyncio's own loop the second small message waits for an acknowledgement
    of the first in every change; on a busy machine one of a hundred changes must show no such gap.
    """

    async def shortest_wait(url: str) -> float:
        session, chance = await connected(url, ""), random.Random(0)
        await session.open("")
        session.socket, least = Timed(session.socket), math.inf
        for _ in range(100):
            await session.change(chance)
            least = min(least, max(session.socket.gaps()))
            if least < DELAY / 2:
                break
        await session.socket.socket.close()
        return least

    assert result_of(shortest_wait(server.url)) < DELAY / 2
