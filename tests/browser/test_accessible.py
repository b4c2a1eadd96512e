"""Accessibility: everything can be reached with the keyboard, and what axe-core says of a page.

It reads pages in test_seen.py. It checks only the visible part, so the window is made as tall as the page.
"""

import io
import re
from collections.abc import Callable

import numpy as np
from axe_playwright_python.sync_playwright import Axe
from PIL import Image
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import turn_to
from tests.browser.painted import settle
from tests.figures.test_theme import contrast

Visit = Callable[..., Page]
FORMULA = "scrollable-region-focusable", '<span class="katex-display"'
# A formula wider than its column scrolls in a box of Streamlit's that the app cannot make focusable. The keyboard
# scrolls the box anyway.
STREAMLITS_OWN = {FORMULA}


# What is written on charts: below; in formulas, which have the colour of the text around: once for each colour.
MARK_UNREAD = """() => {
    const read = new Set();
    for (const each of document.querySelectorAll(".main-svg, .katex-html")) {
        const { color } = getComputedStyle(each), known = each.matches(".main-svg") || read.has(color);
        if (known) each.setAttribute("data-unread", "");
        read.add(color);
    }
}"""


def serious(page: Page, *parts: str) -> list[tuple[str, str]]:
    """Return every serious or critical finding in the window, and headings that skip a level: the rule, and the
    beginning of the element. parts: selectors of what is read, the whole page by default."""
    page.evaluate(MARK_UNREAD)
    context = {"exclude": [["[data-unread]"]], **({"include": [[part] for part in parts]} if parts else {})}
    found = Axe().run(page, context=context, options={"resultTypes": ["violations"]}).response["violations"]
    return [
        (rule["id"], node["html"][:100])
        for rule in found
        if rule["impact"] in ("serious", "critical") or rule["id"] == "heading-order"
        for node in rule["nodes"]
    ]


def is_streamlits_own(finding: tuple[str, str]) -> bool:
    return any(finding[0] == rule and finding[1].startswith(html) for rule, html in STREAMLITS_OWN)


def show_all(page: Page) -> None:
    """Make the window as tall as the page."""
    height = page.evaluate("document.querySelector('[data-testid=stMain]').scrollHeight")
    page.set_viewport_size({"width": page.viewport_size["width"], "height": height})
    settle(page)


# Each text of a chart with its colour; axe skips SVG text.
TEXTS = """
[...document.querySelectorAll("[data-testid=stPlotlyChart] text")]
  .filter(text => text.textContent.trim()).map(text => [text.textContent, getComputedStyle(text).fill])
"""


def nothing_is_serious_and_what_is_written_on_charts_can_be_read(page: Page, dark: bool) -> None:
    show_all(page)
    assert [finding for finding in serious(page) if not is_streamlits_own(finding)] == [], page.url
    ground = rgb(page.get_by_test_id("stApp").evaluate("app => getComputedStyle(app).backgroundColor"))
    texts = page.evaluate(TEXTS)
    assert len(texts) > 10 or not page.get_by_test_id("stPlotlyChart").count(), page.url
    assert [text for text, fill in texts if contrast(rgb(fill), ground) < 4.5] == [], page.url
    assert (sum(ground) < 3 * 64) == dark


def axe_would_find_something(page: Page) -> None:
    """On a page with a lesson and a grid of heads, in the dark."""
    page.get_by_role("gridcell").first.evaluate("cell => cell.closest('.row').removeAttribute('role')")
    too_deep = '<h4 style="color: #333">too deep, too faint</h4>'  # axe leaves the clipped text of the bar undecided
    page.get_by_role("heading", level=1).evaluate(
        "(title, html) => title.insertAdjacentHTML('afterend', html)", too_deep
    )
    assert {"aria-required-parent", "color-contrast", "heading-order"} <= {
        rule for rule, _ in serious(page, "h1", "h4", ".st-key-head-grid")
    }


def headings_go_down_level_by_level(page: Page) -> None:
    assert Axe().run(page, options={"runOnly": ["heading-order"]}).response["violations"] == [], page.url


def rgb(colour: str) -> tuple[int, ...]:
    return tuple(int(n) for n in re.findall(r"\d+", colour)[:3])


def a_wide_formula_is_streamlits_own_and_the_keyboard_scrolls_it(page: Page) -> None:
    """The page's first formula that does not break over lines, in a column that is too narrow for it."""
    calculation = page.locator(".st-key-calculation-speed")
    calculation.locator("summary").click()
    formulas = calculation.locator(".katex-display")
    expect(formulas.first).to_be_visible()
    is_wide = "e => { e.style.width = '60px'; const wide = e.scrollWidth > 90; e.style.width = ''; return wide; }"
    formula = formulas.nth(formulas.evaluate_all(f"all => all.findIndex({is_wide})"))
    formula.evaluate("""formula => {
        const before = document.createElement("button");
        formula.style.width = "60px";
        formula.before(before);
        before.focus();
    }""")
    found = Axe().run(page, options={"runOnly": [FORMULA[0]]}).response["violations"]
    assert [is_streamlits_own((rule["id"], node["html"])) for rule in found for node in rule["nodes"]] == [True]
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    page.wait_for_function("formula => formula.scrollLeft > 0", arg=formula.element_handle())


