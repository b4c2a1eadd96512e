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
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

LONGEST = 20_000  # bytes of a message that may say which page is on its way; longer ones are drawings


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

        async def send_and_look(message: dict[str, Any]) -> None:
            visit.told(message.get("bytes") or b"")
            await send(message)

        await self.app(scope, receive_for_this_page, send_and_look)


MIDDLEWARE = Middleware(LeftPage)


class Visit:
    """Which page a browser is at, by Streamlit's hashes of pages."""

    def __init__(self) -> None:
        self._page = ""  # asked for last
        self._shown: set[str] = set()  # by the server, so no more than there are

    def concerns(self, message: bytes) -> bool:
        """Whether a message from the browser, in the order of coming, is not for a part of a page that it has left."""
        try:
            sent = BackMsg.FromString(message)
        except DecodeError:
            return True  # Streamlit has a sentence for it
        if sent.HasField("rerun_script"):
            page = sent.rerun_script.page_script_hash
            if sent.rerun_script.fragment_id:
                return page == self._page or page not in self._shown
            self._page = page or self._page  # none where a page is asked for by name
        return True

    def told(self, message: bytes) -> None:
        """A message to the browser: which page was asked for by name, or that the server itself goes to another."""
        if len(message) <= LONGEST:
            answer = ForwardMsg.FromString(message)
            if answer.HasField("navigation"):
                self._page = answer.navigation.page_script_hash
                self._shown.add(self._page)
