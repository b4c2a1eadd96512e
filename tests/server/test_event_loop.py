"""The server runs on uvloop, which sends websocket messages without waiting for an acknowledgement."""

import math
import random

import pytest

from tests.soak.session import connected
from tests.waiting import result_of

DELAY = 0.04  # seconds: Linux's minimum for a delayed acknowledgement


@pytest.mark.slow
def test_a_change_of_the_front_page_is_answered_without_the_delay(server):
    """End to end through a running server. With the delay, as on asyncio's own loop, no change is faster; a busy
    machine has a hundred tries.
    """

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

    assert result_of(fastest(server.url)) < DELAY
