"""The messages after the grid's wait until the browser has painted it."""

import asyncio
from collections.abc import Sequence
from itertools import pairwise
from statistics import median
from time import perf_counter

import pytest

from attnviz import server as server_files
from attnviz.server import paint_first, stale, switches
from attnviz.server.paint_first import GRID, SECONDS, PaintFirst
from tests.browser.server import Server
from tests.server.timed import Timed
from tests.soak.session import connected
from tests.waiting import result_of

THE_GRID, OTHER = {"bytes": b"$$ID-5f-head-grid"}, {"bytes": b"only=head-grid"}
STYLE = {"bytes": b".st-key-head-grid { outline: none; }"}  # of the view with the grid alone


def seconds_between(kind: str, *messages: dict) -> list[float]:
    """Return the time from each message that the app sends to its next one."""
    sent = []

    async def send(message: dict) -> None:
        sent.append(perf_counter())

    async def app(_scope: dict, _receive: object, send: object) -> None:
        for message in messages:
            await send(message)

    result_of(PaintFirst(app)({"type": kind}, None, send))
    return [after - before for before, after in pairwise(sent)]


def test_only_what_follows_the_grid_waits():
    first, styled, second, third = seconds_between(
        "websocket", OTHER, STYLE, THE_GRID, OTHER, {"text": "", "type": "websocket.send"}
    )
    assert max(first, styled) < SECONDS / 2 and second >= SECONDS and third < SECONDS / 2


def test_other_requests_do_not_wait():
    (apart,) = seconds_between("http", THE_GRID, OTHER)
    assert apart < SECONDS / 2


def test_it_is_switched_off_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(switches, "_WITHOUT", ["paint_first"])
    assert server_files._enabled(stale, paint_first) == [stale]


def test_one_connection_does_not_wait_for_another():
    async def together() -> float:
        async def app(_scope: dict, _receive: object, send: object) -> None:
            await send(THE_GRID)
            await send(OTHER)

        async def send(message: dict) -> None: ...

        began = perf_counter()
        await asyncio.gather(*(PaintFirst(app)({"type": "websocket"}, None, send) for _ in range(23)))
        return perf_counter() - began

    assert SECONDS <= result_of(together()) < 23 * SECONDS / 2  # one after the other: 23 · SECONDS


@pytest.mark.slow
def test_a_change_on_the_heads_page_sends_the_grid_ahead(server: Server) -> None:
    """End to end through a running server: the other parts' messages arrive SECONDS after the grid's."""

    async def changes(url: str, models: Sequence[str]) -> list[tuple[float, float]]:
        session = await connected(url, "")
        await session.open("heads")
        session.socket, found = Timed(session.socket), []
        for model in models:
            await session.set({"model": model})
            found.append(around_the_grid(session.frames, session.socket.gaps()))
        await session.socket.socket.close()
        return found

    def around_the_grid(frames: list[bytes], gaps: list[float]) -> tuple[float, float]:
        (held,) = [i for i, frame in enumerate(frames) if GRID.search(frame)]
        assert b"kvNames" in frames[held] and len(frames) - held > 10
        after_grid, *others = gaps[held:]
        return after_grid, median(others)

    models = "mqa", "gqa-2", "mha", "mla", "own"  # each once: a known grid is not sent again
    found = result_of(changes(server.url, models))
    # On a busy machine this process may be late to read the grid, and then the gap looks shorter.
    assert sum(after_grid > SECONDS / 2 and others < SECONDS / 2 for after_grid, others in found) > len(found) / 2
