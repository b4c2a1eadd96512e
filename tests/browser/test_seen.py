"""Every page in light and dark, wide and narrow: drawn without an error, inside its window, nothing cut off, and
without a serious finding of axe-core.

`make shots` saves the screenshots of these tests as shots/*.png.
"""

from collections.abc import Callable

import numpy as np
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
from tests.browser.test_accessible import (
    a_wide_formula_is_streamlits_own_and_the_keyboard_scrolls_it,
    axe_would_find_something,
    headings_go_down_level_by_level,
    nothing_is_serious_and_what_is_written_on_charts_can_be_read,
)

LOOKS = [(WIDE, "light"), (NARROW, "dark")]
MORE_SHOTS = [(WIDE, "dark"), (NARROW, "light")] if SHOTS else []

LIGHT = [  # in a wide window read by axe-core, with one tab each
    "steps?step=25", "", "heads?tab=side&pinned=0.3", "query_groups?tab=cost", "rope?tab=longer", "cost?tab=speed",
]  # fmt: skip
SEEN = [path for path, _ in PAGES.values()]


def test_every_page_is_painted_and_axe_finds_nothing_serious_in_the_light(turns: Callable) -> None:
    looks = list(LOOKS)
    others = [path for path in REGISTERED if path not in [address.partition("?")[0] for address in LIGHT]]
    for address, page in turns([*LIGHT, *others]):
        path = address.partition("?")[0]
        expect(page.get_by_role("heading", level=1)).to_have_text(REGISTERED[path].name)
        if path in SEEN:
            for width, scheme in [*looks, *MORE_SHOTS]:
                look(page, width, scheme)
                shoot(page, f"{(path or 'front').replace('_', '-')}-{scheme}-{width}")
                is_painted(page, width, scheme)
                if path == "heads":
                    every_head_is_painted_and_the_grid_has_as_many_hues_as_kv_heads(page, 4)
                if path == "query_groups":
                    nothing_written_is_cut_off(page)
                if (width, scheme) == LOOKS[0]:
                    axe_finds_nothing(page, dark=False)
            looks.reverse()  # the next page begins in the present window
        elif address in LIGHT:
            axe_finds_nothing(page, dark=False)
        else:
            headings_go_down_level_by_level(page)
        if address == "cost?tab=speed":
            a_wide_formula_is_streamlits_own_and_the_keyboard_scrolls_it(page)


def look(page: Page, width: int, scheme: str) -> None:
    """Make the window that wide, light or dark, and scroll to the page's top."""
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size(viewport(width))
    settle(page)
    page.get_by_test_id("stMain").evaluate("main => main.scrollTo(0, 0)")


def axe_finds_nothing(page: Page, dark: bool) -> None:
    expect(page.get_by_test_id("stSidebar")).to_be_in_viewport(ratio=0.9)
    nothing_is_serious_and_what_is_written_on_charts_can_be_read(page, dark)
    page.set_viewport_size(viewport(WIDE))


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


def every_head_is_painted_and_the_grid_has_as_many_hues_as_kv_heads(page: Page, n_kv_heads: int) -> None:
    grid = page.get_by_role("grid")
    expect(grid.get_by_role("gridcell")).to_have_count(32)
    image = pixels(grid)
    assert min(painted_fraction(head) for head in maps(grid, image)) > 0.1
    assert hues(image) == n_kv_heads


def maps(grid: Locator, image: np.ndarray) -> list[np.ndarray]:
    """Return the pixels of each head of the grid, cropped from its screenshot."""
    at = grid.bounding_box()
    boxes = (
        grid.get_by_role("gridcell").locator(".map").evaluate_all("heads => heads.map(h => h.getBoundingClientRect())")
    )
    corners = [(round(box["x"] - at["x"]), round(box["y"] - at["y"])) for box in boxes]
    return [
        image[y : y + int(box["height"]), x : x + int(box["width"])] for (x, y), box in zip(corners, boxes, strict=True)
    ]


def hues(image: np.ndarray) -> int:
    """Return the number of separate runs of neighbouring hues; a hue counts from 1 in 500 pixels."""
    painted = hue_shares(image, bins=36) > 0.002
    return int((painted & ~np.roll(painted, 1)).sum())


# Charts of Query grouping's tab on its cost: above; of RoPE and Cost: test_rope_page.py and test_cost_page.py.
CHARTS = [
    "heads?tab=number", "heads?tab=stages", "heads?tab=does", "heads?tab=rollout&model=mqa",
    "query_groups?tab=alike", "query_groups?tab=latent&tiled=1",
    "steps?tab=lens", "steps?tab=residual", "steps?tab=tiles",
]  # fmt: skip
DARK = [  # read by axe-core
    "query_groups?tab=latent&tiled=1", "steps?tab=residual",
    "cost?tab=measured",  # tags and a button of the primary colour
    "heads?tab=masks&window=8&lesson=one-head&lesson_step=3",
]  # fmt: skip


def test_what_is_written_is_not_cut_off_and_axe_finds_nothing_serious_in_the_dark(turns: Callable) -> None:
    widths = [WIDE, NARROW]
    for address, page in turns(dict.fromkeys([*CHARTS, *DARK]), scheme="dark"):
        for width in widths if address in CHARTS else [WIDE]:
            if page.viewport_size["width"] != width:
                page.set_viewport_size(viewport(width))
                settle(page)
            if address in CHARTS:
                nothing_written_is_cut_off(page)
            if address in DARK and width == WIDE:
                axe_finds_nothing(page, dark=True)
        if address in CHARTS:
            widths.reverse()  # the next one begins in the present window
        if address == "heads?tab=rollout&model=mqa":
            every_head_is_painted_and_the_grid_has_as_many_hues_as_kv_heads(page, 1)
        if address == "steps?tab=tiles":
            labels_are_as_wide_as_estimated(page)
    axe_would_find_something(page)


def nothing_written_is_cut_off(page: Page) -> None:
    assert page.get_by_test_id("stPlotlyChart").count(), page.url
    fits(page)
    assert (cut_off(page), covered(page), trimmed(page)) == ([], [], []), f"{page.url}, {page.viewport_size}"


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
