"""Mistakes page: no part of the answer before the prediction, both versions side by side after it."""

import re
from collections.abc import Callable

from playwright.sync_api import Page, expect

from tests.browser.conftest import NARROW, turn_to, viewport
from tests.browser.painted import fits, hue_shares, painted_fraction, pixels, settle


def test_a_mistake_is_predicted_and_then_run_on_the_text_and_the_list_is_one_box_on_a_phone(
    visit: Callable[..., Page],
) -> None:
    page = visit("mistakes?mistake=tiled_kv_heads&text=A dog met another dog.")
    expect(page.get_by_role("heading", name="Tiled instead of interleaved KV heads")).to_be_visible()
    expect(page.get_by_test_id("stMetric")).to_have_count(0)
    expect(page.get_by_test_id("stPlotlyChart")).to_have_count(0)
    address = page.url
    page.get_by_test_id("stMain").get_by_text("The first and the last head, but not all between them").click()
    expect(page.get_by_test_id("stMetric")).to_be_visible()
    settle(page)
    assert page.url == address
    charts = page.get_by_test_id("stPlotlyChart")
    expect(charts).to_have_count(3)
    for chart in charts.all():
        chart.scroll_into_view_if_needed()
        image = pixels(chart)
        assert painted_fraction(image) > 0.05 and hue_shares(image).max() > 0.003
    expect(page.get_by_text("1 of 1 answered right")).to_be_visible()
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
    page.get_by_role("button", name="Skip and show").click()
    expect(page.get_by_text("The effect: silent.")).to_be_visible()
    expect(page.get_by_test_id("stMetric")).to_be_visible()
    settle(page)
    fits(page)
