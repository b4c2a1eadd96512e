"""Every page in light and dark, wide and narrow: drawn without an error, inside its window, nothing cut off.

`make shots` saves the screenshots of these tests as shots/*.png.
"""

from collections.abc import Callable

import numpy as np
import pytest
from playwright.sync_api import Locator, Page, expect

from attnviz.figures.label_width import label_width
from attnviz.session.pages import PAGES as REGISTERED
from tests.browser.conftest import NARROW, PAGES, WIDE, viewport
from tests.browser.painted import (
    SHOTS,
    background,
    covered,
    cut_off,
    fits,
    hue_shares,
    painted_fraction,
    pixels,
    settle,
    shoot,
    trimmed,
)
from tests.browser.sidebar import pick_model
from tests.browser.test_accessible import (
    headings_go_down_level_by_level,
    nothing_is_serious_and_what_is_written_on_charts_can_be_read,
)

LOOKS = [(WIDE, "light"), (NARROW, "dark")] + [(WIDE, "dark"), (NARROW, "light")] * bool(SHOTS)


LIGHT = [  # in a wide window read by axe-core, with one tab each
    "", "heads?tab=side&pinned=0.3", "query_groups?tab=cost", "rope?tab=longer", "cost?tab=speed", "steps?step=25",
]  # fmt: skip
SEEN = [path for path, _ in PAGES.values()]


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_every_page_is_painted(turns: Callable, width: int, scheme: str) -> None:
    read = LIGHT if (width, scheme) == (WIDE, "light") else []
    others = [path for path in REGISTERED if read and path not in [address.partition("?")[0] for address in read]]
    for address, page in turns([*(read or SEEN), *others], width=width, scheme=scheme):
        path = address.partition("?")[0]
        expect(page.get_by_role("heading", level=1)).to_have_text(REGISTERED[path].name)
        if path in SEEN:
            shoot(page, f"{(path or 'front').replace('_', '-')}-{scheme}-{width}")
            is_painted(page, width, scheme)
        if address in read:
            nothing_is_serious_and_what_is_written_on_charts_can_be_read(page, scheme == "dark")
            page.set_viewport_size(viewport(width))
        elif read:
            headings_go_down_level_by_level(page)


def is_painted(page: Page, width: int, scheme: str) -> None:
    image = pixels(page)
    assert (sum(background(image)) < 3 * 64) == (scheme == "dark"), page.url
    assert painted_fraction(image) > 0.05, page.url
    fits(page)
    begins_80_pixels_from_its_top(page, width)
    assert page.evaluate(ICON) == ["data:image/svg+xml;", True], page.url


# The icon of the tab, which is square and no request: Chromium without a window fetches none, so none would be noticed.
ICON = """async () => {
    const image = Object.assign(new Image(), { src: document.querySelector("link[rel~=icon]").href });
    await image.decode();
    return [image.src.slice(0, 19), image.naturalWidth === image.naturalHeight];
}"""


def begins_80_pixels_from_its_top(page: Page, width: int) -> None:
    title = page.get_by_role("heading", level=1).bounding_box()
    tops = page.evaluate("""
        [...document.querySelectorAll("[data-testid=stMain] [data-testid=stElementContainer]")]
          .filter(e => !e.querySelector("h1") && !e.closest(".st-key-narrow") && e.getBoundingClientRect().height > 4)
          .map(e => e.getBoundingClientRect().top)""")
    bar = page.locator(".st-key-narrow").bounding_box()
    assert title["y"] + title["height"] <= 48 and min(tops) <= 80 + (bar["height"] + 15 if bar else 0)
    expect(page.locator(".st-key-narrow")).to_be_visible(visible=width == NARROW)


CHARTS = {  # of the pages RoPE and Cost, see test_rope_page.py and test_cost_page.py
    "heads": ["tab=number", "tab=stages", "tab=does", "tab=rollout"],
    "query_groups": ["tab=cost", "tab=alike", "tab=latent"],
    "steps": ["tab=lens", "tab=residual", "tab=tiles"],
}


def test_what_is_written_is_not_cut_off(turns: Callable) -> None:
    widths = [WIDE, NARROW]
    for address, page in turns(f"{name}?{query}" for name, queries in CHARTS.items() for query in queries):
        assert page.get_by_test_id("stPlotlyChart").count(), address
        for width in widths:
            page.set_viewport_size({"width": width, "height": 844})
            settle(page)
            fits(page)
            assert (cut_off(page), covered(page), trimmed(page)) == ([], [], []), f"{address}, {width} pixels wide"
        widths.reverse()  # start the next one at the window's current width
    labels_are_as_wide_as_estimated(page)


MEASURE = """(labels) => {
    const text = document.querySelector(".js-plotly-plot text");
    const pen = document.createElement("canvas").getContext("2d");
    pen.font = `12px ${getComputedStyle(text).fontFamily}`;
    return labels.map(label => pen.measureText(label).width);
}"""
LABELS = [
    "GQA-4",
    "attention",
    "·little 18",
    "WWWW",
    "MMMM",
    "@@%%",
    "illi",
    "ABCDEFGHIJKLM",
    "100",
    "注意力",
    "Привет",
]


def labels_are_as_wide_as_estimated(page: Page) -> None:
    for label, width in zip(LABELS, page.evaluate(MEASURE, LABELS), strict=True):
        assert width - 1 <= label_width(label) <= 1.25 * width + 1, f"{label} takes {width} pixels"


def test_every_head_is_painted_and_the_grid_has_as_many_hues_as_kv_heads(visit: Callable[..., Page]) -> None:
    page = visit("heads")
    expect(page.get_by_role("gridcell")).to_have_count(32)
    assert min(painted_fraction(head) for head in maps(page.get_by_role("grid"))) > 0.1
    for model, n_kv_heads in {"MQA": 1, "GQA-2": 2, "GQA-4": 4}.items():
        pick_model(page, model)
        expect(page.get_by_text(f"8 query heads read {n_kv_heads} KV head")).to_be_visible()
        settle(page)
        assert hues(page) == n_kv_heads, model
    page.emulate_media(color_scheme="dark")
    settle(page)
    assert sum(background(pixels(page.get_by_role("grid")))) < 3 * 64
    assert hues(page) == n_kv_heads, f"{model} in the dark"


def maps(grid: Locator) -> list[np.ndarray]:
    """Return the pixels of each head of the grid, cropped from one screenshot."""
    image, at = pixels(grid), grid.bounding_box()
    boxes = (
        grid.get_by_role("gridcell").locator(".map").evaluate_all("heads => heads.map(h => h.getBoundingClientRect())")
    )
    corners = [(round(box["x"] - at["x"]), round(box["y"] - at["y"])) for box in boxes]
    return [
        image[y : y + int(box["height"]), x : x + int(box["width"])] for (x, y), box in zip(corners, boxes, strict=True)
    ]


def hues(page: Page) -> int:
    """Return the number of separate runs of neighbouring hues in the grid; a hue counts from 1 in 500 pixels."""
    painted = hue_shares(pixels(page.get_by_role("grid")), bins=36) > 0.002
    return int((painted & ~np.roll(painted, 1)).sum())
