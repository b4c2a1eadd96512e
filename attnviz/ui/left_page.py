"""What somebody asks of a page that they have left already, while the next one is still on its way.

Streamlit would run that part of the old page after the new one has come. The browser then clears the new page for it,
and with nothing to put it in, stays white until it is reloaded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from google.protobuf.message import DecodeError
from starlette.middleware import Middleware
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ClientState_pb2 import ClientState


class LeftPage:
    """ASGI: a browser's websocket goes on to `app` without what is asked of parts of pages left meanwhile."""

    def __init__(self, app: Callable) -> None:
        self.app = app

    async def __call__(self, scope: dict[str, Any], receive: Callable, send: Callable) -> None:
        if scope["type"] != "websocket":
            await self.app(scope, receive, send)
            return
        visit = Visit()

        async def receive_for_this_page() -> dict[str, Any]:
            while True:
                message = await receive()
                if visit.concerns(message.get("bytes") or b""):
                    return message

        await self.app(scope, receive_for_this_page, send)


MIDDLEWARE = Middleware(LeftPage)


class Visit:
    """Which page a browser is at, as far as it has said so."""

    def __init__(self) -> None:
        self._page = ""  # Streamlit's hash of it; none where a page was asked for by name

    def concerns(self, message: bytes) -> bool:
        """Whether a message, in the order of coming, is not for a part of a page that was left before."""
        asked = _run_asked_for(message)
        if asked is None:
            return True
        if asked.fragment_id and self._page:
            return asked.page_script_hash == self._page
        self._page = asked.page_script_hash
        return True


def _run_asked_for(message: bytes) -> ClientState | None:
    try:
        sent = BackMsg.FromString(message)
    except DecodeError:
        return None  # Streamlit has a sentence for it
    return sent.rerun_script if sent.HasField("rerun_script") else None
