"""Drop websocket messages of a previous page, of an earlier connection's runs, and of runs that draw nothing.

Without it: Streamlit runs a fragment of the previous page after the next page has opened, and announces the run with
the previous page's hash; the browser then clears the new page, and nothing draws it again. And a fragment run that was
stopped because the connection was lost is announced to the next connection as finished; the browser then clears the
elements that the run had not reached. To reproduce both: set `MESSAGE_FLUSH_INTERVAL_SECS` of
streamlit.runtime.runtime_util to 0.2, as tests/browser/test_meanwhile.py does, and run that file with
ATTNVIZ_WITHOUT=stale. Since Streamlit 1.37, the first with fragments; observed in 1.67. Can be removed when that file
passes without it. No upstream issue; #9617 is the same for fragments that run on a timer.
And a callback that reruns fragments ends its own run before it draws: the browser renders the page for its start and
its end, and shows the grid up to 30 ms later (`make bench`: grid / floor). Since 1.67, the first with such reruns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from google.protobuf.message import DecodeError
from starlette.middleware import Middleware
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

RUN_MESSAGES = {"new_session", "delta", "page_info_changed", "script_finished"}  # types of ForwardMsg sent by runs


class Stale:
    """ASGI middleware: pass a websocket on to `app` without stale messages in either direction."""

    def __init__(self, app: Callable) -> None:
        self.app = app

    async def __call__(self, scope: dict[str, Any], receive: Callable, send: Callable) -> None:
        if scope["type"] != "websocket":
            await self.app(scope, receive, send)
            return
        connection = Connection()

        async def receive_current() -> dict[str, Any]:
            while not connection.accepts_request((message := await receive()).get("bytes") or b""):
                pass
            return message

        async def send_current(message: dict[str, Any]) -> None:
            for each in connection.responses(message):
                await send(each)

        await self.app(scope, receive_current, send_current)


MIDDLEWARE = Middleware(Stale)


class Connection:
    """State of one browser connection: its page (Streamlit's hash), whether it requested a run, and what is held."""

    def __init__(self) -> None:
        self._has_requested_run = False
        self._page = ""  # requested last
        self._shown: set[str] = set()  # pages announced by the server, so of limited number
        self._held: list[dict[str, Any]] | None = None  # messages on the start of a run that has not drawn yet

    def accepts_request(self, message: bytes) -> bool:
        """Return False for a browser's request to run a fragment of a page that it has left."""
        try:
            sent = BackMsg.FromString(message)
        except DecodeError:
            return True  # Streamlit reports the error
        if sent.HasField("rerun_script"):
            self._has_requested_run, request = True, sent.rerun_script
            if request.fragment_id:
                return request.page_script_hash == self._page or request.page_script_hash not in self._shown
            self._page = request.page_script_hash or self._page  # empty where a page is requested by name
        return True

    def responses(self, message: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the messages to send to the browser now: none from a run that an earlier connection requested.

        The start of a run waits for its first other message; if that is the end before another run, neither is sent.
        """
        answer = ForwardMsg.FromString(message.get("bytes") or b"")
        kind = answer.WhichOneof("type")
        if kind == "navigation":  # holds the hash of a page that was requested by name or is switched to
            self._page = answer.navigation.page_script_hash
            self._shown.add(self._page)
        if not self._has_requested_run and kind in RUN_MESSAGES:
            return []
        if kind == "new_session":
            self._held = []
        elif self._held is not None and answer.script_finished == ForwardMsg.FINISHED_EARLY_FOR_RERUN:
            self._held = []
            return []
        if self._held is not None and kind in ("new_session", "session_status_changed"):
            self._held.append(message)
            return []
        before, self._held = self._held or [], None
        return [*before, message]
