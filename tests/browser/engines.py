"""Windows of Firefox and of WebKit, which is Safari's engine, with what a person does in them.

Firefox is Debian's, driven by Playwright; WebKit is Debian's MiniBrowser, driven by Selenium on a screen that Xvfb
keeps in memory. Elements are found by scripts: the components are in shadow roots, and in a zoomed element WebKit's
driver takes another place for the middle of an element than its pointer.
"""

import base64
import io
import os
import shutil
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from playwright.sync_api import Page, Playwright
from selenium.webdriver import ActionChains, WebKitGTK, WebKitGTKOptions, WebKitGTKService
from selenium.webdriver.common.actions.action_builder import ActionBuilder
from selenium.webdriver.common.keys import Keys

from tests.browser.conftest import TURN_TO

WIDTH, HEIGHT = 1440, 900
SCREEN = "1600x1200x24"
ABOVE = 38  # pixels of MiniBrowser's own bar
PATIENCE = 60.0  # seconds, as in tests/browser/painted.py: against hangs
FIREFOX = ("firefox-esr", "firefox")
MINI_BROWSERS = ("/usr/lib/*/webkit2gtk-4.1", "/usr/lib/*/webkitgtk-6.0", "/usr/libexec/webkit2gtk-4.1")
MOUSE = {"ui.primaryPointerCapabilities": 6, "ui.allPointerCapabilities": 6}  # without a screen, Firefox has none

# In each opened document: elements in shadow roots too, what is under a point, where an element is on the screen,
# whatever the browser measures, and errors that nothing caught.
LIBRARY = """
window.roots = (root = document) =>
  [root, ...[...root.querySelectorAll("*")].flatMap(each => each.shadowRoot ? roots(each.shadowRoot) : [])];
window.all = selector => selector.split(" >>> ").reduce(  // "a >>> b": b inside of a, also in its shadow roots
  (within, part) => within.flatMap(root => roots(root).flatMap(each => [...each.querySelectorAll(part)])), [document]);
window.one = selector => {
  const found = all(selector);
  if (!found.length) throw new Error(`nothing is ${selector}`);
  return found[0];
};
window.under = (x, y, root = document) => {
  const found = root.elementFromPoint(x, y), inside = found?.shadowRoot && found.shadowRoot !== root;
  return inside ? under(x, y, found.shadowRoot) ?? found : found;
};
window.edges = element => {  // left, top, right, bottom in the window, found by looking what is where; 0 out of sight
  const there = (x, y) => {
    let at = under(x, y);
    while (at && at !== element) at = at.parentNode ?? at.host;
    return at === element;
  };
  let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
  for (let y = 2; y < innerHeight; y += 12) for (let x = 2; x < innerWidth; x += 12) if (there(x, y)) {
    [left, top, right, bottom] = [Math.min(left, x), Math.min(top, y), Math.max(right, x), Math.max(bottom, y)];
  }
  if (right < left) return [0, 0, 0, 0];
  const [x, y] = [(left + right) / 2, (top + bottom) / 2];
  for (let i = 0; i < 12; i++) {
    left -= there(left - 1, y), top -= there(x, top - 1), right += there(right + 1, y), bottom += there(x, bottom + 1);
  }
  return [left, top, right + 1, bottom + 1];
};
window.wrong = [];
addEventListener("error", ({ message }) => /^ResizeObserver loop/.test(message) || wrong.push(message));
addEventListener("unhandledrejection", ({ reason }) => wrong.push(String(reason)));
"""
STILL = """() => {
  const over = document.querySelector("[data-testid=stApp][data-test-script-state=notRunning]");
  const waits = all("[data-testid=stSkeleton], [data-testid=stSpinner]");
  const charts = all("[data-testid=stPlotlyChart]:not(:has(.main-svg))");
  const size = roots().reduce((n, root) => n + root.querySelectorAll("*").length, 0);
  return over && !waits.length && !charts.length && size;
}"""
UNLESS_MISSING = """(...values) => {
  try { return (%s)(...values); } catch (error) { if (/^nothing is /.test(error.message)) return false; throw error; }
}"""


