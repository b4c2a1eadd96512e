"""Latencies for the user: from a key press to the repaint, from the start to the first paint; and bytes sent.

All are compared with minimal Streamlit apps (floor.py, empty.py) in the same browser, in alternating turns.
"""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter
from urllib.parse import urlencode

from playwright.sync_api import Browser

from attnviz.text import Tokenizer
from tests.bench.tab import IDLE, Chromium, Tab, browsing
from tests.browser.painted import PATIENCE, settle
from tests.browser.server import ROOT, serve

HERE = Path(__file__).parent
N_HEADS = 8
WINDOW = "input[aria-label^=Sliding]"
PRESSES = 12
STARTS = 5
LOADING = "import torch; from attnviz.checkpoints import load_checkpoint; load_checkpoint('gqa-4')"
AT_STEP = """step => {
  const look = document.querySelector(step === 4 ? ".st-key-lines" : ".st-key-head-view");
  const said = [...document.querySelectorAll(".st-key-lesson-tools p")].map((each) => each.textContent).join();
  return look && said.includes(`Step ${step} of`) && getComputedStyle(look).outlineStyle === "solid";
}"""
STORY = "Once upon a time there was a little girl who lived near the forest with her mother and a small brown dog. "

# Records when the grid was last painted and when the page last changed, each after the frame that shows it.
WATCH = """
window.painted = window.changed = 0;
const shown = (name) => requestAnimationFrame(() => requestAnimationFrame(() => (window[name] = performance.now())));
for (const name of ["putImageData", "clearRect"]) { // a step back takes rows away
  const paint = CanvasRenderingContext2D.prototype[name];
  CanvasRenderingContext2D.prototype[name] = function (...all) {
    paint.apply(this, all);
    if (this.canvas.closest(".hg, .dp")) shown("painted");
    shown("changed");
  };
}
new MutationObserver((all) => {
  if (all.some((m) => m.target.parentElement?.closest("[data-testid=stMain]"))) shown("changed");
}).observe(document, { subtree: true, childList: true, characterData: true, attributes: true });
for (const event of ["keydown", "pointerdown"])
  document.addEventListener(event, () => (window.pressed = performance.now()), true);
window.longest = 0;
new PerformanceObserver((all) => all.getEntries().forEach((e) => (window.longest = Math.max(longest, e.duration))))
  .observe({ type: "longtask" });
"""


# Plays 100 tokens at 30 per second, most of which the server has yet to generate: milliseconds per token, and the
# longest time between two frames.
PLAYED = """new Promise((done) => {
  const [root] = deep(".dp"), written = () => root.querySelectorAll(".text .new").length;
  const [rate, play, run] = ["select", "[data-go=play]", "[data-go=run]"].map((css) => root.querySelector(css));
  const first = written();
  rate.value = "30";
  root.querySelector(".some input").value = 100;
  let began = 0, longest = 0, last = performance.now();
  const frame = (now) => {
    longest = Math.max(longest, now - last);
    last = now;
    if (!began && written() > first) [began, longest] = [now, 0];
    if (!play.textContent.includes("play") || !began) return requestAnimationFrame(frame);
    done([(now - began) / (written() - first - 1), longest]);
  };
  requestAnimationFrame((now) => { last = now; run.click(); requestAnimationFrame(frame); });
})"""


def ratios(browser: Browser) -> dict[str, float]:
    """Return all ratios; their names say what is divided by what."""
    results = {}
    with serve() as app, serve(HERE / "floor.py") as floor, browsing(WATCH) as alone:
        still = alone.open(floor.url)
        for n_tokens in (32, 128, 512):
            results |= key_press(alone, app.url, still, n_tokens)
        results |= decoding(alone, app.url, still)
        results |= all_heads(alone, app.url, still) | kv_heads(alone, app.url, still) | bytes_sent(browser, app.url)
        results |= next_step(browser, app.url) | embedded(browser, app.url)
        results |= first_picture(browser, app.url)
    return results | first_paint(browser) | deep_link(browser)


# ---- from a key press to the repaint


def key_press(alone: Chromium, url: str, floor: Tab, n_tokens: int) -> dict[str, float]:
    """Measure a change of the window for one layer."""
    tab = alone.open(f"{url}/heads?{urlencode(untrained(n_tokens))}")
    grid, everything = in_turns(tab, window_of(tab), floor)
    tab.send("Page.close")
    return {f"grid / floor, T={n_tokens}": grid, f"page / floor, T={n_tokens}": everything}


