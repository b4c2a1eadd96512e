"""Cost page in a browser: links restore the view, controls change it, and a measurement can be stopped.

pytest tests/browser/test_cost_page.py
"""

import re
from collections.abc import Callable

from playwright.sync_api import Page, expect

from tests.browser.conftest import NARROW, WIDE, viewport
from tests.browser.painted import background, cut_off, fits, painted_fraction, pixels, settle, shoot, trimmed

WIDENED = """[...document.querySelectorAll(".js-plotly-plot")]
    .filter(plot => ["l", "t", "b"].some(side => plot._fullLayout._size[side] > plot.layout.margin[side]))
    .map(plot => plot.innerText)"""  # charts that plotly.js has drawn twice to make room for their labels
TINY = "model=own&n_layers=1&n_heads=2&n_kv_heads=1&d_model=8"


def chart(page: Page, key: str):
    return page.locator(f".st-key-chart-{key}")


def title(page: Page, words: str):
    return page.get_by_role("heading", name=re.compile(words))


PARTS = {
    "Compare models": "alternatives",
    "Filling the memory": "filling",
    "Speed": "machines",
}


def is_whole(page: Page, part: str, width: int, scheme: str) -> None:
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 4500})  # charts outside the window are not drawn
    settle(page)
    fits(page)
    assert cut_off(page) == [], f"{part}, {width} pixels wide"
    shoot(page, f"cost-{PARTS[part]}-{width}-{scheme}")


def is_painted(page: Page, keys: list[str], scheme: str) -> None:
    for key in keys:
        image = pixels(chart(page, key))
        assert painted_fraction(image) > 0.04, f"{key} is not painted"
        assert (sum(background(image)) < 3 * 64) == (scheme == "dark"), key


def the_page_opens_with_published_models_and_the_shipped_one_among_them(page: Page) -> None:
    heights = [chart(page, key).bounding_box()["y"] for key in ("published", "attention")]
    assert heights[0] < heights[1]
    assert page.get_by_test_id("stPlotlyChart").count() > 3 and page.evaluate(WIDENED) == []
    expect(page.get_by_role("heading", name=re.compile("^AttnViz toy GQA-4: the model"))).to_be_visible()
    for name in ("Llama 3 8B", "DeepSeek-V3"):
        expect(chart(page, "published").locator("text", has_text=name).first).to_be_visible()
    bars = page.locator(".st-key-compared")
    assert bars.bounding_box()["y"] < heights[0] and bars.locator("rect").count() == 5
    expect(bars.get_by_text("AttnViz toy GQA-4", exact=True)).to_be_visible()
    looks = bars.locator("rect").evaluate_all(
        "all => all.map((each) => getComputedStyle(each)).map(({ fill, stroke }) => [fill, stroke])"
    )
    faint = [stroke != looks[2][1] for _, stroke in looks]  # within its context, a bar has the page's colour around it
    assert faint == [True, True, False, False, True] and ["/ 0.4" in fill for fill, _ in looks] == faint
    is_whole(page, "Compare models", WIDE, "light")
    is_painted(page, ["attention", "cache", "alternatives"], "light")
    page.set_viewport_size(viewport(WIDE))


def one_click_compares_two_models_and_the_address_says_so(page: Page) -> None:
    page.get_by_text("Half the heads", exact=True).click()
    settle(page)
    expect(page.get_by_text("does not depend on the number of heads")).to_be_visible()
    expect(page).to_have_url(re.compile("compare=deepseek-v3%2Ckimi-k2"))
    after = re.compile("At 128 K tokens: .* 8.58 GiB")
    expect(page.get_by_role("heading", name=after)).to_be_visible()
    expect(page.get_by_role("figure", name=after)).to_be_visible()


FOCUSED = "() => [document.activeElement.ariaLabel, document.activeElement.localName].join()"


