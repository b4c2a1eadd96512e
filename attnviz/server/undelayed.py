"""Send what the page sends at once: turn off Nagle's algorithm (RFC 896) on the sockets of websockets.

Without it: the second of two small messages waits until the browser acknowledges the first, which it may put off for
40 ms; a change then takes that much longer on Linux (tests/server/test_undelayed.py measures it). Since Streamlit 1.53,
its first on uvicorn: it opens its port itself, so the socket's protocol is 0, and asyncio turns the algorithm off for
protocol 6 alone. May go when Streamlit's `_bind_socket` names the protocol. Upstream: uvicorn #3149, of the same cause.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

from starlette.middleware import Middleware

OVER_TCP = (socket.AF_INET, socket.AF_INET6)


class Undelayed:
    """ASGI: every connection goes on to `app` unchanged; a websocket's socket does not wait. To stand first, so that
    `send` is still the server's own."""

    def __init__(self, app: Callable) -> None:
        self.app = app

    async def __call__(self, scope: dict[str, Any], receive: Callable, send: Callable) -> None:
        if scope["type"] == "websocket":
            send_at_once(send)
        await self.app(scope, receive, send)


MIDDLEWARE = Middleware(Undelayed)


def send_at_once(send: Callable) -> None:
    """Turn off the waiting on the socket behind `send`, where it is a method of uvicorn's and its socket is TCP's."""
    transport = getattr(getattr(send, "__self__", None), "transport", None)
    used = transport.get_extra_info("socket") if transport else None
    if used is not None and used.family in OVER_TCP:
        used.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
