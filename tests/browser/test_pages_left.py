"""Pages that were left are given back: what holds one element of such a page holds all of it."""

from collections.abc import Callable

from playwright.sync_api import Page

from tests.browser.conftest import turn_to

ADDRESSES = ("rope", "heads")  # with drawings that fold their calculation
HELD = 900  # nodes; either of these pages has 2,500 and more. React Aria holds some 100 per page


def test_a_page_that_is_left_is_not_held(visit: Callable[..., Page]) -> None:
    page = visit("heads")
    browser = page.context.new_cdp_session(page)
    browser.send("Performance.enable")

    def nodes_after_a_round() -> int:
        for address in ADDRESSES:
            turn_to(page, address)
        browser.send("HeapProfiler.collectGarbage")
        measured = {each["name"]: each["value"] for each in browser.send("Performance.getMetrics")["metrics"]}
        return int(measured["Nodes"])

    first = nodes_after_a_round()
    nodes_after_a_round()
    held = nodes_after_a_round() - first
    assert held < HELD
