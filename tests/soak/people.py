"""Many simulated users: sessions and browsers, each with its own text; what they saw and how long they waited."""

from __future__ import annotations

import asyncio
import os
import random
import re
import signal
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from urllib.parse import urlencode

from playwright.async_api import Browser, Page, async_playwright
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

from attnviz.text import Tokenizer
from tests.browser.server import CHROMIUM_ARGS, chromium
from tests.soak.session import Session, connected

APP = Path(__file__).parents[2] / "attnviz"
PAGES = ("", "heads", "query_groups", "rope", "cost")
CHANGES_ON_A_PAGE = 5
BUSY = (2.0, 5.0)  # seconds from one change to the next
RUNNING, TURN = 0.25, 0.2  # share of time in which browsers may run, and seconds per period
Pair = tuple[str, str]  # two words that identify a text: a model may predict one of them, but not both
PREDICTED = re.compile(rb'"next":.*?"query":', re.DOTALL)  # a model's next tokens; an untrained model predicts any word
ALL_TEXT = """() => {
    const said = [], look = (root) => {
        for (const e of root.querySelectorAll("*")) {
            said.push(e.value ?? "", e.ariaLabel ?? "");
            if (e.shadowRoot) look(e.shadowRoot);
        }
        said.push(root.textContent);
    };
    look(document.body);
    return said.join(" ");
}"""  # includes input values, aria labels and shadow roots; does not serialise the page's markup
FILLER = "Once upon a time there was a {0} who met the {1} by the river. The {0} was happy and the {1} laughed. "


@dataclass
class Seen:
    """Results of all users: seconds of every change and opening by page, errors, bytes sent."""

    words: Sequence[Pair]
    seconds: dict[str, list[float]] = field(default_factory=dict)
    opened: dict[str, list[float]] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)
    n_bytes: int = 0
    n_in_browsers: int = 0  # changes in browsers, not included in `seconds`

    @property
    def n_changes(self) -> int:
        return sum(map(len, self.seconds.values()))

    def changed(self, page: str, seconds: float) -> None:
        self.seconds.setdefault(page, []).append(seconds)

    def came(self, page: str, seconds: float) -> None:
        self.opened.setdefault(page, []).append(seconds)

    def look_at(self, frames: Iterable[bytes], own: Pair, where: str) -> None:
        """Search websocket messages for exceptions and other users' words."""
        for frame in frames:
            self.n_bytes += len(frame)
            self.look_for_others(frame, own, where)
            element = ForwardMsg.FromString(frame).delta.new_element
            if element.WhichOneof("type") == "exception":
                self.wrong.append(f"{where}: {element.exception.message}")

    def look_for_others(self, sent: bytes, own: Pair, where: str) -> None:
        sent = PREDICTED.sub(b"", sent)
        found = [pair for pair in self.words if pair != own and all(word.encode() in sent for word in pair)]
        self.foreign += [f"{where}: {' and '.join(pair)} in the session of {' and '.join(own)}" for pair in found]


def words_for(n: int) -> list[Pair]:
    """Return n pairs of one-token words that do not occur in the app, none a substring of another."""
    tokenizer, words = Tokenizer(), []
    app_text = FILLER + "".join(path.read_text() for path in APP.rglob("*") if path.suffix in (".py", ".txt", ".js"))
    app_text = " ".join(set(re.findall("[a-z]{5,}", app_text)))  # each of its words once: a tenth to search
    for token in reversed(range(tokenizer.vocab_size)):
        word = tokenizer.decode([token]).removeprefix(" ")
        is_new = re.fullmatch("[a-z]{5,}", word) and word not in app_text
        if is_new and not any(word in other or other in word for other in words):
            words.append(word)
        if len(words) == 2 * n:
            break
    return list(zip(words[:n], words[n : 2 * n], strict=True))


def link(pair: Pair, n_times: int = 2) -> str:
    return urlencode({"text": (FILLER * n_times).format(*pair)})


# ---- over the websocket


async def alone(url: str, n_changes: int, seen: Seen, chance: random.Random) -> None:
    """Visit all pages twice in one session; the first round fills the caches and is not counted."""
    session = await connected(url, link(seen.words[0]))
    for n, counted in ((CHANGES_ON_A_PAGE, Seen(seen.words)), (n_changes, seen)):
        for page in PAGES:
            counted.came(page, await session.open(page))
            for _ in range(n):
                await _one_change(session, page, counted, chance)
    await session.socket.close()


