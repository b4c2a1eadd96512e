"""No page sends a request to any host but the server."""

from collections.abc import Callable
from urllib.parse import urlsplit

from playwright.sync_api import Page

from tests.browser.conftest import go, turn_to
from tests.browser.painted import settle
from tests.browser.server import Server

ADDRESSES = {  # {URL: buttons, expanders and popovers to open}
    "": ["View source"],
    "heads?tab=cross": ["Zoom, numbers and downloads"],
    "heads?window=5&layer=99&text=小女孩在花园里": ["Model card"],  # with notices
    "rope?tab=longer": ["Numbers and downloads"],
    "cost?tab=published": ["Numbers and downloads"],
    "cost?tab=facts": [],
}


def test_no_other_host_is_asked_for_anything(window: Callable[..., Page], server: Server) -> None:
    page, asked = window(), []
    page.context.on("request", lambda request: asked.append(request.url))
    page.on("websocket", lambda socket: asked.append(socket.url))
    go(page, server, "")
    for address, labels in ADDRESSES.items():
        turn_to(page, address)
        for label in labels:
            page.get_by_text(label, exact=True).first.click()
            settle(page)
            page.keyboard.press("Escape")
        asked += page.evaluate("[...document.querySelectorAll('link[rel~=icon]')].map((link) => link.href)")
    hosts = {urlsplit(url).netloc for url in asked if urlsplit(url).scheme not in ("data", "blob")}
    assert hosts == {urlsplit(server.url).netloc}
    assert page.evaluate(ICON) == ["data:image/svg+xml;", True]


# Playwright hides favicon requests: the test above checks the icon's URL, this one its image.
ICON = """async () => {
    const image = Object.assign(new Image(), { src: document.querySelector("link[rel~=icon]").href });
    await image.decode();
    return [image.src.slice(0, 19), image.naturalWidth === image.naturalHeight];
}"""
