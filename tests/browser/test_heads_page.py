"""User actions on the Heads page, and their effects on the screen."""

import io
import re
from collections.abc import Callable, Iterable
from urllib.parse import urlsplit

import numpy as np
from PIL import Image
from playwright.sync_api import Locator, Page, expect

from attnviz.figures import theme
from attnviz.session.pages import PAGES
from tests.browser.conftest import NARROW, WIDE, count_messages, turn_to, viewport
from tests.browser.painted import hue_shares, overflow, painted_fraction, pixels, settle
from tests.browser.server import Server
from tests.browser.sidebar import take_option

Visit = Callable[..., Page]


def choose(page: Page, label: str, option: str) -> None:
    """Choose an option of a select box above the map."""
    page.get_by_role("combobox", name=label).select_option(option)
    settle(page)


def add(page: Page, label: str, option: str) -> None:
    """Add an option to a multiselect."""
    box = page.get_by_role("combobox", name=label)
    take_option(box, page.get_by_role("option", name=option, exact=True), typed=option)
    page.keyboard.press("Escape")
    settle(page)


def part(page: Page, name: str) -> None:
    """Open the tab with this name, through its group if it has one."""
    for group, tabs in PAGES["heads"].groups.items():
        if name in [PAGES["heads"].tabs[tab] for tab in tabs]:
            page.get_by_role("radio", name=group, exact=True).click()
            settle(page)
    page.get_by_role("radio", name=name).or_(page.get_by_role("button", name=name, exact=True)).first.click()
    settle(page)


def heading(page: Page, pattern: str):
    return page.get_by_role("heading", name=re.compile(pattern))


def a_click_in_the_grid_changes_the_head_and_its_part(page: Page) -> None:
    page.get_by_role("gridcell", name=re.compile("^Layer 2, head 5,")).first.click()
    settle(page)
    expect(heading(page, "^Layer 2, head 5 reads KV head 2")).to_be_visible()
    expect(heading(page, "^Layer 2 in 5 models")).to_be_visible()
    expect(page).to_have_url(re.compile("head=5"))


def a_chosen_head_is_in_sight_and_an_example_goes_where_it_says(page: Page) -> None:
    page.set_viewport_size({"width": 1280, "height": 720})  # a projector's
    settle(page)
    page.get_by_role("gridcell", name=re.compile("^Layer 3, head 6,")).first.click()
    expect(heading(page, "^Layer 3, head 6 reads KV head 3")).to_be_visible()
    settle(page)
    grid, head = page.get_by_role("grid").bounding_box(), the_map(page).bounding_box()
    assert 0 < grid["y"] < grid["y"] + grid["height"] < 720 and 0 < head["y"] < head["y"] + head["height"] < 720
    assert grid["x"] + grid["width"] < head["x"] < head["x"] + head["width"] <= 1280
    said = page.get_by_role("paragraph").filter(has_text="Look at layer").inner_text()
    named = re.search(r"layer (\d+), head (\d+):.*Query (\d+) .*to key (\d+) ", said, re.DOTALL)
    layer, which, query, key = named.groups()
    page.get_by_role("button", name=re.compile(r"^Show L\d+ H\d+$")).click()
    expect(heading(page, f"^Layer {layer}, head {which} reads")).to_be_visible()
    expect(page.get_by_text(re.compile(f"^Query {query} .* key {key} ")).first).to_be_visible()
    page.set_viewport_size(viewport(WIDE))


def a_head_chosen_in_a_part_is_the_one_that_is_marked_in_the_grid(page: Page) -> None:
    chosen = page.get_by_role("gridcell", selected=True)
    expect(chosen.first).to_have_attribute("aria-label", re.compile("^Layer 2, head 5,"))
    page.get_by_role("gridcell", name=re.compile("^Layer 2, head 6,")).last.click()  # in the last family member's row
    settle(page)
    expect(heading(page, "^Layer 2, head 6 reads")).to_be_visible()
    expect(chosen.first).to_have_attribute("aria-label", re.compile("^Layer 2, head 6,"))
    expect(page.locator(".hg .read").first).to_contain_text("Layer 2, H6 reads")