def all_heads(alone: Chromium, url: str, floor: Tab) -> dict[str, float]:
    """Measure 4 layers of 8 heads at T = 256: a change of the window, and of the head, a fragment rerun."""
    tab = alone.open(f"{url}/heads?{urlencode(untrained(256, n_layers=4))}")
    window = window_of(tab)
    press(tab, window[0])
    tab.evaluate("window.longest = 0")  # excludes the opening of the page
    grid, everything = in_turns(tab, window, floor)
    heads = [lambda n=n: tab.click("[role=gridcell]", n) for n in (9, 21)]
    _, chosen = in_turns(tab, heads, floor)
    longest = tab.evaluate("window.longest")
    tab.send("Page.close")
    return {
        "grid / floor, 4 x 8, T=256": grid, "page / floor, 4 x 8, T=256": everything,
        "another head / floor, 4 x 8, T=256": chosen, "longest task, ms, 4 x 8, T=256": longest,
    }  # fmt: skip


def kv_heads(alone: Chromium, url: str, floor: Tab) -> dict[str, float]:
    """Measure the buttons of the Query grouping page, on the default text."""
    tab = alone.open(f"{url}/query_groups")
    moves = [lambda n=n: tab.click(".st-key-kv-heads [role=radio]", n) for n in range(2)]
    _, everything = in_turns(tab, moves, floor)
    tab.send("Page.close")
    return {"KV heads' buttons / floor": everything}


def decoding(alone: Chromium, url: str, floor: Tab) -> dict[str, float]:
    """Measure the Decode page: a step cached in the browser, one computed by the server, and the fastest playback."""
    tab = alone.open(f"{url}/decode")
    tab.wait_until("deep('.dp .candidates button').length > 0")
    known = [lambda n=n: tab.click(".dp [data-go]", n) for n in (3, 1)]  # one token on, one back
    step, _ = in_turns(tab, known, floor)
    others = [lambda: tab.click(".dp .candidates tr:not(.chosen) button", 0)]
    computed, _ = in_turns(tab, others, floor)
    tab.send("Page.bringToFront")
    each, longest = tab.evaluate(PLAYED, wait=True)
    tab.send("Page.close")
    return {
        "step known / floor": step, "step computed / floor": computed,
        "ms per token while playing": each, "longest frame while playing, ms": longest,
    }  # fmt: skip


def window_of(tab: Tab) -> list[Callable[[], None]]:
    """Return a key press that changes the window: a new mask, a new trace, all maps."""
    tab.evaluate("[...document.querySelectorAll('summary')].find((e) => e.textContent.includes('Mask')).click()")
    tab.wait_until(f"deep({WINDOW!r}).length > 0")
    time.sleep(1)  # it opens slowly
    return [lambda: tab.press(WINDOW, "ArrowLeft")]


def in_turns(tab: Tab, moves: list[Callable[[], None]], floor: Tab) -> tuple[float, float]:
    """Return the times to the grid and to the whole page, divided by the floor's slider: medians of alternating turns.

    The first turn fills the caches.
    """
    found = []
    for turn in range(PRESSES + 1):
        least = press(floor, lambda: floor.press("input[type=range]", "ArrowLeft"))[1]
        found.append((*press(tab, moves[turn % len(moves)]), least))
    grid, everything, floor_s = (median(times) for times in zip(*found[1:], strict=True))
    return grid / floor_s, everything / floor_s


