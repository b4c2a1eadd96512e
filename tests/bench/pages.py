"""What a person waits for: from a key press to the repaint, from the start to the first paint, and the bytes between.

Everything is put against the least Streamlit can do (floor.py, empty.py) in the same browser, taking turns.
"""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter
from urllib.parse import urlencode

from playwright.sync_api import Browser, Locator, Page

from attnviz.text import Tokenizer
from tests.browser.painted import PATIENCE, settle
from tests.browser.server import ROOT, serve

HERE = Path(__file__).parent
N_HEADS = 8
PRESSES = 12
STARTS = 5
LOADING = "import torch; from attnviz.checkpoints import load_checkpoint; load_checkpoint('gqa-4')"
STORY = "Once upon a time there was a little girl who lived near the forest with her mother and a small brown dog. "

# Notes when the grid was last painted and when anything on the page last changed, each after the frame that shows it.
WATCH = """
window.painted = window.changed = 0;
const shown = (name) => requestAnimationFrame(() => requestAnimationFrame(() => (window[name] = performance.now())));
const put = CanvasRenderingContext2D.prototype.putImageData;
CanvasRenderingContext2D.prototype.putImageData = function (...all) {
  put.apply(this, all);
  if (this.canvas.closest(".hg")) shown("painted");
  shown("changed");
};
new MutationObserver((all) => {
  if (all.some((m) => m.target.parentElement?.closest("[data-testid=stMain]"))) shown("changed");
}).observe(document, { subtree: true, childList: true, characterData: true, attributes: true });
for (const event of ["keydown", "pointerdown"])
  document.addEventListener(event, () => (window.pressed = performance.now()), true);
window.longest = 0;
new PerformanceObserver((all) => all.getEntries().forEach((e) => (window.longest = Math.max(longest, e.duration))))
  .observe({ type: "longtask" });
"""


def ratios(browser: Browser) -> dict[str, float]:
    """All of it; the names say what is divided by what."""
    with serve() as app, serve(HERE / "floor.py") as floor:
        still = open_page(browser, floor.url)
        results = {}
        for n_tokens in (32, 128, 512):
            results |= key_press(browser, app.url, still, n_tokens)
        results |= all_heads(browser, app.url, still) | kv_heads(browser, app.url, still)
    return results | first_paint(browser) | deep_link(browser)


def open_page(browser: Browser, url: str) -> Page:
    page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
    page.set_default_timeout(PATIENCE)
    page.add_init_script(WATCH)
    page.goto(url)
    settle(page)
    return page


# ---- from a key press to the repaint


def key_press(browser: Browser, url: str, floor: Page, n_tokens: int) -> dict[str, float]:
    """Another window for one layer."""
    page = open_page(browser, f"{url}/heads?{urlencode(untrained(n_tokens))}")
    received = frames_received(page)
    grid, everything = in_turns(window_of(page), floor, before=received.clear)
    results = {f"grid / floor, T={n_tokens}": grid, f"page / floor, T={n_tokens}": everything}
    if n_tokens == 128:
        weights = PRESSES * N_HEADS * n_tokens**2
        results["grid bytes / weight"] = sum(len(f) for f in received if b'"kvNames"' in f) / weights
        results["page bytes / weight"] = sum(map(len, received)) / weights
    page.context.close()
    return results


def all_heads(browser: Browser, url: str, floor: Page) -> dict[str, float]:
    """4 layers of 8 heads at T = 256: another window, and another head, which reruns its part alone."""
    page = open_page(browser, f"{url}/heads?{urlencode(untrained(256, n_layers=4))}")
    window = window_of(page)
    press(window)
    page.evaluate("window.longest = 0")  # what a page costs when it is opened is not asked here
    grid, everything = in_turns(window, floor)
    heads = [page.get_by_role("gridcell").nth(i) for i in (9, 21)]
    _, chosen = in_turns(heads, floor)
    longest = page.evaluate("window.longest")
    page.context.close()
    return {
        "grid / floor, 4 x 8, T=256": grid, "page / floor, 4 x 8, T=256": everything,
        "another head / floor, 4 x 8, T=256": chosen, "longest task, ms, 4 x 8, T=256": longest,
    }  # fmt: skip


