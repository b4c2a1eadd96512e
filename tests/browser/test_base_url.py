"""The browser finds the server at the app's base URL at the first try, on any page."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Page, Request

from tests.browser.server import Server


def test_the_server_is_found_at_the_first_try(tab: Callable[..., Page], server: Server) -> None:
    """Links built from that base URL lead to pages of the app: test_frame.py."""
    page, tried = tab(), []

    def note(request: Request) -> None:
        if "_stcore/health" in request.url:
            tried.append(request.url)

    page.on("request", note)
    page.goto(f"{server.url}/query_groups")
    page.get_by_role("heading", level=1, name="Query grouping").wait_for()
    assert tried == [f"{server.url}/_stcore/health"]
    page.remove_listener("request", note)
