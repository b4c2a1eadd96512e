"""Every picture can be saved as SVG and as PNG for a slide, copied, and fills the screen, as every chart does."""

import io
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Download, Locator, Page, expect

from tests.browser.conftest import NARROW, viewport
from tests.browser.painted import SHOTS, background, hue_shares, painted_fraction, settle

SVG, XLINK = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xlink}href"  # plotly's images have the latter
HEAD = "heads?model=gqa-2&layer=2&head=5&query=20&pinned=0.2&window=7"
STATE = "linear?model=hybrid&linear_head=1.3&softmax_head=3.0&tab=state"
GROUPS = "query_groups?model=mha&layer=3"
TURNED = "rope?model=mqa&pair=3&tab=equal"  # a tab with one chart
PICTURES = {  # the key of the component: its address, the file's name, a piece of the title, the KV heads in the legend
    "head-grid": (HEAD, "heads-head-grid-gqa-2", "2 KV heads", 2),
    "head-view": (HEAD, "heads-head-view-gqa-2", "Layer 2, head 5", 1),
    "head-path": (HEAD, "heads-head-path-gqa-2", "query 20", 1),
    "text-view": (HEAD, "heads-text-view-gqa-2", "20", 1),
    "lines": (HEAD, "heads-lines-gqa-2", "L0 H2", 2),
    "rope-pair": (TURNED, "rope-rope-pair-mqa", "is rotated by 120°", 1),
    "rope-clocks": (TURNED, "rope-rope-clocks-mqa", "clock", 1),
    "diagram": (GROUPS, "query-groups-diagram-mha", "8 KV heads", 8),
    "stored": (GROUPS, "query-groups-stored-mha", "W_k and W_v", 8),
    "layer-maps": (GROUPS, "query-groups-layer-maps-mha", "Layer 3", 8),
    "front-grid": ("?model=mqa", "overview-front-grid-mqa", "MQA: 8 query heads read 1 KV head", 1),
    "decode-player": ("decode?shown=2", "decode-decode-player-gqa-4", "after a prompt of 29 tokens", 4),
    "source-walk": ("steps?step=25", "steps-source-walk-gqa-4", "(1, ", 1),
    "implied-maps": (STATE, "linear-implied-maps-hybrid", "L1 H3", 2),
    "state-player": (STATE, "linear-state-player-hybrid", "L1 H3", 1),
}
FRAMED = {"head-grid": 2, "text-view": 1}  # rings around what is selected
OF_PIXELS = (
    "head-path", "head-view", "head-grid", "layer-maps", "front-grid", "source-walk", "implied-maps", "state-player",
)  # fmt: skip


def save(component: Locator, *kinds: str) -> list[tuple[str, bytes]]:
    """Press the buttons; return the names and the bytes of the downloaded files.

    With "PNG", "SVG" one need not wait: Chromium begins a PNG with the next frame, or after a second without one, and
    the second click brings a frame.
    """
    started = []
    with ExitStack() as downloads:
        for kind in kinds:
            of_this_kind = partial(is_a, kind)
            started.append(downloads.enter_context(component.page.expect_download(of_this_kind)))
            component.get_by_role("button", name=f"Save as {kind}", exact=True).click()
    return [read(download.value) for download in started]


def is_a(kind: str, download: Download) -> bool:
    return download.suggested_filename.endswith(f".{kind.lower()}")


def read(download: Download) -> tuple[str, bytes]:
    content = download.path().read_bytes()
    if SHOTS:
        Path(SHOTS).mkdir(parents=True, exist_ok=True)
        (Path(SHOTS) / download.suggested_filename).write_bytes(content)
    return download.suggested_filename, content


def shown(page: Page, key: str) -> Locator:
    return page.locator(f".st-key-{key}").first


