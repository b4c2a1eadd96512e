"""pytest tests/browser/test_heads_page.py: what a person does on the heads page, and what follows on the screen."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import NARROW
from tests.browser.painted import overflow, painted_fraction, pixels, settle

Visit = Callable[..., Page]


def choose(page: Page, label: str, option: str) -> None:
    """Take an option of a select box by typing its beginning."""
    box = page.get_by_role("combobox", name=label)
    box.fill(option)
    box.press("Enter")
    settle(page)


def add(page: Page, label: str, option: str) -> None:
    """Take one more option of a box that holds several."""
    box = page.get_by_role("combobox", name=label)
    box.click()
    box.press_sequentially(option)
    page.get_by_role("option", name=option, exact=True).click()
    page.keyboard.press("Escape")
    settle(page)


def part(page: Page, name: str) -> None:
    page.get_by_role("radio", name=name).or_(page.get_by_role("button", name=name, exact=True)).first.click()
    settle(page)


def heading(page: Page, pattern: str):
    return page.get_by_role("heading", name=re.compile(pattern))


def test_a_query_and_a_key_are_explained_as_chosen(visit: Visit) -> None:
    page = visit("heads?heads_part=number")
    choose(page, "Query token", "21")
    choose(page, "Key token", "3 ")
    expect(heading(page, "^Query 21 .* key 3 .*score")).to_be_visible()
    expect(page).to_have_url(re.compile("key=3"))
    choose(page, "Key token", "28")
    expect(heading(page, "not allowed, so no weight")).to_be_visible()


def test_a_click_in_the_grid_changes_the_head_and_its_parts_alone(visit: Visit) -> None:
    page = visit("heads?heads_part=does")
    page.get_by_role("gridcell", name=re.compile("^Layer 2, head 5,")).first.click()
    settle(page)
    expect(heading(page, "^Layer 2, head 5 reads KV head 2")).to_be_visible()
    expect(heading(page, "^Layer 2, head 5: ")).to_be_visible()
    expect(heading(page, "heads? rests? mostly on the first token")).to_be_visible()
    expect(page).to_have_url(re.compile("head=5"))


def test_a_pinned_head_stands_beside_the_selected_one_in_lines_and_grid(visit: Visit) -> None:
    page = visit("heads?layer=0&head=0")
    add(page, "Pinned heads", "L1 H5")
    expect(heading(page, "for L0 H0, L1 H5")).to_be_visible()
    expect(page.get_by_text("· pinned")).to_have_count(1)
    page.get_by_role("button", name="L1 H5", exact=True).first.click()  # its chip in the line view
    expect(page).to_have_url(re.compile("pinned=1.5"))
    part(page, "Side by side")
    maps = [page.locator(f".st-key-chart-side-{head}").bounding_box() for head in ("0-0", "1-5")]
    assert maps[0]["y"] == maps[1]["y"] and maps[0]["x"] + maps[0]["width"] <= maps[1]["x"]
    assert all(painted_fraction(pixels(page.locator(f".st-key-chart-side-{head}"))) > 0.05 for head in ("0-0", "1-5"))


def test_a_mask_is_put_in_force_by_a_click_and_the_whole_page_follows(visit: Visit) -> None:
    page = visit("heads?heads_part=masks")
    page.get_by_role("gridcell", name=re.compile("^First 3 are padding, head 1,")).click()
    settle(page)
    expect(page.get_by_text("The first 3 tokens are padding.")).to_be_visible()
    page.get_by_role("gridcell", name=re.compile("^Window of 8, first 1 kept, head 1,")).click()
    settle(page)
    expect(page.get_by_text("are padding.")).to_have_count(0)
    expect(page).to_have_url(re.compile("window=8"))
    expect(page).to_have_url(re.compile("n_sinks=1"))


def test_heads_are_switched_off_one_and_several(visit: Visit) -> None:
    page = visit("heads?heads_part=off&layer=0&head=0")
    expect(heading(page, "^Without L0 H0, the loss goes from")).to_be_visible()
    add(page, "Heads switched off", "L2 H1")
    add(page, "Heads switched off", "L3 H7")
    expect(heading(page, "^Without L2 H1 and L3 H7, the loss goes from")).to_be_visible()
    expect(heading(page, "issed")).to_be_visible()
    part(page, "their mean")
    expect(page).to_have_url(re.compile("off_way=mean"))


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("Rollout", "^Rolled through"),
        ("MHA to MLA", "^Layer . with fewer"),
        ("A second text", "of the second text with weight"),
        ("Score, mask, softmax", "^Three stages"),
    ],
)
def test_a_part_is_opened_on_a_phone_and_stays_inside_the_window(visit: Visit, name: str, says: str) -> None:
    page = visit("heads", width=NARROW, scheme="dark")
    part(page, name)
    expect(heading(page, says)).to_be_visible()
    assert overflow(page) <= 0