async def person(
    url: str, pair: Pair, until: float, pause: tuple[float, float], seen: Seen, chance: random.Random
) -> None:
    """Simulate one user in a session: from page to page, with some changes on each."""
    await asyncio.sleep(chance.uniform(0, pause[0]))
    session = await connected(url, link(pair, chance.choice((1, 1, 2, 4))))
    visit = chance.randrange(len(PAGES))
    while perf_counter() < until:
        page, visit = PAGES[visit % len(PAGES)], visit + 1
        seen.came(page, await session.open(page))
        seen.look_at(session.frames, pair, f"{page or 'front'} opened")
        for _ in range(CHANGES_ON_A_PAGE):
            next_one = perf_counter() + chance.uniform(*pause)
            await _one_change(session, page, seen, chance, pair)
            await asyncio.sleep(max(0.0, next_one - perf_counter()))
    await session.socket.close()


async def _one_change(session: Session, page: str, seen: Seen, chance: random.Random, pair: Pair | None = None) -> None:
    label, seconds = await session.change(chance)
    seen.changed(page, seconds)
    seen.look_at(session.frames, pair or seen.words[0], f"{page or 'front'}, {label}")


# ---- in a browser


async def watcher(browser: Browser, url: str, pair: Pair, until: float, seen: Seen, chance: random.Random) -> None:
    """Simulate one user in a real browser: sliders by keyboard, pages by the links in the sidebar."""
    page = await (await browser.new_context(viewport={"width": 1440, "height": 900})).new_page()
    page.set_default_timeout(120_000)
    page.on("pageerror", lambda error: seen.wrong.append(f"in the browser: {error}"))
    visit = chance.randrange(len(PAGES))
    await page.goto(f"{url}/{PAGES[visit]}?{link(pair)}")
    while perf_counter() < until:
        name = PAGES[visit % len(PAGES)]
        await _settled(page)
        for _ in range(CHANGES_ON_A_PAGE):
            began = perf_counter()
            control = chance.choice(await page.get_by_role("slider").all() or [page.locator("body")])
            await control.press(chance.choice(("ArrowLeft", "ArrowRight")))
            await _settled(page)
            seen.n_in_browsers += 1
            seen.wrong += await page.get_by_test_id("stException").all_inner_texts()
            seen.look_for_others((await page.evaluate(ALL_TEXT)).encode(), pair, f"{name} in the browser")
            await asyncio.sleep(max(0.0, began + chance.uniform(*BUSY) - perf_counter()))
        visit += 1
        await page.get_by_test_id("stPageLink").nth(visit % len(PAGES)).click()
    await page.context.close()


async def _settled(page: Page) -> None:
    await page.wait_for_timeout(200)  # an edit takes a moment to leave the browser
    await page.locator("[data-testid=stApp][data-test-script-state=notRunning]").wait_for()


# ---- all together


@asynccontextmanager
async def last_in_line(program: str) -> AsyncIterator[str]:
    """Run a program at idle priority on one core for a share of the time: real users' browsers do not run on the
    server, and four that draw a page take both of its cores for seconds.

    nice is not enough: Chromium sets its own niceness, which has no effect under the idle policy. The idle policy is
    not enough: on both cores they slow both down. A separate core is not enough if two cores are hyper-threads of one,
    as rented ones often are: while one is busy, the other takes up to twice as long for the same work.
    """
    core = max(os.sched_getaffinity(0))
    with TemporaryDirectory() as folder:
        script, started = Path(folder) / "idle", Path(folder) / "started"
        script.write_text(
            f'#!/bin/sh\necho $$ >>"{started}"\nexec chrt --idle 0 taskset --cpu-list {core} "{program}" "$@"\n'
        )
        script.chmod(0o755)
        taking_turns = asyncio.create_task(_stop_and_go(started))
        try:
            yield str(script)
        finally:
            taking_turns.cancel()
            _signal(started, signal.SIGCONT)  # a stopped process cannot be closed


async def _stop_and_go(started: Path) -> None:
    """Let the started processes and their children run for RUNNING of every TURN seconds."""
    while True:
        _signal(started, signal.SIGCONT)
        await asyncio.sleep(TURN * RUNNING)
        _signal(started, signal.SIGSTOP)
        await asyncio.sleep(TURN * (1 - RUNNING))


def _signal(started: Path, number: signal.Signals) -> None:
    for pid in started.read_text().split() if started.exists() else ():
        with suppress(ProcessLookupError):
            os.killpg(int(pid), number)


async def together(
    url: str, n_sessions: int, n_browsers: int, minutes: float, pause: tuple[float, float], seen: Seen
) -> None:
    """Run all users concurrently, each with other words, until the time is over."""
    until = perf_counter() + 60 * minutes
    async with async_playwright() as playwright, last_in_line(chromium()) as program:
        browser = await playwright.chromium.launch(executable_path=program, args=list(CHROMIUM_ARGS))
        words = iter(seen.words)
        everybody = [person(url, next(words), until, pause, seen, random.Random(i)) for i in range(n_sessions)]
        everybody += [watcher(browser, url, next(words), until, seen, random.Random(-i)) for i in range(n_browsers)]
        for result in await asyncio.gather(*everybody, return_exceptions=True):
            if result is not None:
                seen.wrong.append(repr(result))
        await browser.close()