def untrained(n_tokens: int, n_layers: int = 1) -> dict[str, object]:
    """Return the link to untrained layers of 8 heads with a window, on a text of exactly this many tokens."""
    tokenizer = Tokenizer()
    text = tokenizer.decode(tokenizer.encode(STORY * (n_tokens // 8))[:n_tokens])
    assert len(tokenizer.encode(text)) == n_tokens
    return {"model": "own", "n_layers": n_layers, "n_heads": N_HEADS, "window": n_tokens - 1, "text": text}


def press(tab: Tab, move: Callable[[], None]) -> tuple[float, float]:
    """Return milliseconds from a key press or click to the repaint of the grid and of the whole page."""
    tab.send("Page.bringToFront")
    move()
    time.sleep(0.8)  # does not query the browser meanwhile
    tab.wait_until(IDLE)
    tab.wait_until("performance.now() - Math.max(window.pressed, window.changed) > 500")
    return tuple(tab.evaluate("[window.painted - window.pressed, window.changed - window.pressed]"))


# ---- the bytes between


def bytes_sent(browser: Browser, url: str) -> dict[str, float]:
    """Return bytes per weight in the grid's message and in all messages of a change: one layer of 8 heads, T = 128."""
    page, received = browser.new_page(), []
    page.on("websocket", lambda socket: socket.on("framereceived", lambda frame: received.append(frame)))
    page.goto(f"{url}/heads?{urlencode(untrained(128))}")
    settle(page)
    page.get_by_text("Mask and position settings").click()
    received.clear()
    page.get_by_role("slider", name="Sliding window").press("ArrowLeft")
    settle(page)
    page.close()
    weights = N_HEADS * 128**2
    return {
        "grid bytes / weight": sum(len(f) for f in received if b'"kvNames"' in f) / weights,
        "page bytes / weight": sum(map(len, received)) / weights,
    }


# ---- a lesson


def next_step(browser: Browser, url: str) -> dict[str, float]:
    """Measure the next step of a lesson, from the key press to its text and ring, against opening its link."""
    page, opened, moved = browser.new_page(), [], []
    page.set_default_timeout(PATIENCE)
    for _ in range(STARTS):
        began = perf_counter()
        page.goto(f"{url}/heads?tab=lines&query=19&lesson=one-head&lesson_step=5")
        page.wait_for_function(AT_STEP, arg=5)
        opened.append(perf_counter() - began)
        settle(page)
        page.keyboard.press("k")
        page.wait_for_function(AT_STEP, arg=4)
        settle(page)
        began = perf_counter()
        page.keyboard.press("j")
        page.wait_for_function(AT_STEP, arg=5)
        moved.append(perf_counter() - began)
    page.close()
    return {"next step of a lesson / opening its link": median(moved[1:]) / median(opened[1:])}


# ---- a page's first picture


def first_picture(browser: Browser, url: str) -> dict[str, float]:
    """Measure the time from the address to the maps of Linear and sparse, against Query grouping's diagram."""
    page, took = browser.new_page(), {"linear?model=hybrid": [], "query_groups": []}
    page.set_default_timeout(PATIENCE)
    for _ in range(2 * STARTS):
        for address, picture in zip(took, (".lm canvas", ".gd svg .head"), strict=True):
            page.goto(f"{url}/{address}")
            page.locator(picture).last.wait_for()
            took[address].append(page.evaluate("performance.now()"))
            settle(page)
    page.close()
    ours, theirs = (median(times[1:]) for times in took.values())
    return {"first picture of Linear and sparse / Query grouping": ours / theirs}


# ---- one drawing alone


def embedded(browser: Browser, url: str) -> dict[str, float]:
    """Measure the time from the address to the painted grid: embedded alone, against an app with only this grid."""
    ours, theirs = [], []
    page = browser.new_page()
    page.set_default_timeout(PATIENCE)
    page.add_init_script(WATCH)
    with serve(HERE / "figure.py") as figure:
        for _ in range(5 * STARTS):  # turns of the same code differ by 10 %
            for address, took in (
                (f"{url}/heads?embed=true&only=head-grid", ours),
                (f"{figure.url}?embed=true", theirs),
            ):
                page.goto(address)
                page.wait_for_function("window.painted")
                took.append(page.evaluate("window.painted"))
                settle(page)
    page.close()
    return {"embedded figure / empty app plus its data": median(ours[1:]) / median(theirs[1:])}


# ---- from the start to the first paint


def first_paint(browser: Browser) -> dict[str, float]:
    """Measure the time from server start to the page's title and to the full page, with an empty browser cache."""
    ours, theirs = [], []
    for _ in range(STARTS):
        ours.append(seconds_to_paint(browser, "app.py", maps=True))
        theirs.append(seconds_to_paint(browser, HERE / "empty.py", maps=False))
    title, whole = (median(times) for times in zip(*ours, strict=True))
    least = median(title for title, _ in theirs)
    return {"front page's title / empty app": title / least, "whole front page / empty app": whole / least}


def deep_link(browser: Browser) -> dict[str, float]:
    """Measure the Heads page as the first request of a new server, against its necessary parts alone."""
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
