"""Equations are folded until one opens them, which the browser remembers; a lesson opens those of what it points at.

They are on paper and in saved pictures too.
"""

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


def opened(page: Page) -> list[bool]:
    """Return which are open: three below charts, and the component's own."""
    each = [calculation(page, key) for key in ("answer", "published", "totals")]
    return [is_open(details) for details in (*each, page.locator(".st-key-compared details"))]


def calculations_are_folded_and_come_back_as_one_left_them(page: Page) -> None:
    bars = page.locator(".st-key-compared details")
    assert opened(page) == [False] * 4
    expect(bars.locator(".letters")).to_be_hidden()
    calculation(page, "totals").locator("summary").click()
    bars.locator("summary").click()
    settle(page)
    for part in ("Speed", "Compare models"):
        page.get_by_role("radio", name=part, exact=True).click()
        settle(page)
    calculation(page, "totals").wait_for()
    assert opened(page) == [False, False, True, True]
    expect(calculation(page, "totals").locator(".katex-display").first).to_be_visible()
    expect(bars.locator(".letters")).to_contain_text(LETTERS)
    expect(bars.locator(".letters")).to_be_visible()


APPEARS = """let frames = 0;
const look = () => {
    const details = document.querySelector(".st-key-calculation-totals details");
    if (details && !details.open) window.foldedFor = ++frames;
    requestAnimationFrame(look);
};
look();"""


def they_are_remembered_when_the_page_is_loaded_again_without_a_flash(page: Page) -> None:
    other, sent = page.context.new_page(), []  # its document has not seen the clicks
    other.on("websocket", lambda socket: socket.on("framesent", lambda frame: sent.append(frame)))
    other.add_init_script(APPEARS)
    other.goto(page.url)
    calculation(other, "totals").wait_for()
    settle(other)
    assert opened(other) == [False, False, True, True]
    assert other.evaluate("window.foldedFor ?? 0") <= 2
    n_sent = len(sent)
    calculation(other, "totals").locator("summary").press("Enter")  # what opened as if clicked is closed by one key
    expect(calculation(other, "totals").locator(".katex-display").first).to_be_hidden()
    assert len(sent) == n_sent
    other.reload()
    calculation(other, "totals").wait_for()
    settle(other)
    assert opened(other) == [False, False, False, True]
    other.close()


def each_drawing_has_one_row_of_actions(page: Page) -> None:
    """Also where its calculation or its numbers are Streamlit's and its buttons a component's."""
    for row in (
        [".st-key-answer .save", ".st-key-calculation-answer summary"],
        [".st-key-compared .save", ".st-key-compared summary"],
        [".st-key-calculation-totals summary", ".st-key-numbers-totals summary"],
    ):
        first, second = (page.locator(each).bounding_box() for each in row)
        middles = [box["y"] + box["height"] / 2 for box in (first, second)]
        assert abs(middles[0] - middles[1]) < 6 and second["x"] > first["x"] + first["width"], (row, first, second)


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


def in_a_lesson_that_of_what_it_points_at_is_open(page: Page) -> None:
    expect(page.locator(".st-key-compared details .letters")).to_be_visible()
    assert opened(page) == [False, False, False, True]
    assert [kept(page, place) for place in ("compared", "compared in a lesson")] == [False, None]
    page.locator(".st-key-lesson-next button").click()
    settle(page)
    expect(calculation(page, "filling").locator(".katex-display").first).to_be_visible()
    assert not is_open(calculation(page, "answer"))
    page.locator(".st-key-lesson-leave button").click()
    settle(page)
    expect(calculation(page, "filling").locator(".katex-display").first).to_be_hidden()


def kept(page: Page, place: str) -> bool | None:
    """Return what the browser remembers of a calculation."""
    return page.evaluate("place => JSON.parse(localStorage['attnviz-calculations'])[place] ?? null", place)


WALK = {
    each_drawing_has_one_row_of_actions: "cost",
    calculations_are_folded_and_come_back_as_one_left_them: "",
    they_are_remembered_when_the_page_is_loaded_again_without_a_flash: "",
    a_printed_page_and_a_saved_picture_have_them: "",
    each_drawing_has_a_link_of_its_own: "",
    in_a_lesson_that_of_what_it_points_at_is_open: "cost?lesson=model-card&lesson_step=4",
}


def test_equations_are_folded_outside_lessons(turns: Callable) -> None:
    opened = turns(filter(None, WALK.values()))
    for each, address in WALK.items():
        if address:
            _, page = next(opened)
        each(page)