def the_question_is_asked_and_a_row_opened_by_the_keyboard_alone(page: Page) -> None:
    page.get_by_role("combobox", name="Model to serve").focus()
    asked = (("Model", "Gemma 3 27B"), ("Context", "20000"), ("Sequences", "10"), ("Accelerator", "RTX 4090"))
    for field, typed in asked:
        tab_to(page, field)
        if typed.isdigit():
            page.keyboard.press("Control+A")
        page.keyboard.type(typed)
        if not typed.isdigit():
            page.get_by_role("option", name=re.compile(typed)).first.wait_for()
        page.keyboard.press("Enter")
        settle(page)
    expect(page.get_by_text(re.compile("needs 69.6 GiB"))).to_be_visible()
    tab_to(page, "canvas")
    for key in ("ArrowDown", "ArrowDown", "Shift+Space"):
        page.keyboard.press(key)
    expect(page).to_have_url(re.compile("batch=10&.*machine="))
    expect(page).not_to_have_url(re.compile("machine=rtx-4090"))


def tab_to(page: Page, what: str) -> None:
    """Press the tab key until an element of this name, or of this kind, has the focus."""
    for _ in range(40):
        if what in page.evaluate(FOCUSED):
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"the tab key does not come to {what}")


LONG = "model=own&n_layers=8&d_model=384&n_heads=16&n_kv_heads=16"  # takes seconds to measure
BEGUN = "document.querySelector('[data-testid=stProgress]')?.innerText.includes('tokens:')"


def a_measurement_can_be_stopped(page: Page) -> None:
    page.get_by_role("button", name="Measure", exact=True).click()
    page.wait_for_function(BEGUN, polling=50)  # the first results are visible for less than a second
    page.get_by_role("button", name="Stop measuring").click()
    page.get_by_role("progressbar").wait_for(state="detached")
    settle(page)
    name = page.get_by_role("figure", name=re.compile("^MHA takes")).get_attribute("aria-label")
    assert "after 256 tokens" in name and "after 8,192 tokens" not in name  # it was stopped early


def after_one_that_was_stopped_decoding_is_measured_to_the_end(page: Page) -> None:
    page.get_by_role("button", name="Measure").click()
    expect(title(page, "MHA takes .* ms per token after 8 K tokens")).to_be_visible(timeout=90_000)
    expect(page.get_by_text("Another measurement is running")).to_have_count(0)
    settle(page)
    assert painted_fraction(pixels(chart(page, "measured"))) > 0.01


WALK = {  # {assertion: URL, or "" to go on}; the other controls and links: tests/ui/test_cost_controls.py
    the_page_opens_with_published_models_and_the_shipped_one_among_them: "cost?preset=selected",
    one_click_compares_two_models_and_the_address_says_so: "",
    a_measurement_can_be_stopped: f"cost?tab=measured&{LONG}",
    after_one_that_was_stopped_decoding_is_measured_to_the_end: f"cost?tab=measured&{TINY}",
}


def test_the_question_is_asked_with_the_keyboard_alone(visit: Callable[..., Page]) -> None:
    the_question_is_asked_and_a_row_opened_by_the_keyboard_alone(visit("cost?tab=cards"))


def test_two_models_are_compared_and_decoding_is_measured(turns: Callable) -> None:
    opened = turns(filter(None, WALK.values()))
    for each, address in WALK.items():
        if address:
            _, page = next(opened)
        each(page)


def test_every_part_is_painted_and_whole_in_its_window(visit: Callable[..., Page]) -> None:
    """The first part in a wide window: above."""
    page = visit("cost?tab=measured&preset=selected", width=NARROW, scheme="dark")
    above = ["attention", "cache"]
    for part, drawn in PARTS.items():
        page.get_by_role("radio", name=part, exact=True).click()
        chart(page, drawn).wait_for()
        is_whole(page, part, NARROW, "dark")
        is_painted(page, [*above, drawn], "dark")
        assert trimmed(page) == [], part
        above = []
    is_whole(page, part, WIDE, "light")  # its charts stand in two columns, of which each is wider than a phone
    is_painted(page, [drawn], "light")
