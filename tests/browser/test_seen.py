"""Every page in light and dark, wide and narrow: opened as a link, drawn without an error, inside its window.

`make shots` keeps what these tests see, as shots/*.png.
"""

from collections.abc import Callable

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import NARROW, PAGES, WIDE, go
from tests.browser.painted import (
    SHOTS,
    background,
    cut_off,
    fits,
    hue_shares,
    painted_fraction,
    pixels,
    settle,
    shoot,
    trimmed,
)
from tests.browser.server import Server
from tests.browser.sidebar import pick_model

LOOKS = [(WIDE, "light"), (NARROW, "dark")] + [(WIDE, "dark"), (NARROW, "light")] * bool(SHOTS)


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_painted(visit: Callable[..., Page], name: str, width: int, scheme: str) -> None:
    address, title = PAGES[name]
    page = visit(address, width=width, scheme=scheme)
    expect(page.get_by_role("heading", level=1)).to_have_text(title)
    shoot(page, f"{name}-{scheme}-{width}")
    image = pixels(page)
    assert (sum(background(image)) < 3 * 64) == (scheme == "dark")
    assert painted_fraction(image) > 0.05
    fits(page)
    begins_80_pixels_from_its_top(page, width)


def begins_80_pixels_from_its_top(page: Page, width: int) -> None:
    title = page.get_by_role("heading", level=1).bounding_box()
    tops = page.evaluate("""
        [...document.querySelectorAll("[data-testid=stMain] [data-testid=stElementContainer]")]
          .filter(e => !e.querySelector("h1") && !e.closest(".st-key-narrow") && e.getBoundingClientRect().height > 4)
          .map(e => e.getBoundingClientRect().top)""")
    bar = page.locator(".st-key-narrow").bounding_box()
    assert title["y"] + title["height"] <= 48 and min(tops) <= 80 + (bar["height"] + 15 if bar else 0)
    expect(page.locator(".st-key-narrow")).to_be_visible(visible=width == NARROW)


CHARTS = {
    "heads": ["tab=number", "tab=stages", "tab=does", "tab=rollout"],
    "query_groups": ["tab=cost", "tab=alike", "tab=latent"],
    "rope": ["tab=distance", "tab=layouts", "tab=longer", "tab=latent&model=mla"],
    "cost": ["tab=published", "tab=memory", "tab=speed"],
    "steps": ["tab=lens", "tab=residual", "tab=tiles"],
}


@pytest.mark.parametrize("name", CHARTS)
def test_what_is_written_is_not_cut_off(visit: Callable[..., Page], server: Server, name: str) -> None:
    page = visit(f"{name}?{CHARTS[name][0]}")
    for i, query in enumerate(CHARTS[name]):
        if i:
            page.set_viewport_size({"width": WIDE, "height": 844})
            go(page, server, f"{name}?{query}")
        assert page.get_by_test_id("stPlotlyChart").count()
        for width in (WIDE, NARROW):
            page.set_viewport_size({"width": width, "height": 844})
            settle(page)
            fits(page)
            assert cut_off(page) == [] and trimmed(page) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_grid_has_as_many_hues_as_kv_heads(visit: Callable[..., Page], scheme: str) -> None:
    page = visit("heads?model=mla", scheme=scheme)
    for model, n_kv_heads in {"MQA": 1, "GQA-2": 2, "GQA-4": 4}.items():
        pick_model(page, model)
        expect(page.get_by_text(f"8 query heads read {n_kv_heads} KV head")).to_be_visible()
        settle(page)
        assert hues(pixels(page.get_by_role("grid"))) == n_kv_heads


def hues(image: np.ndarray) -> int:
    """How many separate runs of neighbouring hues are painted; one in 500 pixels is enough to count."""
    painted = hue_shares(image, bins=36) > 0.002
    return int((painted & ~np.roll(painted, 1)).sum())


def test_every_head_of_the_grid_is_painted(visit: Callable[..., Page]) -> None:
    heads = visit("heads").get_by_role("gridcell").locator(".map")
    expect(heads).to_have_count(32)
    assert min(painted_fraction(pixels(head)) for head in heads.all()) > 0.1