def assert_nothing_is_cut_off(page: Page, source: bytes) -> None:
    """Check in a browser that no text extends beyond the picture or overlaps another."""
    boxes = page.evaluate(
        """(source) => {
            const parsed = new DOMParser().parseFromString(source, "image/svg+xml");
            const svg = document.body.appendChild(parsed.documentElement);
            svg.style.cssText = "position: absolute; top: 0; left: 0";
            const texts = svg.querySelectorAll(":scope > text, :scope > a > text");
            const boxes = [svg, ...texts].map((each) => each.getBoundingClientRect());
            svg.remove();
            return boxes.map(({ left, right, top, bottom }) => [left, right, top, bottom]);
        }""",
        source.decode(),
    )
    (left, right, top, bottom), *written = boxes
    assert all(left <= b[0] and b[1] <= right and top <= b[2] and b[3] <= bottom for b in written)
    pairs = [(a, b) for i, a in enumerate(written) for b in written[:i]]
    assert not [(a, b) for a, b in pairs if min(a[1], b[1]) > max(a[0], b[0]) and min(a[3], b[3]) > max(a[2], b[2]) + 4]


def texts(svg: ET.Element) -> str:
    return " ".join("".join(each.itertext()) for each in svg.iter(f"{SVG}text"))


def size(svg: ET.Element) -> tuple[float, float]:
    return float(svg.get("width")), float(svg.get("height"))


def assert_saved_with_title_legend_and_link(page: Page, key: str, scheme: str) -> ET.Element:
    """Save both files of the shown component and check them; return the SVG."""
    _, name, title, n_kv_heads = PICTURES[key]
    component = shown(page, key)
    before = component.bounding_box()["height"]
    (png_name, pixels), (svg_name, source) = save(component, "PNG", "SVG")
    assert svg_name.removesuffix(".svg") == png_name.removesuffix(".png")
    assert svg_name.startswith(f"attnviz-{name}-")  # and then the beginning of the title
    assert component.bounding_box()["height"] == before  # restored after saving

    svg = ET.fromstring(source)
    assert_nothing_is_cut_off(page, source)
    assert_nothing_is_needed_from_elsewhere(svg, 2 if key in OF_PIXELS else 12)
    assert title in texts(svg)
    assert_nothing_on_it_belongs_elsewhere(svg)
    legend = [rect.get("fill") for rect in svg.findall(f"{SVG}rect") if rect.get("rx") == "2"]
    assert len(legend) == len(set(legend)) == n_kv_heads

    image = Image.open(io.BytesIO(pixels))
    assert image.size[0] >= 1600
    assert image.size == pytest.approx([image.size[0] / size(svg)[0] * side for side in size(svg)], abs=1)
    rgb = np.asarray(image.convert("RGB"))
    assert np.asarray(image.convert("RGBA"))[..., 3].min() == 255  # opaque background
    assert (sum(background(rgb)) < 3 * 64) == (scheme == "dark")
    assert painted_fraction(rgb) > 0.02 and hue_shares(rgb).max() > 0.0005
    rings = [rect for rect in svg.iter(f"{SVG}rect") if rect.get("fill") == "none" and rect.get("stroke-width") == "2"]
    assert len(rings) >= FRAMED.get(key, 0)
    if key == "source-walk":  # its code is scrolled
        clip = svg.find(f".//{SVG}clipPath/{SVG}rect")
        assert float(clip.get("y")) >= 0 and float(clip.get("height")) < size(svg)[1]
    return svg


def assert_nothing_is_needed_from_elsewhere(svg: ET.Element, least_shapes: int) -> None:
    """Check that the file is self-contained: pixels, shapes, colours."""
    sources = [image.get("href") or image.get(XLINK) for image in svg.iter(f"{SVG}image")]
    assert {source[:22] for source in sources} <= {"data:image/png;base64,"}
    assert not [e.tag for e in svg.iter() if e.tag.removeprefix(SVG) in ("script", "foreignObject")]
    (style,) = svg.iter(f"{SVG}style")
    assert re.findall(r"url\((.{16})", style.text) == style.text.count("src:") * ["data:font/woff2;"]
    assert style.text.count("src:") == style.text.count("url(") > 0
    assert not [e for e in svg.iter() if e.get("class") or "var(" in str(e.attrib) or "color-mix" in str(e.attrib)]
    assert sum(1 for e in svg.iter() if e.tag.removeprefix(SVG) in ("path", "line", "circle", "rect")) >= least_shapes