def a_layer_chosen_in_a_part_is_the_layer_of_the_part_and_of_the_head(page: Page) -> None:
    page.get_by_role("radiogroup", name="Layer").get_by_text("3", exact=True).click()
    expect(heading(page, "^Layer 3, head 6 reads")).to_be_visible()
    expect(heading(page, "^Layer 3 in 5 models")).to_be_visible()
    chosen = page.get_by_role("gridcell", selected=True)
    expect(chosen).to_have_count(6)
    assert all(cell.get_attribute("aria-label").startswith("Layer 3, head 6,") for cell in chosen.all())


def a_pinned_head_stands_beside_the_selected_one_in_lines_and_grid(page: Page) -> None:
    add(page, "Pinned heads", "L1 H5")
    expect(page.get_by_text("· pinned")).to_have_count(1)
    maps = [page.locator(f".st-key-chart-side-{head}").bounding_box() for head in ("0-0", "1-5")]
    assert maps[0]["y"] == maps[1]["y"] and maps[0]["x"] + maps[0]["width"] <= maps[1]["x"]
    assert all(painted_fraction(pixels(page.locator(f".st-key-chart-side-{head}"))) > 0.05 for head in ("0-0", "1-5"))
    part(page, "Lines between tokens")
    expect(heading(page, "for L0 H0, L1 H5")).to_be_visible()
    page.get_by_role("button", name="L1 H5", exact=True).first.click()  # its chip in the line view
    expect(page).to_have_url(re.compile("pinned=1.5"))


def a_head_is_pinned_and_unpinned_by_its_button(page: Page) -> None:
    page.get_by_role("gridcell", name=re.compile("^Layer 1, head 3,")).click()
    settle(page)
    page.get_by_role("button", name="Pin to compare").click()
    settle(page)
    expect(page).to_have_url(re.compile("pinned=1.5%2C1.3|pinned=1.5,1.3"))
    pinned = page.get_by_role("gridcell").filter(has_text="· pinned")
    expect(pinned).to_have_count(2)
    expect(pinned.first).to_have_accessible_name(re.compile("^Layer 1, head 3,"))
    page.get_by_role("gridcell", name=re.compile("^Layer 2, head 5,")).click()
    settle(page)
    expect(heading(page, "^Line thickness = attention weight, for L2 H5, L1 H5, L1 H3$")).to_be_visible()
    page.get_by_role("gridcell", name=re.compile("^Layer 1, head 3,")).click()
    settle(page)
    page.get_by_role("button", name="Unpin this head").click()
    settle(page)
    expect(pinned).to_have_count(1)
    expect(page).to_have_url(re.compile("pinned=1.5(&|$)"))


def order_of_heads(page: Page) -> list[str]:
    return page.locator(".hg").first.locator(".cap > b").all_text_contents()


def a_mask_is_selected_by_a_click_and_the_whole_page_follows(page: Page) -> None:
    shown = page.get_by_label("Heads shown").first
    shown.select_option("by:distance")
    unmasked = order_of_heads(page)
    page.get_by_role("gridcell", name=re.compile("^Padding of 3, head 1,")).click()
    settle(page)
    expect(page.get_by_text("The first 3 tokens are padding.")).to_be_visible()
    masked = order_of_heads(page)
    assert sorted(masked) == sorted(unmasked) and masked != unmasked  # sorted by what was computed with this mask
    shown.select_option("layers")
    shown.select_option("by:distance")
    assert order_of_heads(page) == masked
    shown.select_option("layers")
    page.get_by_role("gridcell", name=re.compile("^Window of 8, 1 sink, head 1,")).click()
    settle(page)
    expect(page.get_by_text("are padding.")).to_have_count(0)
    expect(page).to_have_url(re.compile("window=8"))
    expect(page).to_have_url(re.compile("n_sinks=1"))


