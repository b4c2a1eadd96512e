"""The sidebar as a person uses it: the text, the model, the mask."""

from playwright.sync_api import Locator, Page, expect

from tests.browser.painted import settle

MASKS = "Mask and position settings"


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
    the_model(page).click()
    page.get_by_role("option", name=name).click()


def open_masks(page: Page) -> None:
    page.get_by_test_id("stSidebar").get_by_text(MASKS).click()
    expect(page.get_by_role("slider", name="Sliding window")).to_be_visible()
    page.wait_for_timeout(400)  # it opens slowly
