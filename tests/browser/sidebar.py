"""Helpers that use the sidebar as a user would: text, model, mask."""

from contextlib import suppress

from playwright.sync_api import Locator, Page, TimeoutError, expect

from tests.browser.painted import settle


def the_text(page: Page) -> Locator:
    return page.get_by_label("Text", exact=True)


def write(page: Page, text: str) -> None:
    """Type into the text area and apply it."""
    the_text(page).fill(text)
    the_text(page).press("Control+Enter")
    settle(page)


def the_model(page: Page) -> Locator:
    return page.get_by_role("combobox", name="Model", exact=True)


def pick_model(page: Page, name: str) -> None:
    """Choose "MQA", "MLA", … or "My own settings"; does not wait for the page."""
    take_option(the_model(page), page.get_by_role("option", name=name))


def take_option(box: Locator, option: Locator, typed: str = "", touch: bool = False) -> None:
    """Open a Streamlit select box and choose an option; reopen it once if a scroll or a rerun closes it."""
    for _ in range(4):
        if not option.is_visible():
            box.tap() if touch else box.click()
            if typed:
                box.fill(typed)
        with suppress(TimeoutError):
            return option.tap(timeout=5000) if touch else option.click(timeout=5000)
    raise AssertionError(f"the list closed four times: {option}")


def to_page(page: Page, name: str) -> Locator:
    """Return the link to the page with this name."""
    return page.get_by_test_id("stSidebar").get_by_role("link", name=name, exact=True)


def open_masks(page: Page) -> None:
    """Open the expander of the mask settings, if it is closed."""
    if page.get_by_role("slider", name="Sliding window").is_visible():
        return
    page.get_by_test_id("stSidebar").get_by_text("Mask and position settings").click()
    expect(page.get_by_role("slider", name="Sliding window")).to_be_visible()
    page.wait_for_timeout(400)  # the expander's animation