# ---- the selected head: its map, and the path of a query

LAST = 28  # of the 29 tokens of the text that the page opens with


def the_map(page: Page) -> Locator:
    return page.locator(".hv .map")


def the_path(page: Page) -> Locator:
    return page.locator(".hv .path")


def point_at_the_last_cell(page: Page) -> dict[str, float]:
    """Hover over the cell in the lower right corner; return the map's bounding box."""
    whole = the_map(page).bounding_box()
    the_map(page).hover(position={"x": whole["width"] - 6, "y": whole["height"] - 6})
    expect(the_map(page).locator("i")).to_be_visible()
    return the_map(page).bounding_box()  # hovering may have scrolled


def box_of(page: Page, query: int, key: int) -> dict[str, float]:
    """Return the box of a cell relative to the top left of the map, derived from the last cell's."""
    whole = point_at_the_last_cell(page)
    last = the_map(page).locator("i").bounding_box()
    across, down = last["x"] - whole["x"] - (LAST - key) * last["width"], (LAST - query) * last["height"]
    return {"x": across, "y": last["y"] - whole["y"] - down, "width": last["width"], "height": last["height"]}


def centre(box: dict[str, float]) -> dict[str, float]:
    return {"x": box["x"] + box["width"] / 2, "y": box["y"] + box["height"] / 2}


def reading(page: Page) -> Locator:
    return page.locator(".hv .read")


def saying(page: Page) -> Locator:
    return page.locator(".hv .readout")


def weight_in(line: Locator) -> str:
    return line.locator("b").inner_text().removeprefix("weight ")


def pointing_at_a_cell_and_at_a_bar_says_their_numbers_without_asking_the_server(page: Page) -> None:
    sent = count_messages(page)
    the_map(page).hover(position=centre(box_of(page, 20, 4)))
    expect(reading(page)).to_contain_text(re.compile(r"^Query 20 “.+” → key 4 “.+”: weight \d\.\d{4}$"))
    weight = weight_in(reading(page))
    mark = the_map(page).locator("i").bounding_box()
    assert mark["width"] > 5 and mark["height"] > 5
    shaded = page.locator(".tv .title")
    the_map(page).hover(position=centre(box_of(page, 4, 20)))
    expect(reading(page)).to_contain_text(re.compile("^Query 4 “.+” → key 20 “.+”: masked$"))
    expect(shaded).to_contain_text("weights of query 4 ")
    at, whole = centre(box_of(page, 20, 4)), the_path(page).bounding_box()
    bar = whole["width"] / 29  # a little more than one: the path has room for numbers on its left
    the_path(page).hover(position={"x": whole["width"] - 2 - 0.5 * bar, "y": 60})
    expect(saying(page)).to_contain_text(f"Key {LAST} ")
    expect(saying(page)).to_contain_text(re.compile(r"score −?\d+\.\d{4}, masked, so it has no weight$"))
    column = the_path(page).locator("i").bounding_box()
    the_path(page).hover(position={"x": column["x"] - whole["x"] - 23.5 * column["width"], "y": 200})
    expect(saying(page)).to_contain_text(re.compile(rf"^Key 4 “.+”: score −?\d+\.\d{{4}}, weight {weight}$"))
    the_map(page).hover(position={"x": 3, "y": at["y"]})  # on the labels
    expect(reading(page)).to_contain_text("Query 20 ")
    expect(the_map(page).locator("i")).to_be_hidden()
    expect(shaded).to_contain_text("weights of query 20 ")
    assert sent() == 0, "pointing asks the server"
    the_map(page).click(position=at)
    expect(page).to_have_url(re.compile("key=4"))
    assert sent() > 0  # a choice sends a message, so the counter works


