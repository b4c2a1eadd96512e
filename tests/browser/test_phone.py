"""On a phone, text, examples and model can be changed on the page itself, and the result is visible."""

import re
from collections.abc import Callable
from itertools import pairwise

import numpy as np
from playwright.sync_api import Locator, Page, expect

from attnviz.session.examples import EXAMPLES
from tests.browser.conftest import NARROW
from tests.browser.painted import overflow, pixels, settle, unfold
from tests.browser.sidebar import take_option


def opened(page: Page) -> tuple[Locator, Locator]:
    """Open the expander; return its summary line and the main part of the page."""
    line, main = page.locator(".st-key-narrow summary"), page.get_by_test_id("stMain")
    line.tap()
    settle(page)
    return line, main


def a_text_an_example_and_a_model_are_taken_on_the_page_itself(page: Page) -> None:
    line, main = opened(page)
    expect(line).to_contain_text("“one two” · GQA-4")
    before = pixels(page.get_by_role("grid"))
    main.get_by_label("Your text").fill("three four five")
    main.get_by_role("button", name="Apply").tap()
    expect(line).to_contain_text("“three four five” · GQA-4")
    settle(page)
    assert not np.array_equal(pixels(page.get_by_role("grid")), before)
    expect(main.get_by_label("Your text")).to_be_hidden()  # closed, so that the result is visible
    settle(page)  # the text is applied when it loses the focus, and again by the button: this run closes the box
    assert page.get_by_role("gridcell").first.bounding_box()["y"] < 500

    opened(page)
    main.get_by_role("radio", name="a list", exact=True).tap()
    expect(line).to_contain_text(EXAMPLES["a list"][:20])
    expect(page).to_have_url(re.compile("apples"))
    expect(main.get_by_label("Your text")).to_be_hidden()
    settle(page)

    opened(page)
    expect(main.get_by_label("Your text")).to_have_value(EXAMPLES["a list"])
    take_option(main.get_by_role("combobox", name="Model"), page.get_by_role("option", name="MQA"), touch=True)
    expect(line).to_contain_text("· MQA")
    expect(main).to_contain_text("8 query heads read 1 KV head")
    settle(page)
    assert overflow(page) == 0


def the_sidebar_does_not_repeat_the_text_and_closes_after_a_choice(page: Page) -> None:
    page.get_by_test_id("stExpandSidebarButton").tap()
    sidebar = page.get_by_test_id("stSidebar")
    expect(sidebar.get_by_role("link", name="RoPE", exact=True)).to_be_visible()
    expect(sidebar.get_by_label("Text", exact=True)).to_be_hidden()
    expect(sidebar.get_by_role("button", name="Apply")).to_be_hidden()

    sidebar.get_by_role("link", name="RoPE", exact=True).tap()
    expect(page).to_have_url(re.compile("/rope"))
    expect(sidebar).not_to_be_in_viewport()  # it covered the page
    page.get_by_test_id("stExpandSidebarButton").tap()
    take_option(sidebar.get_by_role("combobox", name="Model"), page.get_by_role("option", name="MLA"), touch=True)
    expect(page).to_have_url(re.compile("model=mla"))
    expect(sidebar).not_to_be_in_viewport()


STRIP = "getComputedStyle(document.querySelector('[data-testid=stHeader]')).backgroundColor"


def a_scrolled_page_disappears_below_a_strip_and_long_equations_fit(page: Page) -> None:
    assert page.evaluate(STRIP) == "rgba(0, 0, 0, 0)"  # the title stands beside the buttons
    page.locator(".st-key-numbers-totals").scroll_into_view_if_needed()
    settle(page)
    page.wait_for_function(f"{STRIP} === 'rgb(251, 251, 250)'")
    formulas_fit(page)


def formulas_fit(page: Page) -> None:
    formulas = page.locator(".katex-display")
    formulas.first.wait_for(state="attached")
    unfold(page)
    assert max(formulas.evaluate_all("all => all.map(e => e.scrollWidth - e.clientWidth)")) <= 2


