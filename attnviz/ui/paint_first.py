"""Time for the browser to paint the grid of all heads before it receives the rest of the Heads page.

A change of the text, the mask or the model redraws every part. The grid is the first of them, but the browser would
paint it with the last: each message that arrives meanwhile makes React render the page again before the next frame.
The script does not wait: it computes the other parts while their messages are held (`make bench`: grid / floor is a
fifth smaller).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any

from starlette.middleware import Middleware

GRID = re.compile(rb"\$\$ID-[0-9a-f]+-head-grid")  # the id of the grid, with its key on the Heads page
SECONDS = 0.04  # to decode up to half a megabyte, render, and show two frames


class PaintFirst:
    """ASGI middleware: after a websocket message with the grid, hold the next ones of this connection for SECONDS."""

    def __init__(self, app: Callable) -> None:
        self.app = app

    async def __call__(self, scope: dict[str, Any], receive: Callable, send: Callable) -> None:
        async def send_and_wait(message: dict[str, Any]) -> None:
            await send(message)
            if GRID.search(message.get("bytes") or b""):
                await asyncio.sleep(SECONDS)

        await self.app(scope, receive, send_and_wait if scope["type"] == "websocket" else send)


PAINT_FIRST = Middleware(PaintFirst)
