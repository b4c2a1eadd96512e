"""Firefox and WebKit, the engine of Safari: every page and tab is drawn without an error, and a person can use them.

Chromium has the other tests of this folder. Both are Debian's packages; where one is missing, these tests fail.
"""

import io
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Playwright

from attnviz.server.scripts import LOADER
from attnviz.session.pages import ALL, PAGES
from tests.browser.engines import Window, firefox, webkit
from tests.browser.heads import TEXT
from tests.browser.painted import painted_fraction
from tests.browser.server import Server
from tests.browser.test_bars import CUT
from tests.browser.test_practice_aloud import CARD, MICROPHONE

pytestmark = pytest.mark.filterwarnings("ignore:setting remote_server_addr:DeprecationWarning")  # selenium's
FIRST = ("query_groups?tab=equal", "heads?tab=family")  # several components of one kind come at once
TABS = [f"{page.path}?tab={tab}" if tab else page.path for page in ALL for tab in page.tabs or [""]]
ZOOM = 1.5  # of the browser itself, in Firefox: so a drawing is read and fits there too


@pytest.fixture(scope="module", params=["firefox", "webkit"])
def window(request: pytest.FixtureRequest, playwright: Playwright, server: Server) -> Iterator[Window]:
    """A window of each engine."""
    with firefox(playwright, server.url, ZOOM) if request.param == "firefox" else webkit(server.url) as opened:
        yield opened


# ---- every page and tab

# Canvases that stay blank once they are in sight, and charts without a mark. A canvas is looked at as 24 x 24 pixels.
BLANK = """async () => {
  const looking = Object.assign(document.createElement("canvas"), { width: 24, height: 24 });
  const look = looking.getContext("2d", { willReadFrequently: true });
  const painted = canvas => {
    if (!canvas.width || !canvas.height) return false;
    look.clearRect(0, 0, 24, 24);
    look.drawImage(canvas, 0, 0, 24, 24);
    const seen = new Uint32Array(look.getImageData(0, 0, 24, 24).data.buffer);
    return seen.some(pixel => pixel !== seen[0]);
  };
  const marked = chart => chart.querySelector(".main-svg :is(.trace, .hm, .shapelayer path, image)");
  const charts = all("[data-testid=stPlotlyChart]");
  const drawings = roots().slice(1).flatMap(root => [...root.querySelectorAll("canvas")]);
  const blank = [];
  for (const each of [...drawings, ...charts].filter(each => each.getClientRects().length)) {
    const drawn = each.localName === "canvas" ? painted : marked, end = performance.now() + 5000;
    each.scrollIntoView({ block: "center" });
    while (!drawn(each) && performance.now() < end) await new Promise(then => setTimeout(then, 50));
    if (!drawn(each)) blank.push(each.ariaLabel ?? each.className ?? each.localName);
  }
  return [blank, drawings.length + charts.length];
}"""
# Columns that are wider than the row they are in.
WIDER = """() => all("[data-testid=stColumn]").filter(each => {
  const [column, row] = [each, each.parentElement].map(box => box.getBoundingClientRect());
  return column.width && (column.right > row.right + 2 || column.left < row.left - 2);
}).map(each => each.textContent.slice(0, 40))"""
OPEN_TAB = "name => one('.st-key-control-tab [role=radio][aria-checked=true]').textContent === name"


def test_every_page_and_tab_is_drawn_without_an_error(window: Window) -> None:
    addresses = [*FIRST, *(each for each in TABS if each not in FIRST)]
    wrong, drawings = {}, 0
    for address in addresses:
        path, _, tab = address.partition("?tab=")
        window.open(address) if address in FIRST else window.turn(address)
        window.until("name => document.querySelector('h1')?.textContent === name", PAGES[path].name)
        if tab:
            window.until(OPEN_TAB, PAGES[path].tabs[tab])
        blank, n = window.run(BLANK)
        blank = [each for each in blank if not each.endswith("(1, 1)")]  # one number, so one colour
        drawings += n
        if (wider := window.run(WIDER)) or blank or window.wrong():
            wrong[address] = blank, wider, window.wrong()
        window.run("() => { wrong.length = 0; document.querySelector('[data-testid=stMain]').scrollTo(0, 0); }")
    assert wrong == {}
    assert drawings > 2 * len(addresses)


# ---- what a component is sent as


ONE_AFTER_THE_OTHER = """async loader => {
  const url = source => URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
  const script = url(`await new Promise(then => setTimeout(then, 100)); window.drawn = [];
    export default ({ data }) => {
      if (data < 0) throw new Error("no");
      drawn.push(data);
      return () => drawn.push(-data);
    };`);
  const sent = url(loader.replace("{url}", script)), draw = async data => (await import(sent)).default({ data });
  const ends = await Promise.all([1, 2, 3].map(draw));
  ends[0]();
  const error = await draw(-1).catch(({ message }) => message);
  return [drawn, error];
}"""


