"""Tests of the pixel measures in painted.py, on pages with known pixels."""

import pytest
from playwright.sync_api import Page

from tests.browser.painted import background, hue_shares, overflow, painted_fraction, pixels


def box(page: Page, style: str, inner: str = ""):
    page.set_content(f"<div id=box style='width:200px;height:100px;background:#fff;{style}'>{inner}</div>")
    return page.locator("#box")


def test_an_empty_box_counts_as_unpainted(page: Page) -> None:
    assert painted_fraction(pixels(box(page, "background:#121316"))) == 0


def test_a_painted_quarter_counts_as_a_quarter(page: Page) -> None:
    image = pixels(box(page, "", "<div style='width:50px;height:100px;background:#07c'></div>"))
    assert background(image) == (255, 255, 255)
    assert painted_fraction(image) == pytest.approx(0.25, abs=0.01)


def test_hues_are_told_apart_and_greys_have_none(page: Page) -> None:
    parts = "".join(f"<div style='height:25px;background:{c}'></div>" for c in ("#f00", "#00f", "#888", "#222"))
    shares = hue_shares(pixels(box(page, "", parts)))
    assert shares[0] == pytest.approx(0.25, abs=0.01)  # red
    assert shares[8] == pytest.approx(0.25, abs=0.01)  # blue
    assert shares.sum() == pytest.approx(0.5, abs=0.02)


def test_a_box_wider_than_the_window_overflows(page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    box(page, "width:350px")
    assert overflow(page) == 0
    box(page, "width:500px")
    assert overflow(page) > 100
