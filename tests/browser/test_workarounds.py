"""Each workaround of attnviz/server that runs in the browser: what differs without it, and that it can be switched off.

When one of these fails because both servers behave alike, Streamlit has changed, and that workaround can be removed.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from attnviz.server import browser, switches
from tests.browser.conftest import NARROW, WIDE, go, viewport
from tests.browser.painted import settle
from tests.browser.server import Server, serve
from tests.browser.sidebar import pick_model, to_page
from tests.browser.test_frame import in_address


def history_entries(page: Page) -> int:
    """Return the number of history entries that opening a head of the overview adds."""
    page.evaluate("""() => {  // not history.length: it ends at 50, and earlier tests were in this tab
        window.added = 0;
        navigation.addEventListener("navigate", (event) => (window.added += event.navigationType === "push"));
    }""")
    page.get_by_role("gridcell").nth(5).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Heads")
    settle(page)
    return page.evaluate("added")


def letter_presses(page: Page) -> bool:
    """Check whether P presents while an answer has the focus; go back if it does."""
    page.get_by_test_id("stMain").evaluate("""main => {
        const answer = main.appendChild(Object.assign(document.createElement("input"), { type: "radio" }));
        answer.focus({ preventScroll: true });
    }""")
    page.keyboard.press("p")
    page.wait_for_timeout(1000)
    presented = "present" in page.url
    if presented:
        settle(page)
        page.go_back()
        page.get_by_test_id("stSidebar").wait_for()
        settle(page)
    return presented


def sidebar_closes(page: Page) -> bool:
    """Check whether a phone's sidebar closes by itself after a page was chosen in it; close it by hand if not."""
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


def finger_scrolls(page: Page) -> bool:
    """Check whether moving a finger upwards on a plotly chart scrolls the page."""
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


def dims(page: Page) -> bool:
    """Check whether an outdated element is dimmed 0.3 s later."""
    return page.get_by_test_id("stMain").evaluate(OPACITY_OF_OUTDATED) < 0.5


EFFECTS = {  # file: (what it changes, in which window, with it, without it); each begins where the one before has ended
    "dimming": (dims, WIDE, True, False),
    "one_entry": (history_entries, WIDE, 1, 2),
    "shortcuts": (letter_presses, WIDE, True, False),
    "drawer": (sidebar_closes, NARROW, True, False),
    "touch": (finger_scrolls, NARROW, True, False),
}


def test_workarounds_in_the_browser_make_a_difference_and_the_app_works_without_any(
    tab: Callable[..., Page], server: Server
) -> None:
    page = tab(NARROW)  # with touch, in both widths
    with serve(env={"ATTNVIZ_WITHOUT": "all"}) as plain:
        assert seen(page, server) == {name: with_it for name, (*_, with_it, _) in EFFECTS.items()}
        assert seen(page, plain) == {name: without_it for name, (*_, without_it) in EFFECTS.items()}
        settings_heads_pages_and_charts_work(page, plain)
        assert plain.tracebacks() == []


def seen(page: Page, server: Server) -> dict[str, int | bool]:
    found = {}
    page.set_viewport_size(viewport(WIDE))
    go(page, server, "")
    for name, (effect, width, *_) in EFFECTS.items():
        page.set_viewport_size(viewport(width))
        found[name] = effect(page)
    return found


def settings_heads_pages_and_charts_work(page: Page, plain: Server) -> None:
    page.set_viewport_size(viewport(WIDE))
    page.get_by_test_id("stExpandSidebarButton").click()  # the phone's was closed
    go(page, plain, "heads?window=9")
    pick_model(page, "MQA")
    expect(page.get_by_text("8 query heads read 1 KV head")).to_be_visible()
    settle(page)
    page.get_by_role("gridcell", name="Layer 2, head 5,").click()
    expect(page.get_by_role("heading", name="Layer 2, head 5")).to_be_visible()
    settle(page)
    asked = {"window": ["9"], "model": ["mqa"], "selection": ["auto"], "layer": ["2"], "head": ["5"]}
    assert in_address(page) == asked
    to_page(page, "RoPE").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("RoPE")
    settle(page)
    expect(page.get_by_text("8 query heads read 1 KV head")).to_be_visible()
    assert in_address(page) == asked
    page.go_back()
    expect(page.get_by_role("heading", name="Layer 2, head 5")).to_be_visible()
    settle(page)
    page.get_by_text("Zoom, numbers and downloads").first.click()
    expect(page.locator(".stPlotlyChart").first).to_be_visible()


@pytest.mark.parametrize("name", EFFECTS)
def test_each_is_switched_off_by_its_name_alone(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(switches, "_WITHOUT", [name])
    sent = {file.stem for file in (*browser.enabled("js"), *browser.enabled("css"))}
    assert EFFECTS.keys() - sent == {name}