def grid_head_view_titles_and_equations_say_the_same_weight(page: Page) -> None:
    """The browser prints the numbers of the grid and the head view, the server those of titles and equations."""
    query, key = re.findall(r"(?:query|key)=(\d+)", page.url)
    expect(reading(page)).to_contain_text(re.compile(rf"^Query {query} “.* → key {key} "))
    weight = weight_in(reading(page))
    assert re.fullmatch(r"0\.\d{4}", weight)
    expect(saying(page)).to_contain_text(re.compile(f"^Key {key} .* weight {weight}$"))
    expect(heading(page, rf"^From score to weight: .*: {weight}$")).to_be_visible()
    expect(heading(page, rf"^Query .* key .*: score .*, weight {weight}$")).to_be_visible()
    expect(page.locator(".hv .sum")).to_contain_text(f" = {weight}. ")
    readout = page.locator(".hg .read").first
    page.get_by_role("gridcell", selected=True).focus()
    page.keyboard.press("Shift+ArrowUp")  # starts at the corner, or at the previous cell
    at = [int(n) for n in re.search(r"Query (\d+) .* → key (\d+) ", readout.inner_text()).groups()]
    for back, forth, n in (("Up", "Down", int(query) - at[0]), ("Left", "Right", int(key) - at[1])):
        for _ in range(abs(n)):
            page.keyboard.press(f"Shift+Arrow{forth if n > 0 else back}")
    expect(readout).to_contain_text(re.compile(rf"Query {query} “.* → key {key} “.*: weight {weight}$"))


def a_click_on_a_cell_chooses_its_query_and_key(page: Page) -> None:
    the_map(page).click(position=centre(box_of(page, 17, 4)))
    weight = weight_in(reading(page))
    settle(page)
    expect(page).to_have_url(re.compile("query=17"))
    expect(page).to_have_url(re.compile("key=4"))
    expect(heading(page, "^From score to weight: query 17 “")).to_be_visible()
    expect(heading(page, "^Query 17 .* key 4 ")).to_be_visible()
    for label, value in (("Query token", "17"), ("Key token", "4")):
        expect(page.get_by_role("combobox", name=label)).to_have_value(value)
    expect(saying(page)).to_contain_text("Key 4 ")
    assert weight_in(saying(page)) == weight  # from the cells of the map, and from the server's own numbers
    whole = the_path(page).bounding_box()
    the_path(page).click(position={"x": whole["width"] - 5, "y": 60})
    settle(page)
    expect(page).to_have_url(re.compile(f"key={LAST}"))
    choose(page, "Key token", "3")
    expect(heading(page, "^Query 17 .* key 3 .*score")).to_be_visible()
    choose(page, "Key token", "-1")
    expect(page).not_to_have_url(re.compile("key="))


def the_arrow_keys_go_over_the_map_and_enter_chooses(page: Page) -> None:
    the_map(page).focus()
    expect(reading(page)).to_contain_text(re.compile("^Query 20 .* → key 4 "))
    for key in ("ArrowUp", "ArrowUp", "ArrowLeft", "ArrowDown", "ArrowRight", "ArrowRight"):
        page.keyboard.press(key)
    expect(reading(page)).to_contain_text(re.compile("^Query 19 .* → key 5 "))
    expect(the_map(page).locator("i")).to_be_visible()
    page.keyboard.press("Enter")
    settle(page)
    expect(page).to_have_url(re.compile("query=19"))
    expect(page).to_have_url(re.compile("key=5"))
    expect(heading(page, "^From score to weight: query 19 ")).to_be_visible()
    expect(the_map(page)).to_be_focused()
    for _ in range(30):  # it stops at the first
        page.keyboard.press("ArrowLeft")
    expect(reading(page)).to_contain_text(re.compile("^Query 19 .* → key 0 "))


CHANGED_AT_ONCE = """(control, change) => {
    const canvas = control.closest(".hv").querySelector(".map canvas"), before = canvas.toDataURL();
    Object.assign(control, change);
    control.dispatchEvent(new Event("change", { bubbles: true }));
    return canvas.toDataURL() !== before; // nothing can have come from the server in between
}"""