def assert_nothing_on_it_belongs_elsewhere(svg: ET.Element) -> None:
    """Check that a picture has no run time, no local address, no note on what it does not show, and one typeface."""
    written = texts(svg)
    assert not re.search(r"traced in|localhost|127\.0\.0\.1|slider|click|point at", written, re.IGNORECASE)
    assert next(svg.iter(f"{SVG}a"), None) is None
    assert ("Roles are scored" in written) == ("no clear role" in written)
    styled = [
        text.get("font-family") or re.search("font-family: ([^;]+)", text.get("style"))[1]
        for text in svg.iter(f"{SVG}text")
    ]
    families = {families.split(",")[0].strip('"') for families in styled}
    assert families <= {"Source Sans", "Source Code Pro"} and "Source Sans" in families


def assert_labels_are_text(svg: ET.Element, *labels: str) -> None:
    """Check that what is written on a canvas is text in the file, not pixels in another typeface."""
    assert all(label in texts(svg) for label in labels)


def saved_svg(drawing: Locator) -> ET.Element:
    return ET.fromstring(save(drawing, "SVG")[0][1])


def a_head_is_saved_as_one_chooses(page: Page) -> None:
    """The link of a hosted app and the background are choices, which the tab remembers."""
    head = shown(page, "head-view")
    assert_labels_are_text(saved_svg(head), "found\u2069\u200220", "girl\u2069\u200219")
    page.evaluate("document.attnvizSave.isHosted = () => true")
    link = next(saved_svg(head).iter(f"{SVG}a"))
    assert link.get("href") == page.url == re.sub(" ", "", "".join(link.itertext()))
    head.get_by_role("button", name="How it is saved").click()
    head.get_by_label("Link to this view").uncheck()
    head.get_by_label("Transparent background").check()
    grid = shown(page, "head-grid")
    grid.get_by_role("button", name="How it is saved").click()
    expect(grid.get_by_label("Transparent background")).to_be_checked()
    for drawing in (head, grid):
        assert next(saved_svg(drawing).iter(f"{SVG}a"), None) is None
        rgba = np.asarray(Image.open(io.BytesIO(save(drawing, "PNG")[0][1])).convert("RGBA"))
        assert (rgba[:16, :, 3] == 0).all() and 0.2 < (rgba[..., 3] == 0).mean() < 0.95
        dark_ink = (rgba[..., 3] > 200) & (rgba[..., :3].max(axis=2) < 90)  # legible on the light theme
        assert dark_ink.mean() > 0.002
    head.get_by_label("Transparent background").uncheck()


def a_picture_is_copied(page: Page) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    button = shown(page, "text-view").get_by_role("button", name="Copy as PNG")
    button.click()
    expect(button).to_have_text("Copied")
    width = page.evaluate(
        """async () => {
            const [item] = await navigator.clipboard.read();
            return (await createImageBitmap(await item.getType("image/png"))).width;
        }"""
    )
    assert width >= 1600


HOSTED = {"attnviz.example.org": True, "8.8.8.8": True, "172.32.0.7": True}
HOSTED |= dict.fromkeys(
    ("localhost", "127.0.0.1", "192.168.3.5", "10.0.0.7", "172.16.1.1", "[::1]", "server", "mac.local"), False
)


def only_a_public_address_is_hosted(page: Page) -> None:
    hosts = list(HOSTED)
    found = page.evaluate("hosts => hosts.map((host) => document.attnvizSave.isHosted(host))", hosts)
    assert dict(zip(hosts, found, strict=True)) == HOSTED


def what_is_out_of_sight_is_saved_too_and_a_strange_text_gives_valid_xml(page: Page) -> None:
    """All tokens and lines of a long text are saved, though the component shows only a part."""
    for key in ("head-grid", "head-view"):
        ET.fromstring(save(shown(page, key), "SVG")[0][1])
    svg = ET.fromstring(save(shown(page, "lines"), "SVG")[0][1])
    n_tokens = page.locator(".side.q [role=option]").count()
    assert n_tokens > 100 and size(svg)[1] > 20 * n_tokens
    numbers = (re.findall(r"-?[\d.]+", path.get("d")) for path in svg.iter(f"{SVG}path"))
    assert max(float(y) for points in numbers for y in points[1::2]) > 20 * (n_tokens - 2)


