"""One server for all browser tests, and windows on it: light or dark, wide or narrow."""

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Dialog, Page, expect

from tests.browser.painted import PATIENCE, settle
from tests.browser.server import CHROMIUM_ARGS, Server, chromium, serve

expect.set_options(timeout=PATIENCE)
WIDE, NARROW = 1440, 390
PAGES = {  # the name for screenshots: the address, what the sidebar and the page call it
    "front": ("", "Overview"),
    "heads": ("heads", "Heads"),
    "query-groups": ("query_groups", "Query grouping"),
    "rope": ("rope", "RoPE"),
    "cost": ("cost", "Cost"),
}


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
def window(new_context: Callable) -> Iterator[Callable[..., Page]]:
    """window(width=…, scheme=…): a fresh browser window. A dialog or an uncaught error in it fails the test."""
    wrong = []

    def dismiss(dialog: Dialog) -> None:
        wrong.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def open_window(width: int = WIDE, scheme: str = "light") -> Page:
        viewport = {"width": width, "height": 844 if width == NARROW else 900}
        page = new_context(viewport=viewport, color_scheme=scheme, has_touch=width == NARROW).new_page()
        page.set_default_timeout(PATIENCE)
        page.on("dialog", dismiss)
        page.on("pageerror", lambda error: wrong.append(f"uncaught: {error}"))
        return page

    yield open_window
    assert wrong == []


@pytest.fixture
def visit(window: Callable[..., Page], server: Server) -> Callable[..., Page]:
    """visit("heads?kv=2", width=…, scheme=…): that address of the app in a fresh window, once it has come to rest."""

    def visit_address(address: str = "", **how: object) -> Page:
        page = window(**how)
        page.goto(f"{server.url}/{address}")
        settle(page)
        return page

    return visit_address


@pytest.fixture
def walk() -> Callable[[Page, str], None]:
    """walk(page, "rope"): go to a page by its link in the sidebar."""

    def walk_to(page: Page, name: str) -> None:
        label = PAGES[name][1]
        page.get_by_test_id("stSidebar").get_by_role("link", name=label, exact=True).click()
        page.get_by_role("heading", level=1, name=label).wait_for()
        settle(page)

    return walk_to