def drawn(page: Page) -> str:
    """Return the map's canvas content, independent of its position on the screen."""
    return the_map(page).locator("canvas").evaluate("canvas => canvas.toDataURL()")


def saturation(image: np.ndarray) -> float:
    """Return the mean distance of the colours from grey."""
    return float(np.ptp(image.astype(int), axis=2).mean())


def other_colours_are_there_at_once_and_in_the_address(page: Page) -> None:
    first = box_of(page, 0, 0)  # the first token can attend only to itself
    x, y = round(first["x"] + 2), round(first["y"] + 2)
    page.mouse.move(2, 2)
    plain = pixels(the_map(page))
    expect(page.get_by_role("combobox", name="Colour scale")).to_have_value("linear")
    assert page.get_by_role("combobox", name="Colour scale").evaluate(CHANGED_AT_ONCE, {"value": "log"})
    settle(page)
    expect(page).to_have_url(re.compile("colour=log"))
    log = pixels(the_map(page))
    assert saturation(log) > 1.2 * saturation(plain)
    assert page.get_by_label("Exclude first token from colour scale").evaluate(CHANGED_AT_ONCE, {"checked": True})
    settle(page)
    expect(page).to_have_url(re.compile("sink_aside=1"))
    excluded, as_drawn = pixels(the_map(page)), drawn(page)
    across, down = round(first["width"]) - 4, round(first["height"]) - 4
    cell = np.s_[y : y + down, x : x + across]
    assert saturation(plain[cell]) > 40 and saturation(excluded[cell]) < 3
    expect(page.locator(".hv .note")).to_contain_text("excluded from the colour scale")
    link = urlsplit(page.url)
    turn_to(page, "heads")
    turn_to(page, f"heads?{link.query}")
    expect(page.get_by_role("combobox", name="Colour scale")).to_have_value("log")
    expect(page.get_by_label("Exclude first token from colour scale")).to_be_checked()
    assert drawn(page) == as_drawn


CELL = """(map) => {
    const [canvas, mark] = map.children, ratio = canvas.width / canvas.clientWidth;
    const middle = ["left", "width", "top", "height"].map((side) => parseFloat(mark.style[side]));
    const at = [middle[0] + middle[1] / 2, middle[2] + middle[3] / 2].map((v) => Math.round(v * ratio));
    return [...canvas.getContext("2d").getImageData(...at, 1, 1).data.slice(0, 3)];
}"""
PRINTED = """bar => {
    const { left, width } = bar.querySelector("i").getBoundingClientRect(), range = document.createRange();
    return [...bar.querySelectorAll("span")].map((span) => {
        range.selectNodeContents(span);
        const box = range.getBoundingClientRect();
        return [(box.left + box.width / 2 - left) / width, span.textContent];
    });
}"""


def a_weight_has_the_colour_of_its_square_root(page: Page) -> None:
    """The default, as in the grid. The ramp sent has 17 stops, so a colour may differ by a few units."""
    expect(page.get_by_role("combobox", name="Colour scale")).to_have_value("root")
    expect(page.locator(".hv .note")).to_contain_text("square-root scale")
    ramp, weights = theme.kv_ramp(1, 4, "light").astype(int), []
    the_map(page).focus()
    for _ in range(20):
        page.keyboard.press("ArrowLeft")
        below, number = re.search(r"weight (< )?(\d(?:\.\d+)?)", reading(page).inner_text()).groups()
        weights.append(0.0 if below else float(number))
        colour = the_map(page).evaluate(CELL)
        assert np.abs(ramp[round(255 * weights[-1] ** 0.5)] - colour).max() <= 4, (weights[-1], colour)
    assert sum(0.01 < weight < 0.5 for weight in weights) >= 2, weights  # the linear scale's would be lighter
    printed = page.locator(".hv .bar").evaluate(PRINTED)
    assert [text for _, text in printed] == ["0", "0.0625", "0.25", "0.563", "1"]
    assert np.allclose([at for at, _ in printed], [0, 0.25, 0.5, 0.75, 1], atol=0.01)
    assert page.get_by_role("combobox", name="Colour scale").evaluate(CHANGED_AT_ONCE, {"value": "linear"})
    settle(page)
    expect(page).to_have_url(re.compile("colour=linear"))
    assert [text for _, text in page.locator(".hv .bar").evaluate(PRINTED)] == ["0", "0.25", "0.5", "0.75", "1"]


