"""Mistakes page: no part of the answer before the prediction, both versions side by side after it."""

import re
from collections.abc import Callable

from playwright.sync_api import Page, expect

from tests.browser.conftest import NARROW, turn_to, viewport
from tests.browser.contrast import every_text_can_be_read
from tests.browser.painted import fits, hue_shares, painted_fraction, pixels, settle


def test_a_mistake_is_predicted_and_then_run_on_the_text_and_the_list_is_one_box_on_a_phone(
    visit: Callable[..., Page],
) -> None:
    page = visit("mistakes?mistake=tiled_kv_heads&text=A dog met another dog.")
    expect(page.get_by_role("heading", name="Tiled instead of interleaved KV heads")).to_be_visible()
    expect(page.get_by_test_id("stMetric")).to_have_count(0)
    expect(page.get_by_test_id("stPlotlyChart")).to_have_count(0)
    page.get_by_test_id("stMain").get_by_text("All of them: only the memory").click()
    expect(page.get_by_text("Choose another answer, or show it.")).to_be_visible()
    expect(page.get_by_test_id("stMetric")).to_have_count(0)
    page.get_by_test_id("stMain").get_by_text("The first and the last head, but not all between them").click()
    expect(page.get_by_test_id("stMetric")).to_be_visible()
    settle(page)
    assert "answer" not in page.url
    address = page.url
    every_text_can_be_read(page)
    charts = page.get_by_test_id("stPlotlyChart")
    expect(charts).to_have_count(3)
    for chart in charts.all():
        chart.scroll_into_view_if_needed()
        image = pixels(chart)
        assert painted_fraction(image) > 0.05 and hue_shares(image).max() > 0.003
    expect(page.get_by_text("0 of 1 answered right at the first try.")).to_be_visible()
    in_the_list = page.get_by_role("radiogroup", name="Heads and shapes").get_by_role("radio", checked=True)
    expect(in_the_list).to_be_focused()  # the answers are disabled now
    page.keyboard.press("ArrowDown")
    expect(page).not_to_have_url(address)
    settle(page)

    page.emulate_media(color_scheme="dark")
    page.set_viewport_size(viewport(NARROW))
    turn_to(page, "mistakes?mistake=rope_on_values&model=mqa")
    expect(page.get_by_role("combobox", name="Mistake")).to_be_visible()
    expect(page.get_by_role("radiogroup", name="RoPE and positions")).to_be_hidden()
    expect(page.get_by_text(re.compile("Silent|NaN"))).to_have_count(0)  # before the prediction
    page.get_by_role("button", name="Show the answer").click()
    expect(page.get_by_text("The effect: silent.")).to_be_visible()
    expect(page.get_by_test_id("stMetric")).to_be_visible()
    settle(page)
    fits(page)
    every_text_can_be_read(page)
    wrapped_code_goes_on_below_its_text(page)


def test_the_mistaken_lines_are_walked_in_the_layer_that_has_them(visit: Callable[..., Page]) -> None:
    """The selected layer has a state; the mistake is one of attention, which layer 3 has."""
    page = visit("mistakes?mistake=mask_after_softmax&model=hybrid&layer=1&text=A dog met another dog.")
    page.get_by_role("button", name="Show the answer").click()
    page.get_by_role("button", name="The mistaken lines in Step by step").click()
    expect(page).to_have_url(re.compile(r"/steps\?.*layer=3.*version=mistaken"))
    expect(page.get_by_text("With the mistake: Masked after the softmax")).to_be_visible()
    expect(page.get_by_text("weights = scores.softmax(-1) * mask").first).to_be_visible()


# Of each line of code in the wrapped blocks: the left edge of its first text, and those of the rows that follow.
ROWS = """() => [...document.querySelectorAll("[data-testid=stCode] code[style*=pre-wrap] > span")].map((line) => {
    const range = document.createRange();
    range.selectNodeContents(line);
    const rows = [...range.getClientRects()].filter((box) => box.width > 1);
    const first = Math.min(...rows.map((box) => box.top)) + 4;
    return [Math.min(...rows.filter((box) => box.top < first).map((box) => box.left)),
            ...rows.filter((box) => box.top > first).map((box) => box.left)];
})"""


def wrapped_code_goes_on_below_its_text(page: Page) -> None:
    rows = [row for row in page.evaluate(ROWS) if len(row) > 1]
    assert len(rows) > 2, "a phone wraps some of the lines"
    assert all(left >= first + 30 for first, *others in rows for left in others), rows


def test_the_line_is_found_before_the_title_is_shown(visit: Callable[..., Page]) -> None:
    page = visit("mistakes")
    lines = page.get_by_role("radiogroup", name="Which line is mistaken?").get_by_role("radio")
    expect(lines.first).to_be_attached()
    expect(page.get_by_role("heading", name="Masked after the softmax")).to_have_count(0)
    every_text_can_be_read(page)
    page.get_by_role("radiogroup", name="Which line is mistaken?").get_by_text("check_mask(mask, scores)").click()
    expect(page.get_by_text("is right. Choose another line, or show the mistaken one.")).to_be_visible()
    page.get_by_role("radiogroup", name="Which line is mistaken?").get_by_text("softmax(-1) * mask").click()
    expect(page.get_by_role("heading", name="Masked after the softmax")).to_be_visible()
    expect(page.get_by_text("Found. Now predict what it does.")).to_be_visible()
    page.get_by_role("radiogroup", name="Softmax and scores").get_by_text("Mistake 1").click()
    expect(page).to_have_url(re.compile(r"mistake=[0-9a-f]{5}$"))
