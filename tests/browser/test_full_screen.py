"""Every component has a button that opens it full-screen, and every chart has Streamlit's."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, Page, expect


def test_a_drawing_fills_the_screen_and_goes_back_to_its_place(turns: Callable) -> None:
    for each, (_, page) in zip(WALK.values(), turns(WALK), strict=True):
        each(page)


def bars_and_a_chart(page: Page) -> None:
    bars = page.locator(".st-key-compared")
    first, on_page = bars.locator("rect").first, bars.locator("rect").first.bounding_box()
    opened(page, bars)
    assert bars.locator(".ts").bounding_box() == {"x": 0, "y": 0, "width": 1440, "height": 900}
    assert first.bounding_box()["height"] > 1.5 * on_page["height"]
    assert bars.get_by_role("button", name="Leave full screen").bounding_box()["y"] < 860
    bars.get_by_role("button", name="Leave full screen").click()
    expect(bars.get_by_role("button", name="Full screen", exact=True)).to_be_visible()
    assert first.bounding_box() == pytest.approx(on_page, abs=1)
    chart = page.locator(".st-key-figure-published")
    chart.get_by_role("button", name="Fullscreen", exact=True).click()
    chart.get_by_role("button", name="Close fullscreen").click()
    expect(chart.get_by_role("button", name="Fullscreen", exact=True)).to_be_visible()


def a_head_is_read(page: Page) -> None:
    head = page.locator(".st-key-head-view")
    opened(page, head)
    head.locator("canvas").first.hover()
    expect(head.locator(".read")).to_have_text(re.compile(r"Query \d+ .* → key \d+ .*"))
    head.get_by_role("button", name="Leave full screen").click()


def clocks_fit(page: Page) -> None:
    clocks = page.locator(".st-key-rope-clocks")
    opened(page, clocks)
    last = clocks.get_by_role("radio").last.bounding_box()
    assert last["x"] + last["width"] <= 1440 and last["y"] + last["height"] <= 900


WALK = {"cost": bars_and_a_chart, "heads": a_head_is_read, "rope": clocks_fit}


def opened(page: Page, drawing: Locator) -> None:
    """Press its button, and wait until its size is final."""
    drawing.get_by_role("button", name="Full screen", exact=True).click()
    expect(drawing.get_by_role("button", name="Leave full screen")).to_be_visible()
    page.wait_for_function("document.fullscreenElement")