class Window(ABC):
    """One window of an engine."""

    def __init__(self, url: str) -> None:
        self.url = url

    @abstractmethod
    def load(self, address: str) -> None: ...

    @abstractmethod
    def run(self, function: str, *values: Any) -> Any:
        """Call a function of JavaScript, also one that returns a promise; return its value."""

    @abstractmethod
    def point(self, x: float, y: float) -> None: ...

    @abstractmethod
    def press_here(self) -> None:
        """Click where the pointer is."""

    @abstractmethod
    def type(self, text: str) -> None: ...

    @abstractmethod
    def apply(self) -> None:
        """Press Ctrl + Enter."""

    @abstractmethod
    def back(self) -> None: ...

    @abstractmethod
    def screenshot(self) -> bytes: ...

    def open(self, address: str) -> None:
        """Load a URL of the app, and wait until it has settled."""
        self.load(f"{self.url}/{address}")
        self.run(f"() => {{ {LIBRARY} }}")
        self.settle()

    def turn(self, address: str) -> None:
        """Open a URL of the app as Back and Forward do, without a load."""
        self.run(TURN_TO, f"/{address}")
        self.settle()

    def settle(self) -> None:
        """Wait until the script has run, and nothing is added any more."""
        before: object = None
        time.sleep(0.2)  # Streamlit sends an edit with a delay

        def still() -> bool:
            nonlocal before
            now, last = self.run(STILL), before
            before = now
            return bool(now) and now == last

        self.wait(still, "the page keeps changing", every=0.15)

    def wait(self, true: Callable[[], Any], otherwise: str, every: float = 0.1) -> Any:
        """Wait until this returns something true, and return that."""
        end = time.monotonic() + PATIENCE
        while not (found := true()):
            assert time.monotonic() < end, f"{otherwise}; {self.wrong()}"
            time.sleep(every)
        return found

    def until(self, script: str, *values: Any) -> Any:
        """Wait until this function returns something true; an element that is not there yet is waited for."""
        return self.wait(lambda: self.run(UNLESS_MISSING % script, *values), script, every=0.2)

    def text(self, selector: str) -> str:
        return self.run("selector => one(selector).textContent", selector)

    def click(self, selector: str) -> None:
        """Click into the middle of an element, once that has come to rest in sight."""
        self.run("selector => one(selector).scrollIntoView({ block: 'center' })", selector)
        before: object = None

        def rests() -> bool:
            nonlocal before
            now, last = self.run("selector => edges(one(selector))", selector), before
            before = now
            return now == last and now[2] > now[0]

        self.wait(rests, f"{selector} keeps moving")
        left, top, right, bottom = before
        self.point((left + right) / 2, (top + bottom) / 2)
        self.press_here()

    def wrong(self) -> list[str]:
        """Return the errors so far that a person or the console shows."""
        return self.run("""() => [...wrong,
          ...all("[data-testid=stException], [data-testid=stAlertContentError]").map(each => each.textContent),
          ...document.body.innerText.match(/BidiComponent Error.*/g) ?? []]""")

    def pixels(self) -> np.ndarray:
        return np.asarray(Image.open(io.BytesIO(self.screenshot())).convert("RGB"))

    def download(self, press: Callable[[], None]) -> tuple[str, bytes]:
        """Return the name and the bytes of the file that a press saves. The browser itself saves none."""
        self.run("""() => {
          window.saved = null;
          HTMLAnchorElement.prototype.click = async function () {
            const bytes = new Uint8Array(await (await fetch(this.href)).arrayBuffer());
            window.saved = [this.download, btoa(Array.from(bytes, byte => String.fromCharCode(byte)).join(""))];
          };
        }""")
        press()
        name, content = self.until("() => saved")
        self.run("() => { delete HTMLAnchorElement.prototype.click; }")
        return name, base64.b64decode(content)


