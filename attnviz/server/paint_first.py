"""Hold the messages after the grid of all heads, so that the browser paints the grid before it renders the rest.

Without it: after a change of text, mask or model the grid, the first part of the Heads page to be redrawn, is painted
with the last: each message that arrives makes React render the page before the next frame (`make bench`: grid / floor
is a fifth larger). The script does not wait. Relies on element ids in Streamlit's messages; observed in 1.67. Can be
removed when the browser paints between messages. No upstream issue.
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


MIDDLEWARE = Middleware(PaintFirst)
