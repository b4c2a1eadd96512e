"""Helpers for browser tests of the Heads page: a short text, choosing a head, the head shown."""

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
    """Expect the page to settle on this head of this text, and the URL to match."""
    expect(page.get_by_role("heading", name=name)).to_be_visible()
    settle(page)
    expect(the_text(page)).to_have_value(text)
    expect(page.get_by_role("gridcell", selected=True)).to_have_accessible_name(re.compile(f"^{name},"))
    layer, head = name.removeprefix("Layer ").split(", head ")
    assert f"layer={layer}" in page.url and f"head={head}" in page.url
