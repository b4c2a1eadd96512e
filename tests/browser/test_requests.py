"""Nothing is asked of any host but the server, on any page."""

from collections.abc import Callable
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page

from tests.browser.painted import settle
from tests.browser.server import Server

ADDRESSES = {
    "front": [""],
    "heads": [
        "heads?tab=cross",
        "heads?window=5&layer=99&text=小女孩在花园里",  # with notices, and the model card
    ],
    "rope": ["rope?tab=longer"],
    "cost": ["cost?tab=published", "cost?tab=facts"],
}
OPENED = ("View source", "Model card", "Numbers and downloads", "Zoom, numbers and downloads")


@pytest.mark.parametrize("name", ADDRESSES)
def test_no_other_host_is_asked_for_anything(window: Callable[..., Page], server: Server, name: str) -> None:
    page, asked, opened = window(), [], set()
    page.context.on("request", lambda request: asked.append(request.url))
    page.on("websocket", lambda socket: asked.append(socket.url))
    for address in ADDRESSES[name]:
        page.goto(f"{server.url}/{address}")
        settle(page)
        for label in OPENED:
            if (what := page.get_by_text(label, exact=True).first).count():
                what.click()
                settle(page)
                page.keyboard.press("Escape")
                opened.add(label)
        asked += page.evaluate("[...document.querySelectorAll('link[rel~=icon]')].map((link) => link.href)")
    hosts = {urlsplit(url).netloc for url in asked if urlsplit(url).scheme not in ("data", "blob")}
    assert hosts == {urlsplit(server.url).netloc}
    assert len(opened) >= (1 if name == "front" else 2)


def test_the_icon_is_painted(visit: Callable[..., Page]) -> None:
    """Playwright hides what a browser asks for an icon: its address is looked at above, and its picture here."""
    page = visit()
    painted = """async () => {
        const image = Object.assign(new Image(), { src: document.querySelector("link[rel~=icon]").href });
        await image.decode();
        return [image.src.slice(0, 19), image.naturalWidth === image.naturalHeight];
    }"""
    assert page.evaluate(painted) == ["data:image/svg+xml;", True]