def a_chart_of_plotly_has_title_and_link_too(page: Page) -> None:
    page.get_by_test_id("stMain").get_by_text("Numbers and downloads", exact=True).first.click()
    settle(page)
    component = page.locator(".st-key-save-chart-rollout")
    with page.expect_download() as started:
        component.get_by_role("button", name="SVG", exact=True).click()
    assert started.value.suggested_filename.startswith("attnviz-heads-rollout-mqa-rollout-through-")
    svg = ET.fromstring(started.value.path().read_bytes())
    column = page.get_by_test_id("stColumn").filter(has=page.locator(".st-key-chart-rollout"))
    heading = column.get_by_role("heading", level=2).first.inner_text()
    assert " ".join(heading.split())[:20] in texts(svg)
    assert_nothing_is_needed_from_elsewhere(svg, 12)
    assert_nothing_on_it_belongs_elsewhere(svg)
    with page.expect_download() as started:
        component.get_by_role("button", name="PNG", exact=True).click()
    assert Image.open(started.value.path()).size[0] >= 1600
    expect(component).to_be_visible()


def opened(page: Page, drawing: Locator) -> None:
    """Press the button for full screen, and wait until the size is final."""
    drawing.get_by_role("button", name="Full screen", exact=True).click()
    expect(drawing.get_by_role("button", name="Leave full screen")).to_be_visible()
    page.wait_for_function("document.fullscreenElement")


def left(drawing: Locator) -> None:
    drawing.get_by_role("button", name="Leave full screen").click()
    expect(drawing.get_by_role("button", name="Full screen", exact=True)).to_be_visible()


def bars_and_a_chart_fill_the_screen(page: Page) -> None:
    """A drawing goes back to its place; a chart has Streamlit's button."""
    bars = page.locator(".st-key-compared")
    bars.scroll_into_view_if_needed()
    first, on_page = bars.locator("rect").first, bars.locator("rect").first.bounding_box()
    opened(page, bars)
    assert bars.locator(".ts").bounding_box() == {"x": 0, "y": 0, "width": 1440, "height": 900}
    assert first.bounding_box()["height"] > 1.5 * on_page["height"]
    assert bars.get_by_role("button", name="Leave full screen").bounding_box()["y"] < 860
    left(bars)
    assert first.bounding_box() == pytest.approx(on_page, abs=1)
    chart = page.locator(".st-key-figure-published")
    chart.get_by_role("button", name="Fullscreen", exact=True).click()
    chart.get_by_role("button", name="Close fullscreen").click()
    expect(chart.get_by_role("button", name="Fullscreen", exact=True)).to_be_visible()


def a_head_is_read_in_full_screen(page: Page) -> None:
    head = shown(page, "head-view")
    opened(page, head)
    head.locator("canvas").first.hover()
    expect(head.locator(".read")).to_have_text(re.compile(r"Query \d+ .* → key \d+ .*"))
    left(head)


def a_head_uses_the_screen_and_its_cells_stay_square(page: Page) -> None:
    head = shown(page, "head-view")
    opened(page, head)
    plot = head.locator(".hv").evaluate("root => root.view.plot")
    height = head.locator("canvas").first.bounding_box()["height"]
    assert plot["width"] / plot["S"] == pytest.approx(plot["height"] / plot["T"])
    assert height > 0.85 * 900
    left(head)


def a_grid_fills_the_screen(page: Page) -> None:
    """Its maps are larger, all in the window, and painted where their boxes are."""
    grid = shown(page, "head-grid")
    before = grid.locator(".map").first.bounding_box()["width"]
    opened(page, grid)
    page.wait_for_timeout(200)
    maps = [each.bounding_box() for each in grid.locator(".map").all()]
    assert min(box["width"] for box in maps) > 1.9 * before
    assert max(box["y"] + box["height"] for box in maps) <= 900
    canvas, heads = grid.locator("canvas").bounding_box(), grid.locator(".grid").bounding_box()
    assert canvas["height"] == pytest.approx(heads["height"], abs=2)
    left(grid)
    assert grid.locator(".map").first.bounding_box()["width"] == pytest.approx(before, abs=1)