# ---- the keyboard

FOCUSED = """() => {
    let at = document.activeElement;
    while (at?.shadowRoot?.activeElement) at = at.shadowRoot.activeElement;
    window.at = at;
    const seen = at.matches("[role=switch]") ? at.closest("label") : at, box = seen.getBoundingClientRect();
    const name = at.ariaLabel || at.labels?.[0]?.innerText || at.innerText || at.tagName;
    return { end: at === document.body, name: name.replace(/\\s+/g, " ").slice(0, 60),
        kind: [at, at.parentElement].map((e) => [e?.tagName, e?.role, e?.type, e?.getAttribute("class")]).join(),
        x: box.x, y: box.y, width: box.width, height: box.height };
}"""
ROUND = 6  # pixels round an element that its focus ring may take


def picture_round(page: Page, box: dict) -> np.ndarray:
    """Return a screenshot of a box and its surroundings, clipped to the window."""
    left, top = max(0, box["x"] - ROUND), max(0, box["y"] - ROUND)
    right = min(page.viewport_size["width"], box["x"] + box["width"] + ROUND)
    bottom = min(page.viewport_size["height"], box["y"] + box["height"] + ROUND)
    clip = {"x": left, "y": top, "width": right - left, "height": bottom - top}
    png = page.screenshot(clip=clip, animations="disabled", caret="hide")
    return np.asarray(Image.open(io.BytesIO(png)).convert("RGB")).astype(int)


def stops(page: Page, kinds: set[str], most: int = 90) -> list[str]:
    """Return the tab stops to the end of the page. The focus is seen on each that is the first of its kind."""
    found = []
    for _ in range(most):
        page.keyboard.press("Tab")
        box = page.evaluate(FOCUSED)
        if box["end"]:
            return found
        found.append(box["name"])
        if box["kind"] not in kinds:
            kinds.add(box["kind"])
            lit = picture_round(page, box)
            page.evaluate("at.blur()")
            plain = picture_round(page, box)
            page.evaluate("at.focus({ preventScroll: true })")
            assert (np.abs(lit - plain).max(axis=2) > 12).sum() >= 40, box
    raise AssertionError(f"the tab key does not come to the end of the page: {found}")


WALK = [
    "Skip to main content", "Query grouping", "Model", "Text", "Apply", "a repeated phrase",
    "Mask and position settings", "View source", "Copy link", "Heads shown", "Layer 1, head 3", "The text",
    "Query token", "Key token", "Pin to compare", "Heat map of layer 1, head 3", "Colour scale",
    "Exclude first token", "Zoom, numbers and downloads", "This head", "Lines between tokens", "L1 H3",
    "Share of each query", "Queries", "Keys",
]  # fmt: skip
FURTHER = {  # from the first of them
    "heads?tab=side": ["Zoom, numbers and downloads", "Lines between tokens", "Pinned heads", "Numbers and downloads"],
    "query_groups": ["Copy link", "MHA", "Query head 0", "Wrong order", "Layer 1, head 3", "Numerical checks"],
}


def test_the_tab_key_goes_through_pages_in_order_and_they_are_used_with_the_keyboard_alone(visit: Visit) -> None:
    page = visit("heads")
    kinds: set[str] = set()
    leads_through(page, WALK, kinds)
    the_lines_are_walked_and_pinned(page)
    for address, (first, *wanted) in FURTHER.items():
        turn_to(page, address)
        page.locator("button, summary").filter(has_text=first).first.focus()
        leads_through(page, wanted, kinds)
    turn_to(page, "rope")
    for component in (".rp", ".rc"):
        plays(page.locator(component))
    a_part_is_chosen(page)


def leads_through(page: Page, wanted: list[str], kinds: set[str]) -> None:
    """Expect the tab key to reach the wanted elements in this order, each with a visible focus."""
    found = stops(page, kinds)
    names = iter(found)
    for each in wanted:
        assert any(each in name for name in names), f"no stop, or not in this order: {each} in {found}"


def plays(picture: Locator) -> None:
    slider = picture.get_by_role("slider").first
    started = slider.input_value()
    picture.get_by_role("button", name="Play").focus()
    picture.page.keyboard.press("Enter")
    expect(picture.get_by_role("button", name="Pause")).to_be_focused()
    expect(slider).not_to_have_value(started)
    picture.page.keyboard.press("Space")
    expect(picture.get_by_role("button", name="Play")).to_be_focused()
    stopped = int(slider.input_value())
    slider.press("ArrowRight")
    expect(slider).to_have_value(str(stopped + 1))


def a_part_is_chosen(page: Page) -> None:
    page.get_by_role("radio", name="Only distance counts").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Space")
    settle(page)
    expect(page).to_have_url(re.compile("tab=without"))


def the_lines_are_walked_and_pinned(page: Page) -> None:
    page.get_by_role("listbox", name="Queries").focus()
    page.keyboard.press("ArrowDown")
    expect(page.locator(".lv .read")).to_contain_text("Query 1 ")
    page.keyboard.press("End")
    page.keyboard.press("Enter")
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("listbox", name="Keys")).to_be_focused()
    expect(page.get_by_role("listbox", name="Queries").locator(".pinned")).to_have_count(1)
