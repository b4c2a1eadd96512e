"""Equations are folded, come back as one left them, and are open in lessons, on paper and in saved pictures."""

import re
import xml.etree.ElementTree as ET
from collections.abc import Callable

from playwright.sync_api import Locator, Page, expect

from tests.browser.painted import settle
from tests.browser.test_saving import save, texts

LETTERS = "KV heads"  # in the legend of every cache


def calculation(page: Page, key: str) -> Locator:
    return page.locator(f".st-key-calculation-{key} details")


def is_open(details: Locator) -> bool:
    return details.evaluate("each => each.open")


def printed(page: Page) -> list[bool]:
    """Return whether each calculation is open while the page is printed."""
    page.evaluate(
        """window.addEventListener("beforeprint", () => {
            const all = [...document.querySelectorAll("[class*=st-key-calculation-] details")];
            window.onPaper = all.map((each) => each.open);
        }, { once: true })"""  # after the app's own listener
    )
    page.pdf()
    return page.evaluate("window.onPaper")


def calculations_are_folded_and_come_back_as_one_left_them(page: Page) -> None:
    bars = page.locator(".st-key-compared details")
    assert [is_open(calculation(page, key)) for key in ("answer", "published", "totals")] == [False] * 3
    expect(bars.locator(".letters")).to_be_hidden()
    calculation(page, "totals").locator("summary").click()
    bars.locator("summary").click()
    settle(page)
    for part in ("Speed", "Compare models"):
        page.get_by_role("radio", name=part, exact=True).click()
        settle(page)
    calculation(page, "totals").wait_for()
    assert [is_open(calculation(page, key)) for key in ("answer", "published", "totals")] == [False, False, True]
    expect(calculation(page, "totals").locator(".katex-display").first).to_be_visible()
    expect(bars.locator(".letters")).to_contain_text(LETTERS)
    expect(bars.locator(".letters")).to_be_visible()


def a_printed_page_and_a_saved_picture_have_them(page: Page) -> None:
    bars = page.locator(".st-key-compared details")
    bars.locator("summary").click()
    expect(bars.locator(".letters")).to_be_hidden()
    svg = ET.fromstring(save(page.locator(".st-key-compared"), "SVG")[0][1])
    assert LETTERS in texts(svg) and "Show the calculation" not in texts(svg)
    assert not is_open(bars)
    assert set(printed(page)) == {True}
    page.wait_for_function("!document.querySelector('.st-key-calculation-published details').open")


def each_drawing_has_a_link_of_its_own(page: Page) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.locator(".st-key-compared").get_by_role("button", name="Copy the link to this drawing").click()
    expect(page.locator(".st-key-compared").get_by_text("Copied")).to_be_visible()
    assert re.search(r"/cost\?.*only=compared", page.evaluate("navigator.clipboard.readText()"))


def in_a_lesson_they_are_open(page: Page) -> None:
    for key in ("answer", "published", "totals"):
        assert is_open(calculation(page, key)), key
    expect(page.locator(".st-key-compared details .letters")).to_be_visible()


WALK = {
    calculations_are_folded_and_come_back_as_one_left_them: "cost",
    a_printed_page_and_a_saved_picture_have_them: "",
    each_drawing_has_a_link_of_its_own: "",
    in_a_lesson_they_are_open: "cost?lesson=cache-cost&lesson_step=2",
}


def test_equations_are_folded_outside_lessons(turns: Callable) -> None:
    opened = turns(filter(None, WALK.values()))
    for each, address in WALK.items():
        if address:
            _, page = next(opened)
        each(page)
