"""Each workaround of attnviz/server that runs in the browser: what differs without it, and that it can be switched off.

When one of these fails because both servers behave alike, Streamlit has changed, and that workaround can be removed.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import NARROW
from tests.browser.painted import settle
from tests.browser.server import Server, serve


def opened(page: Page, server: Server, path: str) -> Page:
    page.goto(f"{server.url}/{path}")
    settle(page)
    return page


def history_entries(window: Callable[..., Page], server: Server) -> int:
    """Return the number of history entries that opening a head of the overview adds."""
    page = opened(window(), server, "")
    before = page.evaluate("history.length")
    page.get_by_role("gridcell").nth(5).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Heads")
    settle(page)
    return page.evaluate("history.length") - before


def sidebar_closes(window: Callable[..., Page], server: Server) -> bool:
    """Check whether a phone's sidebar closes by itself after a page was chosen in it; close it by hand if not."""
    page = opened(window(width=NARROW), server, "heads")
    page.get_by_test_id("stExpandSidebarButton").tap()
    sidebar = page.get_by_test_id("stSidebar")
    sidebar.get_by_role("link", name="RoPE", exact=True).tap()
    expect(page.get_by_role("heading", level=1)).to_have_text("RoPE")
    settle(page)
    page.wait_for_timeout(500)
    closed = sidebar.bounding_box()["x"] < 0
    if not closed:
        page.get_by_test_id("stSidebarCollapseButton").get_by_role("button").tap()
    expect(sidebar).not_to_be_in_viewport()
    return closed


def finger_scrolls(window: Callable[..., Page], server: Server) -> bool:
    """Check whether moving a finger upwards on a plotly chart scrolls the page."""
    page = opened(window(width=NARROW), server, "cost")
    chart, main = page.locator(".stPlotlyChart .draglayer").first, page.get_by_test_id("stMain")
    chart.evaluate("chart => chart.scrollIntoView({ block: 'center' })")
    before, box = main.evaluate("main => main.scrollTop"), chart.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    finger = page.context.new_cdp_session(page)
    for kind, up in (("touchStart", 0), *(("touchMove", 10 * step) for step in range(1, 16))):
        finger.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [{"x": x, "y": y - up}]})
    finger.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    page.wait_for_timeout(300)
    return main.evaluate("main => main.scrollTop") > before


OPACITY_OF_OUTDATED = """main => {
    const element = document.createElement("div");
    element.dataset.stale = "true";
    main.append(element);
    return new Promise((resolve) => setTimeout(() => resolve(+getComputedStyle(element).opacity), 300));
}"""


def dims(window: Callable[..., Page], server: Server) -> bool:
    """Check whether an outdated element is dimmed 0.3 s later."""
    return opened(window(), server, "").get_by_test_id("stMain").evaluate(OPACITY_OF_OUTDATED) < 0.5


EFFECTS = {  # file: (what it changes, with it, without it)
    "one_entry": (history_entries, 1, 2),
    "drawer": (sidebar_closes, True, False),
    "touch": (finger_scrolls, True, False),
    "dimming": (dims, True, False),
}


@pytest.mark.parametrize("name", EFFECTS)
def test_a_workaround_in_the_browser_makes_a_difference_and_can_be_switched_off(
    window: Callable[..., Page], server: Server, name: str
) -> None:
    effect, with_it, without_it = EFFECTS[name]
    assert effect(window, server) == with_it
    with serve(env={"ATTNVIZ_WITHOUT": name}) as plain:
        assert effect(window, plain) == without_it
        assert plain.tracebacks() == []
