"""Drop the messages of a page that was left, and of a run that an earlier connection asked for.

Without it: Streamlit runs a part of a page that was left after the next page has come, and announces the run with the
left page's hash; the browser then clears the next page, and nothing draws it again. And a part's run that was stopped
because the connection was cut is announced to the next connection as one that has ended well; the browser then clears
what the run had not come to. To see both: set `MESSAGE_FLUSH_INTERVAL_SECS` of streamlit.runtime.runtime_util to 0.2,
as tests/browser/test_meanwhile.py does, and run that file with ATTNVIZ_WITHOUT=stale. Since Streamlit 1.37, its first
with fragments; seen in 1.67. May go when that file passes without it. No issue upstream; #9617 is the same for parts
that run by a timer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from google.protobuf.message import DecodeError
from starlette.middleware import Middleware
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ClientState_pb2 import ClientState
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

OF_RUNS = {"new_session", "delta", "page_info_changed", "script_finished"}  # kinds of messages to the browser


class Stale:
    """ASGI: a browser's websocket goes on to `app`, without what is stale in either direction."""

    def __init__(self, app: Callable) -> None:
        self.app = app

    async def __call__(self, scope: dict[str, Any], receive: Callable, send: Callable) -> None:
        if scope["type"] != "websocket":
            await self.app(scope, receive, send)
            return
        visit = Visit()

        async def receive_what_concerns() -> dict[str, Any]:
            while not visit.concerns((message := await receive()).get("bytes") or b""):
                pass
            return message

        async def send_what_was_asked(message: dict[str, Any]) -> None:
            if visit.asked_for(message.get("bytes") or b""):
                await send(message)

        await self.app(scope, receive_what_concerns, send_what_was_asked)


MIDDLEWARE = Middleware(Stale)


class Visit:
    """Which page a browser is at, by Streamlit's hashes of pages, and whether it has asked for a run."""

    def __init__(self) -> None:
        self._asked = False  # for any run, since it has connected
        self._page = ""  # asked for last
        self._shown: set[str] = set()  # by the server, so no more than there are

    def concerns(self, message: bytes) -> bool:
        """Whether a message from the browser is not for a part of a page that it has left."""
        if asked := _rerun(message):
            self._asked = True
            if asked.fragment_id:
                return asked.page_script_hash == self._page or asked.page_script_hash not in self._shown
            self._page = asked.page_script_hash or self._page  # none where a page is asked for by name
        return True

    def asked_for(self, message: bytes) -> bool:
        """Whether a message for the browser is not of a run that an earlier connection has asked for."""
        answer = ForwardMsg.FromString(message)
        kind = answer.WhichOneof("type")
        if kind == "navigation":  # says which page was asked for by name, or is gone to
            self._page = answer.navigation.page_script_hash
            self._shown.add(self._page)
        return self._asked or kind not in OF_RUNS


def _rerun(message: bytes) -> ClientState | None:
    """What is to run, of a browser's message that asks for a run."""
    try:
        sent = BackMsg.FromString(message)
    except DecodeError:
        return None  # Streamlit has a sentence for it
    return sent.rerun_script if sent.HasField("rerun_script") else None