def kv_heads(browser: Browser, url: str, floor: Page) -> dict[str, float]:
    """The slider of the query-groups page, on the default text."""
    page = open_page(browser, f"{url}/query_groups")
    slider = page.get_by_test_id("stMain").get_by_role("slider").first
    _, everything = in_turns(slider, floor, keys=("ArrowRight", "ArrowLeft"))
    page.context.close()
    return {"KV heads' slider / floor": everything}


def window_of(page: Page) -> Locator:
    """A step of the window's width: another mask, another trace, all maps anew."""
    page.get_by_text("How it runs").click()
    return page.get_by_role("slider", name="Sliding window")


def in_turns(
    ours: Locator | list[Locator],
    floor: Page,
    keys: tuple[str, ...] = ("ArrowLeft",),
    before: Callable[[], object] = lambda: None,
) -> tuple[float, float]:
    """Time to the grid and to all of the page, divided by what the floor's slider takes: medians of turns.

    The first turn pays for what is then kept; `before` is called after it.
    """
    targets, least, found = (ours if isinstance(ours, list) else [ours]), floor.get_by_role("slider"), []
    for turn in range(PRESSES + 1):
        if turn == 1:
            before()
        found.append((*press(targets[turn % len(targets)], keys[turn % len(keys)]), press(least)[1]))
    grid, everything, floor_s = (median(times) for times in zip(*found[1:], strict=True))
    return grid / floor_s, everything / floor_s


def untrained(n_tokens: int, n_layers: int = 1) -> dict[str, object]:
    """The link to untrained layers of 8 heads on a text of exactly so many tokens, seen through a window."""
    tokenizer = Tokenizer()
    text = tokenizer.decode(tokenizer.encode(STORY * (n_tokens // 8))[:n_tokens])
    assert len(tokenizer.encode(text)) == n_tokens
    return {"model": "own", "n_layers": n_layers, "n_heads": N_HEADS, "window": n_tokens - 1, "text": text}


def press(target: Locator, key: str = "ArrowLeft") -> tuple[float, float]:
    """Milliseconds from a key on a slider, or a click on a head, until the grid and all of the page are shown anew."""
    page = target.page
    page.bring_to_front()
    if target.get_attribute("role") == "gridcell":
        target.click()
    else:
        target.press(key)
    settle(page)
    page.wait_for_function("performance.now() - Math.max(window.pressed, window.changed) > 500")
    return tuple(page.evaluate("[window.painted - window.pressed, window.changed - window.pressed]"))


def frames_received(page: Page) -> list[bytes]:
    """What the server sends from the next connection on; the page is loaded again to make one."""
    frames = []
    page.on("websocket", lambda socket: socket.on("framereceived", lambda frame: frames.append(frame)))
    page.reload()
    settle(page)
    return frames


# ---- from the start to the first paint


def first_paint(browser: Browser) -> dict[str, float]:
    """From starting the server to the page's title, and to all it shows, in a browser that has cached nothing."""
    ours, theirs = [], []
    for _ in range(STARTS):
        ours.append(seconds_to_paint(browser, "app.py", maps=True))
        theirs.append(seconds_to_paint(browser, HERE / "empty.py", maps=False))
    title, whole = (median(times) for times in zip(*ours, strict=True))
    least = median(title for title, _ in theirs)
    return {"front page's title / empty app": title / least, "whole front page / empty app": whole / least}


def deep_link(browser: Browser) -> dict[str, float]:
    """The heads page as the first thing asked of a new server, against what it cannot do without, by itself."""
    ours, theirs = [], []
    for _ in range(STARTS):
        ours.append(seconds_to_paint(browser, "app.py", maps=True, address="heads")[1])
        began = perf_counter()
        subprocess.run([sys.executable, "-c", LOADING], cwd=ROOT, check=True)
        theirs.append(perf_counter() - began)
    return {"deep link to heads / import torch, load": median(ours) / median(theirs), "deep_link_s": median(ours)}


def seconds_to_paint(browser: Browser, script: str | Path, *, maps: bool, address: str = "") -> tuple[float, float]:
    with serve(script) as server:
        page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
        page.set_default_timeout(PATIENCE)
        page.add_init_script(WATCH)
        page.goto(f"{server.url}/{address}")
        page.get_by_role("heading", level=1).wait_for()
        title = perf_counter() - server.started
        page.wait_for_function("maps => !maps || window.painted", arg=maps)
        whole = perf_counter() - server.started
        page.context.close()
    return title, whole
