"""One server for all browser tests, and windows on it: light or dark, wide or narrow."""

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Page

from tests.browser.painted import settle
from tests.browser.server import CHROMIUM_ARGS, Server, chromium, serve

WIDE, NARROW = 1440, 390


@pytest.fixture(scope="session")
def browser_type_launch_args(browser_type_launch_args: dict) -> dict:
    return {**browser_type_launch_args, "executable_path": chromium(), "args": list(CHROMIUM_ARGS)}


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """The app, shared by the tests of a run. A traceback in its log fails the run, whatever the pages showed."""
    with serve() as running:
        yield running
        assert running.tracebacks() == []


@pytest.fixture
def window(new_context: Callable) -> Callable[..., Page]:
    """window(width=…, scheme=…): a fresh browser window in which a dialog of any kind fails the test."""

    def open_window(width: int = WIDE, scheme: str = "light") -> Page:
        viewport = {"width": width, "height": 844 if width == NARROW else 900}
        page = new_context(viewport=viewport, color_scheme=scheme, has_touch=width == NARROW).new_page()
        page.on("dialog", lambda dialog: pytest.fail(f"the page opened a dialog: {dialog.message!r}"))
        return page

    return open_window


@pytest.fixture
def visit(window: Callable[..., Page], server: Server) -> Callable[..., Page]:
    """visit("heads?kv=2", width=…, scheme=…): that address of the app in a fresh window, once it has come to rest."""

    def visit_address(address: str = "", **how: object) -> Page:
        page = window(**how)
        page.goto(f"{server.url}/{address}")
        settle(page)
        return page

    return visit_address
