"""Fixtures of the browser tests: browser windows, light or dark, wide or narrow."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Dialog, Error, Page, Playwright, expect

from tests.browser.elsewhere import Elsewhere
from tests.browser.painted import PATIENCE, rest, settle
from tests.browser.server import CHROMIUM_ARGS, FEWER_OPTIMISATIONS, Server, chromium
from tests.browser.sidebar import to_page

expect.set_options(timeout=PATIENCE)
WIDE, NARROW = 1440, 390
FIREFOX_ESR = Path(__file__).with_name("firefox_esr.cjs")
CALM = "reduce"  # without Streamlit's shimmering grey boxes, Chromium takes a tenth less; tests of motion ask for it
PAGES = {  # name of the screenshot: (path, name in the sidebar and on the page)
    "front": ("", "Overview"),
    "heads": ("heads", "Heads"),
    "query-groups": ("query_groups", "Query grouping"),
    "linear": ("linear", "Linear and sparse"),
    "rope": ("rope", "RoPE"),
    "cost": ("cost", "Cost"),
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Retry a failed browser test once, and list it: on a busy machine a window can freeze for seconds."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.flaky(reruns=1))


@pytest.fixture(scope="session")
def firefox_esr() -> Iterator[None]:
    """Let Playwright's driver speak with Firefox ESR too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NODE_OPTIONS", f"--require {FIREFOX_ESR}")
        yield


@pytest.fixture(scope="session")
def playwright(firefox_esr: None, playwright: Playwright) -> Playwright:
    return playwright


@pytest.fixture(scope="session")
def elsewhere() -> Iterator[Elsewhere]:
    """Start the proxy that Chromium asks for every other host."""
    with Elsewhere() as proxy:
        Thread(target=proxy.serve_forever, daemon=True).start()
        yield proxy
        proxy.shutdown()


@pytest.fixture(scope="session")
def browser_type_launch_args(browser_type_launch_args: dict, elsewhere: Elsewhere) -> dict:
    args = [*CHROMIUM_ARGS, *FEWER_OPTIMISATIONS, elsewhere.option]
    return {**browser_type_launch_args, "executable_path": chromium(), "args": args}


def viewport(width: int) -> dict[str, int]:
    return {"width": width, "height": 844 if width == NARROW else 900}


@pytest.fixture
def watched(elsewhere: Elsewhere) -> Iterator[Callable[[Page], Page]]:
    """watched(page): a dialog or an uncaught error in it fails the test, and so does a request to another host."""
    with watching(elsewhere) as watch:
        yield watch


@contextmanager
def watching(elsewhere: Elsewhere) -> Iterator[Callable[[Page], Page]]:
    wrong, pages = [], []

    def dismiss(dialog: Dialog) -> None:
        wrong.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def uncaught(error: Error) -> None:
        wrong.append(f"uncaught: {error}")

    def watch(page: Page) -> Page:
        page.set_default_timeout(PATIENCE)
        page.on("dialog", dismiss)
        page.on("pageerror", uncaught)
        pages.append(page)
        return page

    yield watch
    for page in pages:  # the next test may have it too
        page.remove_listener("dialog", dismiss)
        page.remove_listener("pageerror", uncaught)
    assert [*wrong, *elsewhere.told()] == []


@pytest.fixture
def window(new_context: Callable, watched: Callable[[Page], Page]) -> Callable[..., Page]:
    """window(width=…, scheme=…): open a window in a new browser context, with its own cookies and cache."""

    def open_window(width: int = WIDE, scheme: str = "light") -> Page:
        looks = {"viewport": viewport(width), "color_scheme": scheme, "has_touch": width == NARROW}
        return watched(new_context(**looks, reduced_motion=CALM).new_page())

    return open_window


@pytest.fixture(scope="session")
def people(browser: Browser) -> Iterator[Callable[[bool], BrowserContext]]:
    """people(touch): return a browser context with touch or mouse, shared by all tests.

    Not one for light and one for dark: each compiles Streamlit's and plotly's scripts for itself, which takes 3 s.
    """

    @cache
    def person(touch: bool) -> BrowserContext:
        return browser.new_context(has_touch=touch)

    yield person


@pytest.fixture
def tab(
    request: pytest.FixtureRequest, people: Callable, watched: Callable[[Page], Page]
) -> Iterator[Callable[..., Page]]:
    """tab(width=…, scheme=…): return a tab, still without the app.

    The first is that of the tests before, whose process has compiled Streamlit's scripts: a new one takes twice the
    processor time. After a failed test it is a new one.
    """
    used: set[BrowserContext] = set()

    def open_tab(width: int = WIDE, scheme: str = "light") -> Page:
        person = people(width == NARROW)
        page = watched(person.new_page() if person in used or not person.pages else person.pages[0])
        used.add(person)
        page.set_viewport_size(viewport(width))
        page.emulate_media(color_scheme=scheme, reduced_motion=CALM)
        return page

    yield open_tab
    for person in used:
        first, *others = person.pages
        passed = request.node.rep_call.passed  # the report is pytest-playwright's
        leave(first) if passed else forget(first)  # a page may ask before it is left, as in an interview
        for page in others if passed else person.pages:
            page.close()


