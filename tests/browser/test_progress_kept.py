"""The controls for the progress that a browser keeps, in the dark and on a phone: what a person reads and presses."""

import json
from collections.abc import Callable

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


def test_each_button_of_a_wrapped_group_has_its_border(visit: Callable[..., Page]) -> None:
    """Streamlit leaves that between a button and the selected one to the latter, also where they are in two lines."""
    page = visit("cost?tab=cards", width=NARROW)
    colours = page.locator(".st-key-control-tab").evaluate(BORDERS)
    assert len(colours) == 16 and not [each for each in colours if each.endswith(", 0)")], colours