def an_equation_of_one_line_wraps(page: Page) -> None:
    page.locator(".st-key-numbers-projections-cache summary").tap()
    formula = page.locator(".st-key-numbers-projections-cache .katex-display").first
    formula.wait_for()
    formulas_fit(page)
    bases = formula.locator(".katex-html > .base").evaluate_all("all => all.map(e => e.getBoundingClientRect().bottom)")
    assert len({round(bottom / 10) for bottom in bases}) > 1


def the_stages_of_a_head_are_below_each_other(page: Page) -> None:
    maps = page.locator(".st-key-chart-stages .heatmaplayer > .hm")
    page.wait_for_function("document.querySelector('.st-key-chart-stages .main-svg')?.clientHeight > 900")
    settle(page)
    boxes = [each.bounding_box() for each in maps.all()]
    tops = sorted({round(box["y"]) for box in boxes})
    assert len(tops) == 3 and all(after - before > 270 for before, after in pairwise(tops))
    assert min(box["width"] for box in boxes) > 250
    assert overflow(page) == 0


def the_whole_text_of_a_step_is_read_without_scrolling(page: Page) -> None:
    page.locator(".st-key-lesson-fold button").tap()
    expect(page.locator(".st-key-bar-read, .st-key-bar-brief")).to_have_count(0)
    assert page.locator(".st-key-lesson-text").evaluate("e => e.scrollHeight - e.clientHeight") <= 1
    boxes = [each.bounding_box() for each in page.locator(".st-key-lesson-tools button:visible").all()]
    assert len({round(box["y"]) for box in boxes}) == 1
    assert page.locator(".st-key-lesson-next button").bounding_box()["x"] == max(box["x"] for box in boxes)
    page.locator(".st-key-lesson-fold button").tap()


def the_bar_of_a_lesson_is_low_until_its_text_is_asked_for(page: Page) -> None:
    bar, fold = page.get_by_test_id("stBottom"), page.locator(".st-key-lesson-fold button")
    for width, height in ((360, 740), (390, 844)):
        page.set_viewport_size({"width": width, "height": height})
        assert bar.bounding_box()["height"] <= 115
        targets = page.locator(".st-key-lesson-tools button:visible").all()
        assert len(targets) == 4 and min(each.bounding_box()["height"] for each in targets) >= 44
    page.locator(".st-key-lesson-answer button").tap()
    expect(page.locator(".st-key-lesson-text").get_by_text("Not necessarily")).to_be_in_viewport()  # scrolled to it
    assert bar.bounding_box()["height"] < 0.48 * 844
    fold.tap()
    expect(page.locator(".st-key-lesson-text").get_by_text("Not necessarily")).to_have_count(0)
    assert bar.bounding_box()["height"] <= 115


def what_one_can_do_is_on_the_first_screen(page: Page) -> None:
    settle(page)
    buttons = page.locator(".st-key-routes button")
    expect(buttons.first).to_be_visible()
    for button in buttons.all():
        expect(button).to_be_in_viewport(ratio=1)
    first = page.get_by_role("gridcell").first.bounding_box()["y"]
    assert buttons.first.bounding_box()["y"] < first < 700
    assert overflow(page) == 0


WALK = {  # {assertion: URL, or "" to go on where the one before has ended}
    what_one_can_do_is_on_the_first_screen: "?model=gqa-4",
    a_text_an_example_and_a_model_are_taken_on_the_page_itself: "heads?text=one two",
    the_sidebar_does_not_repeat_the_text_and_closes_after_a_choice: "",
    a_scrolled_page_disappears_below_a_strip_and_long_equations_fit: (
        "cost?compare=gemma-3-27b,gpt-oss-120b,llama-2-7b"
    ),
    an_equation_of_one_line_wraps: "query_groups",
    the_stages_of_a_head_are_below_each_other: "heads?tab=stages",
    the_whole_text_of_a_step_is_read_without_scrolling: "rope?model=mla&tab=latent&lesson=mla&lesson_step=7",
    the_bar_of_a_lesson_is_low_until_its_text_is_asked_for: (
        "heads?layer=1&head=3&query=19&tab=writes&lesson=one-head&lesson_step=7"
    ),
}


def test_a_phone_shows_what_is_chosen_and_hides_what_covers_it(turns: Callable) -> None:
    opened = turns(filter(None, WALK.values()), width=NARROW)
    for each, address in WALK.items():
        if address:
            _, page = next(opened)
        each(page)
