"""Measures of the painted pixels: fractions, hues and overflow, which a test of DOM elements alone would miss."""

import colorsys
import io
import os
from pathlib import Path

import numpy as np
from PIL import Image
from playwright.sync_api import Locator, Page

SHOTS = os.environ.get("SHOTS")  # folder for screenshots; none are saved without it
PATIENCE = 120_000  # milliseconds; a timeout against hangs, not a performance target
STILL = """document.querySelector("[data-testid=stApp][data-test-script-state=notRunning]")
    && !document.querySelector("[data-testid=stSkeleton], [data-testid=stSpinner]")
    && !document.querySelector("[data-testid=stPlotlyChart]:not(:has(.main-svg))")"""
REPAINTED = "document.fonts.ready.then(() => new Promise(r => requestAnimationFrame(() => requestAnimationFrame(r))))"
WIDER = (
    "Math.max(...[document.documentElement, ...document.querySelectorAll('[data-testid=stMain]')]"
    ".map(e => e.scrollWidth - e.clientWidth))"
)
FULL_PAGE_LIMIT = 6000  # maximal height of a saved screenshot, pixels


def settle(page: Page) -> None:
    """Wait until the script has run, the charts are drawn and nothing moves; fail if an exception is shown."""
    page.wait_for_timeout(200)  # Streamlit sends an edit with a delay
    rest(page)


def rest(page: Page) -> None:
    """Like `settle`, if the script is known to have started."""
    page.wait_for_function(STILL, polling=50, timeout=PATIENCE)  # `expect` would poll once a second
    assert page.get_by_test_id("stException").all_inner_texts() == []
    page.evaluate(REPAINTED)


def pixels(target: Locator | Page) -> np.ndarray:
    """Return a screenshot of an element, or of the window, as (height, width, 3) bytes."""
    return np.asarray(Image.open(io.BytesIO(target.screenshot(animations="disabled"))).convert("RGB"))


def colours_of(image: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct colours, (n, 3), and their pixel counts, (n,)."""
    # one number per colour: sorts 20 times faster than rows
    packed = image.reshape(-1, 3).astype(np.uint32) @ np.array([65536, 256, 1], dtype=np.uint32)
    found, counts = np.unique(packed, return_counts=True)
    return np.stack((found >> 16, found >> 8 & 255, found & 255), axis=1), counts


def background(image: np.ndarray) -> tuple[int, int, int]:
    """Return the most frequent colour."""
    colours, counts = colours_of(image)
    return tuple(int(c) for c in colours[counts.argmax()])


def painted_fraction(image: np.ndarray, tolerance: int = 12) -> float:
    """Return the share of pixels that differ from the background by more than the tolerance in some channel."""
    colours, counts = colours_of(image)  # a third of the time of comparing every pixel
    difference = np.abs(colours.astype(int) - colours[counts.argmax()].astype(int)).max(axis=1)
    return float(counts[difference > tolerance].sum() / counts.sum())


def hue_shares(image: np.ndarray, bins: int = 12, saturation: float = 0.25) -> np.ndarray:
    """Return the share of all pixels in each of `bins` equal ranges of hue, (bins,), without greys, black and white."""
    colours, counts = colours_of(image)
    shares = np.zeros(bins)
    for colour, count in zip(colours, counts, strict=True):
        hue, saturated, _ = colorsys.rgb_to_hsv(*(colour / 255))
        if saturated >= saturation:
            shares[int(hue * bins) % bins] += count
    return shares / counts.sum()


def overflow(page: Page) -> int:
    """Return the pixels by which the page is wider than its window; 0 without horizontal scrolling."""
    return page.evaluate(WIDER)


def fits(page: Page) -> None:
    """Expect no horizontal scrolling, once the charts, which follow their boxes late, have their new width."""
    page.wait_for_function(f"() => {WIDER} <= 0")


def cut_off(page: Page) -> list[str]:
    """Return the texts of plotly charts that extend beyond the chart, and so are cut off."""
    return page.evaluate("""
        [...document.querySelectorAll("[data-testid=stPlotlyChart]")].flatMap(chart => {
          const frame = chart.getBoundingClientRect();
          const reaches = ({ left, right, top, bottom }) =>
            Math.max(frame.left - left, right - frame.right, frame.top - top, bottom - frame.bottom) > 2;
          const texts = [...chart.querySelectorAll("text")].filter(text => text.getBoundingClientRect().width);
          return texts.filter(text => reaches(text.getBoundingClientRect())).map(text => text.textContent);
        })
    """)


def covered(page: Page) -> list[str]:
    """Return what plotly charts draw under their own button for full screen."""
    return page.evaluate("""
        [...document.querySelectorAll("[data-testid=stPlotlyChart]")].flatMap(chart => {
          const icon = chart.querySelector(".modebar-btn svg").getBoundingClientRect();
          const drawn = [...chart.querySelectorAll(".main-svg :is(text, image), .trace path")];
          const under = drawn.filter(each => {
            const { left, right, top, bottom } = each.getBoundingClientRect(), edge = each.matches("text") ? 2 : 0;
            return Math.min(right, icon.right) > Math.max(left, icon.left) + edge
                && Math.min(bottom, icon.bottom) > Math.max(top, icon.top) + edge;
          });
          return under.map(each => each.textContent || each.tagName);
        })
    """)


def unfold(page: Page) -> None:
    """Open the calculations below the drawings."""
    page.evaluate("for (const e of document.querySelectorAll('[class*=st-key-calculation-] details')) e.open = true")


def trimmed(page: Page | Locator) -> list[str]:
    """Return the formulas painted up to the upper or lower edge of their box, which may cut them off."""
    unfold(page if isinstance(page, Page) else page.page)
    formulas = page.locator(".katex-display").all()
    images = [pixels(formula).astype(int) for formula in formulas]
    edges = [np.concatenate((image[:1], image[-1:])) - background(image) for image in images]
    return [f.inner_text() for f, edge in zip(formulas, edges, strict=True) if np.abs(edge).max() > 12]


def shoot(page: Page, name: str) -> None:
    """Save a screenshot of the whole page, not only of the window, if SHOTS is set."""
    if SHOTS is None:
        return
    Path(SHOTS).mkdir(parents=True, exist_ok=True)
    window = page.viewport_size
    height = page.evaluate("document.querySelector('[data-testid=stMain]').scrollHeight")
    page.set_viewport_size({"width": window["width"], "height": min(max(height, window["height"]), FULL_PAGE_LIMIT)})
    settle(page)
    page.screenshot(path=f"{SHOTS}/{name}.png", animations="disabled")
    page.set_viewport_size(window)
