"""The base URL in the HTML of each page, and for which addresses it is set; its effect is tested in tests/browser."""

from __future__ import annotations

from typing import Any

import pytest

from attnviz.server import base_url
from tests.waiting import result_of


def asked(path: str, method: str = "GET", kind: str = "http") -> bytes:
    """Return the body of the response to one request; the app behind the middleware sends b"app"."""
    sent = []

    async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
        await send({"body": b"app"})

    async def send(message: dict[str, Any]) -> None:
        sent.append(message.get("body", b""))

    scope = {"type": kind, "path": path, "method": method, "headers": []}
    result_of(base_url.BaseUrl(app)(scope if kind == "http" else {"type": kind, "path": path}, None, send))
    return b"".join(sent)


@pytest.mark.parametrize("path", ["/heads", "/rope", "/below/a/prefix/heads"])
def test_a_page_is_answered_with_streamlits_own_file_and_one_line(path: str) -> None:
    html = asked(path).decode()
    assert html.count(base_url.BASE_URL_SCRIPT) == 1
    assert html.replace(base_url.BASE_URL_SCRIPT, "<head>") == base_url.INDEX
    assert html.index(base_url.BASE_URL_SCRIPT) < html.index('src="./static/js/')


@pytest.mark.parametrize("path", ["/", "", "/heads/", "/nothing", "/heads/_stcore/health", "/static/js/heads.js"])
def test_all_else_goes_on(path: str) -> None:
    assert asked(path) == b"app"


def test_other_methods_and_websockets_go_on() -> None:
    assert asked("/heads", "POST") == asked("/heads", kind="websocket") == b"app"
