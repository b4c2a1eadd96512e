"""The index of a long page: its links, the way back to its main drawing, and tabs that a phone shows early."""

import re
from collections.abc import Callable

from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import NARROW
from tests.browser.painted import overflow, settle
from tests.browser.server import Server


def test_a_link_leads_to_its_drawing_and_another_back_to_the_first(window: Callable[..., Page], server: Server) -> None:
    page = window()
    page.goto(f"{server.url}/heads")
    page.set_viewport_size({"width": 1280, "height": 720})
    index = page.get_by_role("navigation", name="On this page")
    expect(index.get_by_role("link")).to_have_count(6)
    settle(page)
    back = page.get_by_role("button", name="Back to the first drawing: All heads")
    expect(back).to_be_hidden()
    url = page.url
    assert index.get_by_role("link").all_inner_texts() == [
        "All heads", "Selected head", "Tokens shaded by weight", "From score to weight", "Look closer",
        "Lines between tokens",
    ]  # fmt: skip
    index.get_by_role("link", name="From score to weight").press("Enter")
    drawing = page.locator(".st-key-head-path")
    expect(drawing).to_be_focused()
    expect(drawing).to_be_in_viewport(ratio=0.9)
    stands_in_the_margin(page, back)
    back.click()
    expect(page.locator(".st-key-head-grid")).to_be_focused()
    expect(page.get_by_role("grid").first).to_be_in_viewport(ratio=0.9)
    expect(back).to_be_hidden()
    expect(index).to_be_in_viewport(ratio=1)
    assert page.url == url
    page.goto(f"{server.url}/rope")
    index.get_by_role("link", name="Rotation of one pair").click()
    expect(page.get_by_role("heading", name="The rotation of one pair")).to_be_in_viewport(ratio=1)
    expect(page.get_by_text("Pair", exact=True).first).to_be_in_viewport(ratio=1)
    expect(page.locator(".st-key-rope-pair")).to_be_in_viewport(ratio=0.5)
    for width, height in ((1280, 720), (390, 844)):
        never_covers_a_lessons_bar(
            page, f"{server.url}/query_groups?lesson=shared-kv-heads&lesson_step=2", width, height
        )


def test_a_long_page_without_drawings_lists_its_headings(window: Callable[..., Page], server: Server) -> None:
    page = window(NARROW)
    page.goto(f"{server.url}/practice?tab=write")
    index = page.get_by_role("navigation", name="On this page")
    names = ["The skeleton", "On your own machine", "Or paste your code here"]
    expect(index.get_by_role("link")).to_have_text(names)
    settle(page)
    index.get_by_role("link", name=names[2]).press("Enter")
    expect(page.get_by_role("heading", name=names[2])).to_be_focused()
    expect(page.get_by_label("Your code for Grouped-query attention")).to_be_in_viewport(ratio=0.9)
    expect(
        page.get_by_role("button", name=re.compile("^Back to the (first section: The skeleton|top of the page)$"))
    ).to_be_visible()
    page.get_by_text("Drills", exact=True).click()  # a short tab: its headings are in sight
    expect(index).to_be_hidden()


def stands_in_the_margin(page: Page, back: Locator) -> None:
    """It is an arrow beside the page's contents and the frame of a lesson; its name is shown when it is pointed at."""
    contents = page.get_by_test_id("stMainBlockContainer").evaluate(
        "e => e.getBoundingClientRect().right - parseFloat(getComputedStyle(e).paddingRight)"
    )
    assert back.bounding_box()["x"] >= contents + 8 and back.inner_text() == "↑"
    back.hover()
    expect(back).to_have_text(re.compile("All heads"), use_inner_text=True)
    page.mouse.move(600, 300)
    expect(back).to_have_text("↑", use_inner_text=True)


def never_covers_a_lessons_bar(page: Page, url: str, width: int, height: int) -> None:
    page.set_viewport_size({"width": width, "height": height})
    page.goto(url)
    page.locator(".st-key-lesson-next button").wait_for()
    settle(page)
    page.get_by_test_id("stMain").evaluate("e => e.scrollTo(0, e.scrollHeight)")
    back = page.get_by_role("button", name="Back to the ")
    expect(back).to_be_visible()
    box, bar = back.bounding_box(), page.get_by_test_id("stBottom").bounding_box()
    assert box["y"] >= 0 and box["y"] + box["height"] <= bar["y"]


def test_a_phone_shows_the_tabs_of_long_pages_early(window: Callable[..., Page], server: Server) -> None:
    page = window(NARROW)
    for path in ("heads", "query_groups", "rope", "decode"):
        page.goto(f"{server.url}/{path}")
        settle(page)
        tabs = page.locator(":is(.st-key-control-group, .st-key-control-tab) [role=radio]").first
        expect(tabs).to_be_attached()
        settle(page)
        main = page.get_by_test_id("stMain")
        top = tabs.bounding_box()["y"] + main.evaluate("e => e.scrollTop")
        assert top <= 2 * 844, path
        link = page.get_by_role("navigation", name="On this page").get_by_role("link").first.bounding_box()
        title = page.locator("h1").bounding_box()
        assert title["y"] + title["height"] <= link["y"] + link["height"] / 2 - 9, path  # its text is in the middle
        assert overflow(page) == 0
