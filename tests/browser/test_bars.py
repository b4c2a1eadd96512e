"""The bars of lessons and routes are low, and what an answer makes appear is above them."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import NARROW, WIDE, turn_to
from tests.browser.painted import settle

MOST = {WIDE: 64, NARROW: 115}  # pixels of a bar, at these widths; on a phone a question has two lines
READ = {WIDE: 170, NARROW: 115}  # of one whose step is only read, of which a wide window shows all
CUT = """() => [...document.querySelectorAll(".st-key-bar-read .st-key-lesson-text :is(div, p)")]
  .some(each => each.scrollHeight > each.clientHeight + 6 && getComputedStyle(each).overflowY === "hidden")"""
SET = "practice?subject=cost&level=2&questions=2&question_set=64&route=interview-20&route_item=4"
PLACES = {  # a lesson in a route, its question, a set at a lesson's end, a mistake, a spoken question, a mock interview
    "query_groups?lesson=shared-kv-heads&lesson_step=2&route=interview-20": ("", ""),
    "heads?layer=1&head=3&tab=writes&query=19&lesson=one-head&lesson_step=7&route=interview-60": ("", ""),
    "query_groups?model=mla&lesson=mla&lesson_step=2": ("", ""),
    SET: ("I do not know", "next"),
    "practice?subject=cost&questions=5&lesson=cache-cost&lesson_step=7": ("", ""),
    "mistakes?mistake=groups_mixed_up&hunt=1&route=interview-20&route_item=2": ("Show it", "mistake-answers"),
    "practice?tab=aloud&card=gqa-same-flops&route=interview-20&route_item=3": ("Show the points", "spoken-points"),
    "practice?tab=interview&interview=15&question_set=64&route=interview-60&route_item=9": ("", ""),
}
READING = list(PLACES)[:3]
SEEN = """key => {
  const box = document.querySelector(`.st-key-${key}`)?.getBoundingClientRect();
  const bar = document.querySelector("[data-testid=stBottom]").getBoundingClientRect();
  return box && box.top >= 0 && (box.bottom <= bar.top || (box.top < 90 && box.height > bar.top - 90));
}"""

FOCUSED_IN_SIGHT = """() => {
  let at = document.activeElement;
  while (at.shadowRoot?.activeElement) at = at.shadowRoot.activeElement;
  const [box, bar] = [at, document.querySelector("[data-testid=stBottom]")].map(each => each.getBoundingClientRect());
  return at !== document.body && box.top >= 0 && box.bottom <= bar.top;
}"""


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_a_bar_is_low_and_what_an_answer_makes_appear_is_above_it(visit: Callable[..., Page], width: int) -> None:
    page = visit(SET, width=width, scheme="dark" if width == NARROW else "light")
    page.set_viewport_size({"width": 1280, "height": 620} if width == WIDE else {"width": NARROW, "height": 600})
    for address, (pressed, appears) in PLACES.items():
        turn_to(page, address)
        settle(page)
        if address == SET:
            page.get_by_role("button", name="Start", exact=True).click()
            settle(page)
        bar, reads = page.get_by_test_id("stBottom"), page.locator(".st-key-bar-read").count() == 1
        assert reads == (address in READING)
        assert bar.bounding_box()["height"] <= (READ if reads else MOST)[width], address
        assert not (reads and width == WIDE and page.evaluate(CUT)), address
        if pressed:
            page.get_by_role("button", name=pressed, exact=True).click()
            page.wait_for_function(SEEN, arg=appears, timeout=20_000)
            assert bar.bounding_box()["height"] <= MOST[width], address


def test_an_item_of_a_route_opens_at_the_top_of_its_page(visit: Callable[..., Page]) -> None:
    page = visit("practice?tab=aloud&card=gqa-same-flops&route=interview-20&route_item=3", width=NARROW)
    page.get_by_role("button", name="Show the points").tap()
    main = page.get_by_test_id("stMain")
    settle(page)
    main.evaluate("main => main.scrollTo(0, 600)")
    page.locator(".st-key-route-next button").tap()
    page.get_by_role("button", name="Start", exact=True).wait_for()
    page.wait_for_function("document.querySelector('[data-testid=stMain]').scrollTop < 10", timeout=10_000)


def test_a_button_that_has_shown_the_answer_is_gone_where_that_ends_an_item(visit: Callable[..., Page]) -> None:
    page = visit("mistakes?mistake=groups_mixed_up&hunt=1&route=interview-20&route_item=2")
    for name in ("Show it", "Show the answer"):
        page.get_by_role("button", name=name, exact=True).click()
        settle(page)
    expect(page.locator(".st-key-lesson-text")).to_contain_text("This item is done.")
    expect(page.get_by_role("button", name="Show the answer", exact=True)).to_have_count(0, timeout=5_000)


def test_a_key_ends_the_steps_scrolling_and_what_has_the_focus_is_above_the_bar(visit: Callable[..., Page]) -> None:
    page = visit("query_groups?lesson=shared-kv-heads&lesson_step=4")
    page.set_viewport_size({"width": 1280, "height": 720})
    page.reload()
    page.locator(".st-key-lesson-next button").wait_for()  # it scrolls now, for more than 2 seconds
    page.wait_for_function("() => document.querySelector('[data-testid=stMain]').scrollTop > 200")
    page.get_by_role("radio", name="GQA-4").evaluate("each => each.focus()")
    page.keyboard.press("Tab")
    settle(page)
    assert page.evaluate(FOCUSED_IN_SIGHT)
    page.wait_for_timeout(600)
    assert page.evaluate(FOCUSED_IN_SIGHT)
    head = page.get_by_role("gridcell", name="Layer 1, head 3")
    head.evaluate("""each => {
      const bar = document.querySelector("[data-testid=stBottom]").getBoundingClientRect();
      document.querySelector("[data-testid=stMain]").scrollBy(0, each.getBoundingClientRect().top - bar.top - 20);
      each.focus({ preventScroll: true });
    }""")
    for key in ("ArrowRight", "Shift+ArrowUp"):
        page.keyboard.press(key)
        page.wait_for_function(FOCUSED_IN_SIGHT, timeout=5_000)
    button = page.locator(".st-key-lesson-home button")  # it has a picture: pointed at, it says its name above itself
    button.hover()
    name, box = button.locator("p").bounding_box(), button.bounding_box()
    assert name["width"] > 40 and 0 < name["height"] < 40 and name["y"] + name["height"] <= box["y"]
    expect(button).to_have_accessible_name("All lessons")
