"""Cost page in a browser: links restore the view, controls change it, and a measurement can be stopped.

pytest tests/browser/test_cost_page.py
"""

import re
from collections.abc import Callable

from playwright.sync_api import Page, expect

from tests.browser.conftest import NARROW, WIDE
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
    "Published models": "alternatives",
    "What fits in GPU memory": "filling",
    "Prefill and decode speed": "machines",
}


LOOKS = [(NARROW, "dark"), (WIDE, "light")]


def is_painted_and_whole(page: Page, part: str, charts: list[str], width: int, scheme: str) -> None:
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 4500})  # charts outside the window are not drawn
    settle(page)
    fits(page)
    assert (cut_off(page), trimmed(page)) == ([], []), f"{part}, {width} pixels wide"
    for key in charts:
        image = pixels(chart(page, key))
        assert painted_fraction(image) > 0.04, f"{key} is not painted"
        assert (sum(background(image)) < 3 * 64) == (scheme == "dark"), key
    shoot(page, f"cost-{PARTS[part]}-{width}-{scheme}")


def the_page_opens_with_published_models_and_the_shipped_one_among_them(page: Page) -> None:
    heights = [chart(page, key).bounding_box()["y"] for key in ("published", "attention")]
    assert heights[0] < heights[1]
    assert page.get_by_test_id("stPlotlyChart").count() > 3 and page.evaluate(WIDENED) == []
    expect(page.get_by_role("heading", name=re.compile("^AttnViz toy GQA-4"))).to_be_visible()
    for name in ("Llama 3 8B", "DeepSeek-V3"):
        expect(chart(page, "published").locator("text", has_text=name).first).to_be_visible()
    bars = page.locator(".st-key-compared")
    assert bars.bounding_box()["y"] < heights[0] and bars.locator("rect").count() == 5
    expect(bars.get_by_text("AttnViz toy GQA-4", exact=True)).to_be_visible()


def one_click_compares_two_models_and_the_address_says_so(page: Page) -> None:
    page.get_by_text("Half the heads", exact=True).click()
    settle(page)
    expect(page.get_by_text("does not depend on the number of heads")).to_be_visible()
    expect(page).to_have_url(re.compile("compare=deepseek-v3%2Ckimi-k2"))
    expect(title(page, "At 128 K tokens: .* 8.58 GiB")).to_be_visible()


def the_number_of_sequences_moves_the_drawing(page: Page) -> None:
    before = page.get_by_role("figure").last.get_attribute("aria-label")
    page.get_by_role("slider", name="Sequences at once").press("ArrowRight")
    expect(page).to_have_url(re.compile("batch=2"))
    expect(page.get_by_role("figure").last).not_to_have_attribute("aria-label", before)


def decoding_is_measured_and_the_counted_cache_stands_beside_it(page: Page) -> None:
    page.get_by_role("button", name="Measure").click()
    expect(title(page, "MHA takes .* ms per token after 8 K tokens")).to_be_visible(timeout=90_000)
    settle(page)
    assert painted_fraction(pixels(chart(page, "measured"))) > 0.01


LONG = "model=own&n_layers=8&d_model=384&n_heads=16&n_kv_heads=16"  # takes seconds to measure


def begin_to_measure(page: Page) -> None:
    """Press the button and wait for the first results, which are visible for less than a second."""
    page.get_by_role("button", name="Measure", exact=True).click()
    page.wait_for_function("document.querySelector('[data-testid=stProgress]')?.innerText.includes('tokens:')")


def a_measurement_can_be_stopped_and_started_again(page: Page) -> None:
    for _ in range(2):
        begin_to_measure(page)
        page.get_by_role("button", name="Stop measuring").click()
        page.get_by_role("progressbar").wait_for(state="detached")
        settle(page)
        name = page.get_by_role("figure", name=re.compile("^MHA takes")).get_attribute("aria-label")
        assert "after 256 tokens" in name and "after 8,192 tokens" not in name  # it was stopped early
    expect(page.get_by_text("Another measurement is running")).to_have_count(0)


WALK = {  # {assertion: URL}; the other controls and links: tests/ui/test_cost_controls.py
    the_page_opens_with_published_models_and_the_shipped_one_among_them: "cost",
    one_click_compares_two_models_and_the_address_says_so: "cost",
    the_number_of_sequences_moves_the_drawing: "cost?tab=speed&context=8192",
    decoding_is_measured_and_the_counted_cache_stands_beside_it: f"cost?tab=measured&{TINY}",
    a_measurement_can_be_stopped_and_started_again: f"cost?tab=measured&{LONG}",
}


def test_every_control_moves_what_it_is_about(turns: Callable) -> None:
    for each, (_, page) in zip(WALK, turns(WALK.values()), strict=True):
        each(page)


def test_every_part_is_painted_and_whole_in_its_window(visit: Callable[..., Page]) -> None:
    page = visit("cost?tab=measured", width=NARROW, scheme="dark")
    above, looks = ["attention", "cache"], list(LOOKS)
    for part, drawn in PARTS.items():
        page.get_by_role("radio", name=part).click()
        chart(page, drawn).wait_for()
        for look in looks:
            is_painted_and_whole(page, part, [*above, drawn], *look)
        above = []
        looks.reverse()  # the next part begins in the present window
