"""The controls for what a browser keeps, in the dark and on a phone: what a person reads and presses."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from playwright.sync_api import Page, expect

from attnviz.session.progress import LessonState, Progress
from tests.browser.conftest import NARROW, go
from tests.browser.contrast import texts_on
from tests.browser.painted import settle
from tests.browser.server import Server

HELD = Progress({"one-head": LessonState(7, "2026-11-28")}, drills={"shape_of_scores": (5, 7)})
BORDERS = """group => [...group.querySelectorAll("[role=radio]")].flatMap(each => {
    const { borderLeftColor, borderRightColor } = getComputedStyle(each);
    return [borderLeftColor, borderRightColor];
})"""


def test_a_phone_in_the_dark_loads_a_file_and_reads_what_deletes_it(
    window: Callable[..., Page], server: Server
) -> None:
    page = window(NARROW, scheme="dark")
    go(page, server, "practice")
    page.get_by_text("Save, load or delete your progress").click()
    page.get_by_test_id("stFileUploader").locator("input").set_input_files(
        {"name": "progress.json", "mimeType": "application/json", "buffer": HELD.json().encode()}
    )
    expect(page.get_by_test_id("stToast")).to_contain_text("The file is added to your progress")
    settle(page)
    assert json.loads(page.evaluate("localStorage.getItem('attnviz')")) == json.loads(HELD.json())
    page.get_by_role("button", name="Delete", exact=True).click()
    expect(page.get_by_role("button", name="Delete it")).to_be_visible()
    settle(page)
    found = [text for text in texts_on(page) if "Delete it" in text.text]
    assert len(found) == 1 and found[0].is_readable, found


def test_a_browser_without_storage_is_not_promised_any(window: Callable[..., Page], server: Server) -> None:
    page = window()
    page.add_init_script("Object.defineProperty(window, 'localStorage', { get() { throw new DOMException('') } })")
    go(page, server, "practice")
    expect(page.get_by_text("This browser does not let AttnViz store anything")).to_be_visible()  # nothing was done yet
    expect(page.get_by_text("Your progress stays in this browser")).to_have_count(0)
    expect(page.get_by_test_id("stToast")).to_have_count(0)


def test_each_button_of_a_wrapped_group_has_its_border(visit: Callable[..., Page]) -> None:
    """Streamlit leaves that between a button and the selected one to the latter, also where they are in two lines."""
    page = visit("cost?tab=cards", width=NARROW)
    colours = page.locator(".st-key-control-tab").evaluate(BORDERS)
    assert len(colours) == 16 and not [each for each in colours if each.endswith(", 0)")], colours


def test_a_typed_day_is_kept_by_the_keyboard_alone(visit: Callable[..., Page]) -> None:
    """Streamlit's control sends what was typed once it is left; Enter in it does nothing, and Escape drops it."""
    day = datetime.now(UTC).date() + timedelta(days=40)
    page = visit("practice?tab=aloud", width=NARROW)
    page.get_by_role("button", name="When is your interview?").press("Enter")
    page.get_by_role("spinbutton", name="year").press_sequentially(f"{day:%Y%m%d}")
    page.get_by_role("button", name="Keep this day").press("Enter")
    expect(page.get_by_role("button", name=f"Interview on {day.day} {day:%B}")).to_be_visible()
    expect(page.get_by_role("button", name="Keep this day")).to_be_hidden()
    settle(page)
    assert json.loads(page.evaluate("localStorage.getItem('attnviz')"))["interview"]["day"] == day.isoformat()
