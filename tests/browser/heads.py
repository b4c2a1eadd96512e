"""The heads page as the browser tests meet it: a short text, and which head is chosen of it."""

import re
from urllib.parse import urlencode

from playwright.sync_api import Page, expect

from tests.browser.painted import settle
from tests.browser.sidebar import the_text

TEXT = "A dog met another dog."
VIEW = "heads?" + urlencode({"text": TEXT, "layer": 2, "head": 5})


def choose(page: Page, name: str) -> None:
    page.get_by_role("gridcell", name=f"{name},").click()


def shows(page: Page, name: str, text: str = TEXT) -> None:
    """The page has come to rest on this head of this text, and its address says so."""
    expect(page.get_by_role("heading", name=name)).to_be_visible()
    settle(page)
    expect(the_text(page)).to_have_value(text)
    expect(page.get_by_role("gridcell", selected=True)).to_have_accessible_name(re.compile(f"^{name},"))
    layer, head = name.removeprefix("Layer ").split(", head ")
    assert f"layer={layer}" in page.url and f"head={head}" in page.url