class Firefox(Window):
    def __init__(self, page: Page, url: str) -> None:
        super().__init__(url)
        self._page = page
        self._uncaught: list[str] = []
        page.on("pageerror", lambda error: self._uncaught.append(str(error)))

    def load(self, address: str) -> None:
        self._page.goto(address)

    def run(self, function: str, *values: Any) -> Any:
        return self._page.evaluate(f"values => ({function})(...values)", list(values))

    def point(self, x: float, y: float) -> None:
        self._page.mouse.move(x, y)
        self._at = (x, y)

    def press_here(self) -> None:
        self._page.mouse.click(*self._at)

    def type(self, text: str) -> None:
        self._page.keyboard.type(text)

    def apply(self) -> None:
        self._page.keyboard.press("Control+Enter")

    def back(self) -> None:
        self._page.go_back()

    def screenshot(self) -> bytes:
        return self._page.screenshot()

    def wrong(self) -> list[str]:
        return [*self._uncaught, *super().wrong()]


class WebKit(Window):
    def __init__(self, driver: WebKitGTK, url: str) -> None:
        super().__init__(url)
        self._driver = driver

    def load(self, address: str) -> None:
        self._driver.get(address)

    def run(self, function: str, *values: Any) -> Any:
        done = self._driver.execute_async_script(
            f"""const [answer, ...values] = [[...arguments].pop(), ...[...arguments].slice(0, -1)];
            new Promise(then => then(({function})(...values)))
              .then(value => answer({{ value: value ?? null }}), error => answer({{ error: String(error) }}));""",
            *values,
        )
        assert "error" not in done, done["error"]
        return done["value"]

    def point(self, x: float, y: float) -> None:
        actions = ActionBuilder(self._driver, duration=0)
        actions.pointer_action.move_to_location(round(x), round(y))
        actions.perform()

    def press_here(self) -> None:
        actions = ActionBuilder(self._driver, duration=0)
        actions.pointer_action.pointer_down().pointer_up()
        actions.perform()

    def type(self, text: str) -> None:
        ActionChains(self._driver, duration=0).send_keys(text).perform()

    def apply(self) -> None:
        keys = ActionChains(self._driver, duration=0)
        keys.key_down(Keys.CONTROL).send_keys(Keys.ENTER).key_up(Keys.CONTROL).perform()

    def back(self) -> None:
        self._driver.back()

    def screenshot(self) -> bytes:
        return self._driver.get_screenshot_as_png()


def program(*names: str) -> str:
    """Return the path of the first of these that is installed. Tests fail without one; they are not skipped."""
    found = next(filter(None, map(shutil.which, names)), None)
    assert found, f"None of {', '.join(names)} is installed: .ci/browser installs it on Debian."
    return found


def mini_browser() -> str:
    found = [path for folder in MINI_BROWSERS for path in Path("/").glob(f"{folder[1:]}/MiniBrowser")]
    assert found, "No MiniBrowser of WebKitGTK is installed: .ci/browser installs it on Debian."
    return str(found[0])


@contextmanager
def firefox(playwright: Playwright, url: str, zoom: float = 1) -> Iterator[Window]:
    """Open a window of Firefox. zoom: device pixels per pixel, as where a person has zoomed all pages."""
    browser = playwright.firefox.launch(
        channel="moz-firefox", executable_path=program(*FIREFOX), firefox_user_prefs=MOUSE
    )
    try:
        size = {"width": WIDTH, "height": HEIGHT}
        yield Firefox(browser.new_context(viewport=size, device_scale_factor=zoom).new_page(), url)
    finally:
        browser.close()


@contextmanager
def webkit(url: str) -> Iterator[Window]:
    """Open a window of WebKit on a screen of its own."""
    options = WebKitGTKOptions()
    options.binary_location = mini_browser()
    options.add_argument("--automation")
    with screen() as display:
        service = WebKitGTKService(program("WebKitWebDriver"), env={**os.environ, "DISPLAY": display})
        driver = WebKitGTK(options=options, service=service)
        try:
            driver.set_window_size(WIDTH, HEIGHT + ABOVE)
            driver.set_script_timeout(PATIENCE)
            driver.set_page_load_timeout(PATIENCE)
            yield WebKit(driver, url)
        finally:
            driver.quit()


@contextmanager
def screen() -> Iterator[str]:
    """Run Xvfb; yield the name of its display."""
    command = [program("Xvfb"), "-displayfd", "1", "-screen", "0", SCREEN, "-nolisten", "tcp"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            yield f":{process.stdout.readline().strip()}"
        finally:
            process.terminate()