FIRST_COLUMN = """(canvas, { left, width, y }) => {
    const pixels = canvas.getContext("2d").getImageData(left, y, Math.ceil(width), 1).data;
    return Array.from({ length: Math.ceil(width) }, (_, i) => [...pixels.slice(4 * i, 4 * i + 3)]);
}"""


def the_first_column_is_set_aside_to_its_edge(page: Page) -> None:
    """Cells of a long text have fractional pixel widths: no coloured stripe may remain beside the grey column."""
    shares = set()
    for window in (1417, 1390, 1361):
        page.set_viewport_size({"width": window, "height": 900})
        settle(page)
        the_map(page).press("ArrowUp")  # from the first cell to the first
        expect(reading(page)).to_contain_text(
            re.compile("^Query 0 .* → key 0 .*: outside the colour scale, weight 1.0000")
        )
        whole, box = the_map(page).bounding_box(), the_map(page).locator("i").bounding_box()
        asked = {"left": box["x"] - whole["x"], "width": box["width"], "y": box["y"] - whole["y"] + 4}
        colours = the_map(page).locator("canvas").evaluate(FIRST_COLUMN, asked)
        assert all(max(colour) - min(colour) < 4 for colour in colours), colours
        shares.add(round(box["width"] % 1, 2))
    assert any(0 < share < 0.5 for share in shares), shares  # otherwise the case did not occur


def the_map_can_be_zoomed_and_the_numbers_of_both_saved(page: Page) -> None:
    expect(page.locator(".js-plotly-plot")).to_have_count(0)  # charts are drawn on demand
    page.get_by_text("Zoom, numbers and downloads").click()
    settle(page)
    chart = page.locator(".st-key-chart-map")
    chart.scroll_into_view_if_needed()
    assert painted_fraction(pixels(chart)) > 0.05
    with page.expect_download() as started:
        page.get_by_role("button", name="PNG", exact=True).click()
    assert started.value.suggested_filename.startswith("attnviz-heads-map-gqa-4-")
    image = np.asarray(Image.open(io.BytesIO(started.value.path().read_bytes())).convert("RGB"))
    assert image.shape[1] >= 1600 and painted_fraction(image) > 0.05
    with page.expect_download() as started:
        page.locator(".st-key-csv-path").get_by_role("button").click()
    first, *rows = started.value.path().read_text().splitlines()
    assert first == "key,token,score,after the mask,weight" and len(rows) > 20


# ---- in one tab

LONG = "once%20upon%20a%20time%20" * 12
# One URL for several that need no session of their own: a new one costs as much as using the page.
CHOICES = (  # URL, or "" to go on where the one before has ended; of ablated heads: tests/ui/test_heads_controls.py
    (a_chosen_head_is_in_sight_and_an_example_goes_where_it_says, ""),
    (a_click_in_the_grid_changes_the_head_and_its_part, "heads?tab=family"),
    (a_head_chosen_in_a_part_is_the_one_that_is_marked_in_the_grid, ""),
    (a_layer_chosen_in_a_part_is_the_layer_of_the_part_and_of_the_head, ""),
    (a_pinned_head_stands_beside_the_selected_one_in_lines_and_grid, "heads?layer=0&head=0&tab=side"),
    (a_head_is_pinned_and_unpinned_by_its_button, ""),
    (a_mask_is_selected_by_a_click_and_the_whole_page_follows, "heads?tab=masks"),
)
ONE_HEAD = (
    (the_first_column_is_set_aside_to_its_edge, f"heads?query=0&key=0&sink_aside=1&text={LONG}"),
    (
        grid_head_view_titles_and_equations_say_the_same_weight,
        "heads?tab=number&layer=1&head=6&query=13&key=2&model=mla&window=16",
    ),
    (a_click_on_a_cell_chooses_its_query_and_key, ""),
    (pointing_at_a_cell_and_at_a_bar_says_their_numbers_without_asking_the_server, "heads?query=20"),
    (the_arrow_keys_go_over_the_map_and_enter_chooses, ""),
    (a_weight_has_the_colour_of_its_square_root, "heads?query=21&key=20"),
    (other_colours_are_there_at_once_and_in_the_address, ""),
    (the_map_can_be_zoomed_and_the_numbers_of_both_saved, ""),
)