def test_a_component_draws_in_order_once_its_script_has_come_with_its_cleanup_and_its_errors(window: Window) -> None:
    window.load(f"{window.url}/_stcore/health")
    window.run("() => { window.wrong = []; window.roots = () => [document]; window.all = () => []; }")
    loader = LOADER.format(files='["{url}"]', folder="").replace("`/${file}`", "file")
    assert window.run(ONE_AFTER_THE_OTHER, loader) == [[1, 2, 3, -1], "no"]


# ---- a person

TEXT_AREA = "[data-testid=stSidebar] textarea"
A_HEAD = "[role=gridcell][aria-label^='Layer 2, head 5,'] .map"
HEAD = ".st-key-head-view >>> .hv"
IN_THE_CLICK = """() => {
  let clicking = false;
  addEventListener("click", () => { clicking = true; setTimeout(() => (clicking = false)); }, { capture: true });
  navigator.clipboard.write = async ([item]) => {
    window.during = clicking;
    window.copied = await (await item.getType("text/plain")).text();
  };
}"""
MENU = "getComputedStyle(document.querySelector('[data-testid=stMainMenu]')).visibility"
SCROLL = "to => document.querySelector('[data-testid=stMain]').scrollTo(0, to)"


def test_a_person_types_clicks_goes_back_saves_presents_and_decodes(window: Window) -> None:
    window.open("heads")
    a_text_is_typed(window)
    a_head_is_clicked_and_back_shows_the_one_before(window)
    the_menu_is_gone_while_the_page_is_scrolled(window)
    the_link_is_copied_in_the_click(window)
    a_picture_is_saved(window)
    a_cell_is_read_in_full_screen(window)
    drawings_are_read_while_presenting_and_fit(window)
    a_step_with_formulas_is_whole(window)
    decode_plays(window)
    an_answer_is_recorded(window)  # last: after it WebKit may not load another document
    assert window.wrong() == []


def a_text_is_typed(window: Window) -> None:
    window.click(TEXT_AREA)
    window.run("area => one(area).select()", TEXT_AREA)
    window.type(TEXT)
    window.apply()
    window.until("text => one('.tv .text').textContent.replaceAll('\\u00a0', ' ') === text", TEXT)
    window.until("() => new URLSearchParams(location.search).get('text')?.startsWith('A dog')")
    window.settle()


def a_head_is_clicked_and_back_shows_the_one_before(window: Window) -> None:
    title = "title => one('.st-key-head-view >>> .title').textContent.startsWith(title)"
    before = re.match(r"Layer \d+, head \d+", window.text(f"{HEAD} .title"))[0]
    assert before != "Layer 2, head 5"
    window.click(A_HEAD)
    window.until(title, "Layer 2, head 5")
    window.until("() => /layer=2&head=5/.test(location.search)")
    window.settle()
    window.back()
    window.until(title, before)
    window.settle()


def the_menu_is_gone_while_the_page_is_scrolled(window: Window) -> None:
    """It would lie on the top right corner of a drawing."""
    for place, look in ((0, "visible"), (500, "hidden"), (0, "visible")):
        window.run(SCROLL, place)
        window.until(f"() => {MENU} === '{look}'")


def the_link_is_copied_in_the_click(window: Window) -> None:
    """Safari allows a copy only then; the text itself may come later."""
    window.run(IN_THE_CLICK)
    window.click(".st-key-copy-link >>> .link")
    assert window.until("() => window.copied") == window.run("() => location.href")
    assert window.run("() => during")


