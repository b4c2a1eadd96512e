"""Turn off Nagle's algorithm (RFC 896) on websocket connections, so that small messages are sent at once.

Without it: the second of two small messages waits until the browser acknowledges the first, which it may delay by
40 ms; a change then takes that much longer on Linux (tests/server/test_undelayed.py measures it). Since Streamlit 1.53,
the first on uvicorn: it opens its port itself, so the socket's protocol is 0, and asyncio sets TCP_NODELAY only for
protocol 6. Can be removed when Streamlit's `_bind_socket` sets the protocol. Upstream: uvicorn #3149, same cause.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

from starlette.middleware import Middleware

TCP_FAMILIES = (socket.AF_INET, socket.AF_INET6)


class Undelayed:
    """ASGI middleware: set TCP_NODELAY on websocket connections and pass everything on to `app`.

    No middleware before it may replace `send`, which must be the server's own method.
    """

    def __init__(self, app: Callable) -> None:
        self.app = app

    async def __call__(self, scope: dict[str, Any], receive: Callable, send: Callable) -> None:
        if scope["type"] == "websocket":
            set_nodelay(send)
        await self.app(scope, receive, send)


MIDDLEWARE = Middleware(Undelayed)


def set_nodelay(send: Callable) -> None:
    """Set TCP_NODELAY on the socket behind `send`, if that is a method of uvicorn's protocol and the socket is TCP."""
    transport = getattr(getattr(send, "__self__", None), "transport", None)
    used = transport.get_extra_info("socket") if transport else None
    if used is not None and used.family in TCP_FAMILIES:
        used.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