def clocks_fit_the_screen(page: Page) -> None:
    clocks = shown(page, "rope-clocks")
    opened(page, clocks)
    last = clocks.get_by_role("radio").last.bounding_box()
    assert last["x"] + last["width"] <= 1440 and last["y"] + last["height"] <= 900
    left(clocks)


def a_narrow_dark_window_saves_the_whole_grid(page: Page) -> None:
    page.emulate_media(color_scheme="dark")
    page.set_viewport_size(viewport(NARROW))
    settle(page)
    svg = assert_saved_with_title_legend_and_link(page, "head-grid", "dark")
    assert size(svg)[0] > 360
    assert texts(svg).count("H7") >= 4


STRANGE = "<b>\x01 %26amp; ]]> 👩‍👩‍👧 مرحبا " + " ".join(f"cat {i}" for i in range(60))
OTHERS = {  # {URL: assertion}
    f"heads?text={STRANGE}": what_is_out_of_sight_is_saved_too_and_a_strange_text_gives_valid_xml,
    "heads?tab=rollout&model=mqa": a_chart_of_plotly_has_title_and_link_too,
    "cost": bars_and_a_chart_fill_the_screen,
    HEAD: a_narrow_dark_window_saves_the_whole_grid,
}
FULL_SCREEN = {HEAD: a_head_is_read_in_full_screen, TURNED: clocks_fit_the_screen}


def test_a_head_and_the_grid_are_saved_as_chosen_copied_and_fill_the_screen(visit: Callable) -> None:
    page = visit(HEAD)
    only_a_public_address_is_hosted(page)
    a_head_uses_the_screen_and_its_cells_stay_square(page)
    a_grid_fills_the_screen(page)
    a_picture_is_copied(page)
    a_head_is_saved_as_one_chooses(page)


LAST_CELL = """({ view: { d, plot, map } }) => {
  const { left, top, width } = map.getBoundingClientRect(), zoom = width / map.clientWidth;
  const at = [left + zoom * (plot.left + plot.width - 3), top + zoom * (plot.top + plot.height - 3)];
  return { at, high: zoom * plot.height, last: [d.shape[2] - 1, d.shape[3] - 1], selected: [d.query, d.key] };
}"""


def test_what_is_pointed_at_is_still_read_when_the_screen_gets_its_size_late(visit: Callable) -> None:
    page = visit(HEAD)
    page.set_default_timeout(20_000)
    head = shown(page, "head-view")
    opened(page, head)
    page.wait_for_timeout(300)  # until it is painted in that size
    before = head.locator(".hv").evaluate(LAST_CELL)
    page.mouse.move(*before["at"])
    query, key = before["last"]
    assert [query, key] != before["selected"]
    pointed = re.compile(rf"Query {query} .* → key {key} .*")
    expect(head.locator(".read")).to_have_text(pointed, timeout=20_000)
    page.evaluate("Object.defineProperty(window, 'innerHeight', { value: 1080 }); dispatchEvent(new Event('resize'))")
    expect(head.locator(".hv")).to_have_css("zoom", "1.5", timeout=20_000)
    page.wait_for_timeout(300)
    assert head.locator(".hv").evaluate(LAST_CELL)["high"] > 1.1 * before["high"]
    expect(head.locator(".read")).to_have_text(pointed, timeout=20_000)


def test_every_picture_is_saved_with_title_legend_and_link_and_fills_the_screen(turns: Callable) -> None:
    addresses = dict.fromkeys(address for address, *_ in PICTURES.values())
    del addresses[HEAD]
    for address, page in turns([*addresses, *list(OTHERS)]):
        for key in (key for key, (shown_at, *_) in PICTURES.items() if shown_at == address):
            assert_saved_with_title_legend_and_link(page, key, "light")
        for check in (each[address] for each in (FULL_SCREEN, OTHERS) if address in each):
            check(page)