def a_picture_is_saved(window: Window) -> None:
    saved = {kind: window.download(lambda kind=kind: window.click(f"{HEAD} [aria-label='Save as {kind}']"))
             for kind in ("SVG", "PNG")}  # fmt: skip
    assert [name.rpartition(".")[2] for name, _ in saved.values()] == ["svg", "png"]
    svg, image = ET.fromstring(saved["SVG"][1]), Image.open(io.BytesIO(saved["PNG"][1]))
    assert image.size == tuple(2 * float(svg.get(side)) for side in ("width", "height"))
    rgb = np.asarray(image.convert("RGB"))
    middle = rgb[len(rgb) // 4 : -len(rgb) // 4]  # the map, not only the texts around it
    assert painted_fraction(middle) > 0.1


# ---- drawings that are enlarged

# Where a cell is in the window, from where its canvas is on the screen.
CELL = """(query, key) => {
  const { plot, map } = one(".st-key-head-view >>> .hv").view, [left, top, right] = edges(map.querySelector("canvas"));
  const zoom = (right - left) / map.clientWidth;
  const x = plot.left + (key + 0.5) * plot.width / plot.S, y = plot.top + (query + 0.5) * plot.height / plot.T;
  return [left + zoom * x, top + zoom * y];
}"""
CELL_OF_A_HEAD = """(query, key) => {
  const { d, heads } = one(".hg").view, [, , N, M] = d.shape;
  const [left, top, right, bottom] = edges(heads.find(each => each.layer === 1 && each.head === 1).map);
  return [left + (key + 0.5) * (right - left) / M, top + (query + 0.5) * (bottom - top) / N];
}"""
BAR_OF_A_KEY = """(stage, key) => {
  const path = one(".st-key-head-path >>> .path"), { way } = path.closest(".hv").view;
  const [left, top, right] = edges(path.querySelector("canvas")), zoom = (right - left) / path.clientWidth;
  return [left + zoom * (way.left + (key + 0.5) * way.width / way.n), top + 30];
}"""
ENTRY = """(row, column) => {
  const { canvas } = one(".sw").view, { label, top, wide, high } = canvas.geometry, [left, up, right] = edges(canvas);
  const zoom = (right - left) / canvas.clientWidth;
  return [left + zoom * (label + (column + 0.5) * wide), up + zoom * (top + (row + 0.5) * high)];
}"""
PRESENTED = {  # the element's key: URL, where a cell is, cells, where it is read, what is read
    "head-view": ("heads?", CELL, [(5, 2), (0, 0)], ".st-key-head-view >>> .read", "Query {} .* key {} "),
    "head-grid": ("heads?", CELL_OF_A_HEAD, [(5, 2), (3, 1)], ".hg .read", "Layer 1, H1 .* Query {} .* key {} "),
    "head-path": ("heads?query=5&", BAR_OF_A_KEY, [(0, 1), (0, 4)], ".st-key-head-path >>> .readout", "Key {1} "),
    "source-walk": ("steps?step=2&", ENTRY, [(3, 7), (0, 2)], ".sw .read", "row {} .* column {}"),
}
FITS = """key => {
  const [left, top, right, bottom] = edges(one(`.st-key-${key}`)), bar = edges(one("[data-testid=stBottom]"));
  const fills = right - left > 0.7 * innerWidth || bottom > bar[1] - 80;
  return fills && left >= 0 && right <= innerWidth + 1 && bottom <= bar[1] + 1;
}"""


def drawings_are_read_while_presenting_and_fit(window: Window) -> None:
    for key, (address, *cells) in PRESENTED.items():
        window.turn(f"{address}present=1&only={key}")
        window.until("key => one(`.st-key-${key}`).checkVisibility({ opacityProperty: true })", key)
        window.until(FITS, key)
        window.settle()
        cells_are_read(window, *cells)


def cells_are_read(window: Window, place: str, cells: list[tuple[int, int]], read: str, says: str) -> None:
    for cell in cells:
        window.point(*window.run(place, *cell))
        wanted = says.format(*cell)
        window.wait(lambda wanted=wanted: re.match(wanted, window.text(read)), f"{wanted}: {window.text(read)}")


def a_cell_is_read_in_full_screen(window: Window) -> None:
    window.click(f"{HEAD} [aria-label='Full screen']")
    window.until("() => document.fullscreenElement && one('.hv').view && innerWidth === outerWidth")
    window.settle()
    cells_are_read(window, *PRESENTED["head-view"][1:])
    window.run("() => document.exitFullscreen()")
    window.until("() => !document.fullscreenElement")
    window.settle()


def a_step_with_formulas_is_whole(window: Window) -> None:
    window.open("rope?lesson=rope-pictures&lesson_step=7")
    window.until("() => document.querySelector('.st-key-bar-read .katex')")
    window.settle()
    for width in range(460, 720, 20):  # of the text, in windows of other widths
        window.run("width => { one('.st-key-lesson-text').style.maxWidth = `${width}px`; }", width)
        assert not window.run(CUT), width


def decode_plays(window: Window) -> None:
    window.turn("decode")
    window.click(".dp [data-go=play]")
    window.until("() => all('.dp .text .new').length >= 3")


NO_DEVICE = """name => {
  const getUserMedia = async () => { throw new DOMException("", name); };
  Object.defineProperty(navigator, "mediaDevices", { configurable: true, value: { getUserMedia } });
}"""
RECORDED = """async () => {
  const audio = one(".spt-audio"), { type, size } = await (await fetch(audio.src)).blob();
  return [type, size, audio.getBoundingClientRect().height];
}"""


def an_answer_is_recorded(window: Window) -> None:
    window.turn(CARD)
    window.until("() => !!one('.spt-start').onclick")
    for error in ("NotFoundError", "OverconstrainedError"):  # the latter is WebKit's where there is no device
        window.run(NO_DEVICE, error)
        window.run("() => { one('.spt-note').textContent = ''; }")
        window.click(".spt-record")
        window.until("() => /found no microphone/.test(one('.spt-note').textContent)")
    window.run(MICROPHONE)
    window.click(".spt-record")
    window.until("() => one('.spt-time').textContent === '0:01'")
    window.click(".spt-record")
    window.until("() => one('.spt-audio').src")
    kind, size, height = window.run(RECORDED)
    assert re.match("audio/(mp4|ogg|webm)", kind) and size > 100
    assert height < 60  # a player with a row of buttons, not the 150 px that Firefox gives one in a grid