def go_through(page: Page, assertions: Iterable[tuple[Callable[[Page], None], str]]) -> None:
    for each, address in assertions:
        if address:  # scrolled to its top, without focus or hover
            page.evaluate("document.activeElement?.blur()")
            page.get_by_test_id("stMain").evaluate("main => main.scrollTo(0, 0)")
            page.mouse.move(2, 2)
            turn_to(page, address)
        each(page)


def test_what_is_chosen_is_shown_by_the_whole_page_and_all_of_it_fits_on_a_phone(visit: Visit) -> None:
    page = visit("heads")
    go_through(page, CHOICES)
    page.emulate_media(color_scheme="dark")
    page.set_viewport_size(viewport(NARROW))
    go_through(page, PHONE)


def test_the_map_of_a_head_and_the_path_of_a_query_say_their_numbers(tab: Callable[..., Page], server: Server) -> None:
    page = tab()
    labels_are_written_again_when_the_font_has_come(page, server)
    go_through(page, ONE_HEAD)


def labels_are_written_again_when_the_font_has_come(page: Page, server: Server) -> None:
    """That it is drawn alike otherwise: `other_colours_are_there_at_once_and_in_the_address`."""
    held, free = [], []
    page.route("**/*.woff2", lambda request: request.continue_() if free else held.append(request))
    page.goto(f"{server.url}/heads", wait_until="commit")  # the load event would wait for the font
    expect(heading(page, "^From score to weight: query 21 ")).to_be_visible()
    page.wait_for_function("() => document.fonts.status === 'loading'")
    the_map(page).scroll_into_view_if_needed()
    page.wait_for_timeout(500)  # until nothing else draws it again
    before = drawn(page)
    free.append(True)
    for request in held:
        request.continue_()
    settle(page)
    page.unroute_all(behavior="wait")
    assert drawn(page) != before


# ---- on a phone


def the_head_stands_right_below_its_grid(page: Page) -> None:
    places = [page.locator(f".st-key-{key}").first.bounding_box() for key in ("head-grid", "head-view", "text-view")]
    grid, head, text = (place["y"] for place in places)
    assert grid < head < text and head < grid + places[0]["height"] + 60


def the_map_and_the_path_are_painted(page: Page) -> None:
    for part_of_it in (the_map(page), the_path(page)):
        part_of_it.scroll_into_view_if_needed()
        page.mouse.move(2, 2)
        settle(page)
        image = pixels(part_of_it)
        assert painted_fraction(image) > 0.1
        assert hue_shares(image).max() > 0.005  # the KV head's, not only the greys
        assert part_of_it.bounding_box()["width"] > 0.8 * min(NARROW - 40, 440)
    assert overflow(page) <= 0


def parts_stay_inside_the_window(page: Page) -> None:
    """The others that are wide are measured in test_seen.py."""
    for name, says in {
        "Compare attention types": "^Layer . in 5 models",
        "Cross-attention": "of the second text with weight",
    }.items():
        part(page, name)
        expect(heading(page, says)).to_be_visible()
        assert overflow(page) <= 0


PHONE = (
    (the_head_stands_right_below_its_grid, "heads"),
    (the_map_and_the_path_are_painted, ""),
    (parts_stay_inside_the_window, ""),
)
