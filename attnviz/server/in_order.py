"""What somebody asks of a part of a page: after what came before has arrived, and not once they have left the page.

Streamlit begins a part's run at once when the run before has ended, and forgets what it has not sent of that. A nested
part then comes without the boxes that it stands in. It runs a part of a page that was left after the new page has come:
the browser then clears the new page for it. And a run that it has stopped, since the connection was cut, it tells the
next connection as one that has ended well: the browser then clears what the run had not come to. Each time the browser
cannot go on until it is reloaded.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

from google.protobuf.message import DecodeError
from starlette.middleware import Middleware
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ClientState_pb2 import ClientState
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

LONGEST = 20_000  # bytes of a message that may say where the browser or a run is; longer ones are drawings
OF_RUNS = {"new_session", "delta", "page_info_changed", "script_finished"}  # kinds of messages to the browser
PATIENCE = 10.0  # seconds after which a part is asked for although a run is still on; Streamlit then has a queue itself


class InOrder:
    """ASGI: a browser's websocket goes on to `app`; requests for parts wait until the run before them ends."""

    def __init__(self, app: Callable) -> None:
        self.app = app

    async def __call__(self, scope: dict[str, Any], receive: Callable, send: Callable) -> None:
        if scope["type"] != "websocket":
            await self.app(scope, receive, send)
            return
        visit = Visit()
        line = Line(receive, visit)

        async def send_and_look(message: dict[str, Any]) -> None:
            if visit.told(message.get("bytes") or b""):
                await send(message)
            line.look()

        try:
            await self.app(scope, line.next, send_and_look)
        finally:
            line.close()


MIDDLEWARE = Middleware(InOrder)


class Visit:
    """Which page a browser is at, by Streamlit's hashes of pages, and whether a run for it is on."""

    def __init__(self) -> None:
        self.busy = False  # a run has begun, and its end has not been sent
        self._asked = False  # for any run, since it has connected
        self._page = ""  # asked for last
        self._shown: set[str] = set()  # by the server, so no more than there are

    def waits(self, message: bytes) -> bool:
        """Whether a message from the browser is for a part of a page, and another run is on."""
        asked = self.busy and _rerun(message)
        return bool(asked and asked.fragment_id)

    def concerns(self, message: bytes) -> bool:
        """Whether a message from the browser, in the order of coming, is not for a part of a page that it has left."""
        if asked := _rerun(message):
            self._asked = True
            if asked.fragment_id:
                return asked.page_script_hash == self._page or asked.page_script_hash not in self._shown
            self._page = asked.page_script_hash or self._page  # none where a page is asked for by name
        return True

    def told(self, message: bytes) -> bool:
        """Whether a message is for the browser, and not of a run that an earlier connection has asked for.

        It says that a run begins or ends, and which page was asked for by name or is gone to.
        """
        if len(message) > LONGEST:
            return self._asked
        answer = ForwardMsg.FromString(message)
        match kind := answer.WhichOneof("type"):
            case "new_session":
                self.busy = True
            case "script_finished":
                self.busy = False
            case "navigation":
                self._page = answer.navigation.page_script_hash
                self._shown.add(self._page)
        return self._asked or kind not in OF_RUNS


class Line:
    """The messages of a browser, in the order in which the app is to have them."""

    def __init__(self, receive: Callable, visit: Visit) -> None:
        self._receive, self._visit = receive, visit
        self._coming: asyncio.Task | None = None  # from the browser
        self._held: deque[tuple[float, dict[str, Any]]] = deque()  # until when at most
        self._sent = asyncio.Event()

    async def next(self) -> dict[str, Any]:
        """The next message for the app."""
        while True:
            message = await self._first()
            if self._visit.concerns(message.get("bytes") or b""):
                return message

    def look(self) -> None:
        """Something was sent to the browser."""
        if self._held:
            self._sent.set()

    def close(self) -> None:
        """The connection is over."""
        if self._coming:
            self._coming.cancel()

    async def _first(self) -> dict[str, Any]:
        """The first message that need not wait, or no longer."""
        while True:
            now = asyncio.get_running_loop().time()
            if self._held and (not self._visit.busy or self._held[0][0] <= now):
                return self._held.popleft()[1]
            if message := await self._came(self._held[0][0] - now if self._held else None):
                if not self._visit.waits(message.get("bytes") or b""):
                    return message
                self._held.append((now + PATIENCE, message))

    async def _came(self, seconds: float | None) -> dict[str, Any] | None:
        """What the browser sends next; None when something was sent to it before, or nothing came for so long."""
        self._coming = self._coming or asyncio.ensure_future(self._receive())
        self._sent.clear()
        sent = asyncio.ensure_future(self._sent.wait())
        await asyncio.wait({self._coming, sent}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        sent.cancel()
        if self._sent.is_set() or not self._coming.done():
            return None
        message, self._coming = self._coming.result(), None
        return message


def _rerun(message: bytes) -> ClientState | None:
    """What is to run, of a browser's message that asks for a run."""
    try:
        sent = BackMsg.FromString(message)
    except DecodeError:
        return None  # Streamlit has a sentence for it
    return sent.rerun_script if sent.HasField("rerun_script") else None