@pytest.fixture
def visit(tab: Callable[..., Page], server: Server) -> Callable[..., Page]:
    """visit("heads?kv=2", width=…, scheme=…): open that URL of the app in a tab, and wait until it has settled."""

    def visit_address(address: str = "", width: int = WIDE, scheme: str = "light") -> Page:
        page = tab(width, scheme)
        go(page, server, address)
        return page

    return visit_address


def leave(page: Page) -> None:
    """End the session of a tab, and forget what was kept in the browser, such as whether the sidebar was open."""
    if page.url == "about:blank":  # it has nothing to forget, and no storage
        return
    forget(page)
    page.mouse.move(0, 0)
    page.goto("about:blank")


def forget(page: Page) -> None:
    """Empty the storage of the page's site."""
    if page.url.startswith("http"):
        page.evaluate("localStorage.clear(), sessionStorage.clear()")


@pytest.fixture
def visits(visit: Callable[..., Page], server: Server) -> Callable[..., Iterator[tuple[str, Page]]]:
    """visits(addresses, width=…): yield each URL and its page, one after the other in one tab."""

    def visit_each(addresses: Iterable[str], **options: Any) -> Iterator[tuple[str, Page]]:
        page: Page | None = None
        for address in addresses:
            if page is None:
                page = visit(address, **options)
            else:
                go(page, server, address)
            yield address, page

    return visit_each


@pytest.fixture
def turns(visit: Callable[..., Page]) -> Callable[..., Iterator[tuple[str, Page]]]:
    """turns(addresses, width=…): like `visits`, in one session: only the first URL is loaded.

    Each is shown scrolled to its top, without focus or hover.
    """

    def turn_through(addresses: Iterable[str], **options: Any) -> Iterator[tuple[str, Page]]:
        first, *others = addresses
        page = visit(first, **options)
        yield first, page
        for address in others:
            page.evaluate("document.activeElement?.blur()")
            page.get_by_test_id("stMain").evaluate("main => main.scrollTo(0, 0)")
            page.mouse.move(2, 2)
            turn_to(page, address)
            yield address, page

    return turn_through


def go(page: Page, server: Server, address: str) -> None:
    """Open a URL of the app in an open tab, and wait until it has settled."""
    page.goto(f"{server.url}/{address}")
    settle(page)


# A run may be over before the page has rendered its start, and then the state stays as it was: in its place count the
# server's answers, and a second without one.
TURN_TO = """async (address) => {
    const app = document.querySelector("[data-testid=stApp]"), send = WebSocket.prototype.send;
    const turned = new AbortController();
    const began = new Promise((resolve) => new MutationObserver(resolve).observe(app, {
        attributeFilter: ["data-test-script-state"],
    }));
    const answered = new Promise((resolve) => {
        WebSocket.prototype.send = function (...what) {
            let silent;
            this.addEventListener("message", () => {
                clearTimeout(silent);
                silent = setTimeout(resolve, 1000);
            }, turned);
            return send.apply(this, what);
        };
    });
    History.prototype.pushState.call(history, null, "", address);
    dispatchEvent(new PopStateEvent("popstate", { state: null }));
    await Promise.race([began, answered, new Promise((later) => setTimeout(later, 5000))]);
    WebSocket.prototype.send = send;
    turned.abort();
}"""


def turn_to(page: Page, address: str) -> None:
    """Open a URL of the app as Back and Forward do, without a reload, in a third of the time of `go`."""
    page.evaluate(TURN_TO, f"/{address}")
    rest(page)


COUNT_MESSAGES = """() => {
    const send = (window.plainSend ??= WebSocket.prototype.send);
    window.sent = 0;
    WebSocket.prototype.send = function (...what) { window.sent++; return send.apply(this, what); };
}"""


def count_messages(page: Page) -> Callable[[], int]:
    """Count the messages that a page sends to the server from now on; return a function for the count."""
    page.evaluate(COUNT_MESSAGES)
    return lambda: page.evaluate("sent")


@pytest.fixture
def walk() -> Callable[[Page, str], None]:
    """walk(page, "rope"): go to a page by its link in the sidebar."""

    def walk_to(page: Page, name: str) -> None:
        title = PAGES[name][1]
        to_page(page, title).click()
        page.get_by_role("heading", level=1, name=title, exact=True).wait_for()
        settle(page)

    return walk_to
