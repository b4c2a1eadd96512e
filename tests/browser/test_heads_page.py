"""pytest tests/browser/test_heads_page.py: what a person does on the heads page, and what follows on the screen."""

import re
from collections.abc import Callable

from playwright.sync_api import Page, expect

from tests.browser.painted import settle

Visit = Callable[..., Page]


def choose(page: Page, label: str, option: str) -> None:
    """Take an option of a select box by typing its beginning."""
    box = page.get_by_role("combobox", name=label)
    box.fill(option)
    box.press("Enter")
    settle(page)


def part(page: Page, name: str) -> None:
    page.get_by_role("radio", name=name).or_(page.get_by_role("button", name=name, exact=True)).first.click()
    settle(page)


def heading(page: Page, pattern: str):
    return page.get_by_role("heading", name=re.compile(pattern))


def test_a_query_and_a_key_are_explained_as_chosen(visit: Visit) -> None:
    page = visit("heads")
    choose(page, "Query token", "21")
    choose(page, "Key token", "3 ")
    expect(heading(page, "^Query 21 .* key 3 .*score")).to_be_visible()
    expect(page).to_have_url(re.compile("key=3"))
    choose(page, "Key token", "28")
    expect(heading(page, "not allowed, so no weight")).to_be_visible()
