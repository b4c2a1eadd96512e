"""What is round every page: links, the text, the model, going from page to page, the clipboard, downloads."""

import csv
import io
import re
from collections.abc import Callable
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
from playwright.sync_api import Download, Locator, Page, expect

from tests.browser.conftest import PAGES
from tests.browser.painted import pixels, settle
from tests.browser.server import Server, serve

TEXT = "Ein Mädchen fand 红球."
LINK = f"text={TEXT}&model=own&n_layers=2&n_kv_heads=2&layer=1&head=5"


def the_text(page: Page) -> Locator:
    return page.get_by_label("Text", exact=True)


def write(page: Page, text: str) -> None:
    """Type into the text area and leave it, as a person does."""
    the_text(page).fill(text)
    the_text(page).press("Control+Enter")
    settle(page)


def in_address(page: Page) -> dict[str, list[str]]:
    return parse_qs(urlsplit(page.url).query)


# ---- links


@pytest.mark.parametrize("name", PAGES)
def test_a_link_works_as_the_first_request_after_a_start(window: Callable[..., Page], name: str) -> None:
    address, title = PAGES[name]
    page = window()
    with serve() as fresh:
        page.goto(f"{fresh.url}/{address}?{LINK}")
        settle(page)
        expect(page.get_by_role("heading", level=1)).to_have_text(title)
        expect(the_text(page)).to_have_value(TEXT)
        expect(page.get_by_test_id("stSidebarNav")).to_have_count(0)
        assert fresh.tracebacks() == []


def test_a_notice_names_the_layer_and_the_query_that_are_shown(visit: Callable[..., Page]) -> None:
    page = visit("heads?layer=7&head=31&query=511&key=99")
    notices = page.get_by_test_id("stAlert").all_inner_texts()
    layer, head, query = (int(re.findall(r"\d+", notice)[-1]) for notice in notices[:3])
    expect(page.get_by_role("heading", name=f"Layer {layer}, head {head}")).to_be_visible()
    expect(page.get_by_role("heading", name=f"query {query} “")).to_be_visible()
    expect(page.get_by_label("Query token").first).to_have_value(str(query))
    assert len(notices) == 4 and (layer, head, query) == (3, 7, 21)


def test_the_model_card_is_a_click_away_where_a_model_runs_beyond_its_training(visit: Callable[..., Page]) -> None:
    page = visit("rope?window=5")
    expect(page.get_by_text("a window of 5 tokens")).to_be_visible()
    page.get_by_role("button", name="Model card").click()
    expect(page.get_by_text("seventeen children's books")).to_be_visible()


def test_what_a_link_sets_goes_along_from_page_to_page(
    visit: Callable[..., Page], walk: Callable[[Page, str], None]
) -> None:
    page = visit(f"heads?{LINK}")
    asked = in_address(page)
    for name in ("rope", "cost", "query-groups", "front", "heads"):
        walk(page, name)
        expect(the_text(page)).to_have_value(TEXT)
        assert in_address(page) == asked
    chosen = page.get_by_role("gridcell", selected=True)
    expect(chosen).to_have_accessible_name(re.compile("^Layer 1, head 5, reads KV 1,"))


def test_reloading_and_going_back_keep_what_was_edited(
    visit: Callable[..., Page], walk: Callable[[Page, str], None]
) -> None:
    page = visit("heads")
    write(page, "one two")
    page.reload()
    settle(page)
    expect(the_text(page)).to_have_value("one two")
    walk(page, "rope")
    page.go_back()
    page.get_by_role("heading", level=1, name="Heads").wait_for()
    settle(page)
    expect(the_text(page)).to_have_value("one two")


def test_the_copied_link_reopens_the_view(visit: Callable[..., Page], window: Callable[..., Page]) -> None:
    page = visit(f"heads?{LINK}")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy link").click()
    expect(page.get_by_text("Copied", exact=True)).to_be_visible()
    other = window()
    other.goto(page.evaluate("navigator.clipboard.readText()"))
    settle(other)
    expect(the_text(other)).to_have_value(TEXT)
    assert np.array_equal(pixels(other.get_by_role("grid")), pixels(page.get_by_role("grid")))


# ---- the text and the model


def test_typing_changes_the_maps(visit: Callable[..., Page]) -> None:
    page = visit("heads?text=a")
    expect(page.get_by_text("1 token,")).to_be_visible()
    before = pixels(page.get_by_role("grid"))
    write(page, "a b")
    expect(page.get_by_text("2 tokens,")).to_be_visible()
    assert not np.array_equal(pixels(page.get_by_role("grid")), before)


def test_an_example_is_one_click(visit: Callable[..., Page]) -> None:
    page = visit("heads")
    page.get_by_test_id("stSidebar").get_by_text("中文", exact=True).click()
    settle(page)
    expect(the_text(page)).to_have_value("小女孩在花园里找到一个红色的球。小女孩在花园里找到一个红色的球。")
    assert "text" in in_address(page)


def test_what_was_typed_and_not_applied_stays_until_an_example_takes_its_place(visit: Callable[..., Page]) -> None:
    page = visit("heads?text=aha")
    the_text(page).fill("not applied")
    expect(page.get_by_text("Ctrl + Enter to apply")).to_be_visible()
    page.get_by_role("combobox", name="Model").evaluate("(box) => { box.value = 'mqa'; box.onchange(); }")
    expect(page).to_have_url(re.compile("model=mqa"))
    settle(page)
    expect(the_text(page)).to_have_value("not applied")
    page.get_by_role("button", name="emoji").evaluate("(button) => button.click()")
    expect(the_text(page)).to_have_value(re.compile("The cat"))
    settle(page)
    assert "The cat" in in_address(page)["text"][0]


def test_only_numbers_of_kv_heads_that_divide_are_offered(visit: Callable[..., Page]) -> None:
    slider = visit("heads?model=own&n_heads=6&n_kv_heads=6").get_by_role("slider", name="KV heads")
    offered = []
    for _ in range(4):
        offered.append(slider.get_attribute("aria-valuetext"))
        slider.press("ArrowRight")
        settle(slider.page)
    assert offered == ["6", "3", "2", "1"]


def test_what_belongs_to_a_model_of_ones_own_is_offered_for_that_alone(visit: Callable[..., Page]) -> None:
    page = visit("heads?model=own&n_heads=1&d_model=64")
    expect(page.get_by_role("slider", name="Query heads")).to_have_value("1")
    expect(page.get_by_role("slider", name="KV heads")).to_be_hidden()  # one head: nothing to choose
    page.get_by_role("combobox", name="Model").select_option("MLA · trained")
    settle(page)
    for name in ("Layers", "Query heads", "d_model"):
        expect(page.get_by_role("slider", name=name)).to_be_hidden()
    page.get_by_text("How it runs").click()
    expect(page.get_by_text("The checkpoints were trained causal")).to_be_visible()


def test_settings_changed_one_right_after_the_other_are_all_in_force(visit: Callable[..., Page]) -> None:
    page = visit("heads?model=own")
    page.get_by_text("How it runs").click()
    page.get_by_role("checkbox", name="Causal").evaluate(
        """(box) => {
            const form = box.getRootNode(), slider = form.querySelector("[aria-label^=Sliding]");
            box.click();
            Object.assign(slider, { value: 7 }).dispatchEvent(new Event("change"));
            form.querySelector("[aria-label=Seed]").value = 5;
            form.querySelector("[aria-label=Seed]").dispatchEvent(new Event("change"));
        }"""
    )
    expect(page).to_have_url(re.compile("seed=5"))
    settle(page)
    expect(page.get_by_role("slider", name="Sliding window")).to_have_value("7")
    expect(page.get_by_role("checkbox", name="Causal")).not_to_be_checked()
    assert {name: in_address(page)[name] for name in ("seed", "causal", "window")} == {
        "seed": ["5"], "causal": ["0"], "window": ["7"]
    }  # fmt: skip


def test_a_new_session_that_counts_from_nothing_is_believed(visit: Callable[..., Page]) -> None:
    """As after a restart of the server under an open page."""
    page = visit("heads")
    model = page.get_by_role("combobox", name="Model")
    model.select_option("gqa-2")
    expect(page.get_by_text("8 query heads read 2 KV heads")).to_be_visible()
    settle(page)
    news = {"values": {"model": "mla"}, "said": 0}
    page.evaluate("(detail) => document.dispatchEvent(new CustomEvent('attnviz-in-force', { detail }))", news)
    expect(model).to_have_value("mla")


def test_what_is_set_before_the_page_has_come_is_not_lost(window: Callable[..., Page]) -> None:
    page = window()
    with serve() as fresh:  # its first visitor waits for torch
        page.goto(f"{fresh.url}/heads")
        page.get_by_role("combobox", name="Model").select_option("mqa")
        expect(page).to_have_url(re.compile("model=mqa"))
        settle(page)
        expect(page.get_by_text("MQA: 8 query heads read 1 KV head")).to_be_visible()
        expect(page.get_by_role("combobox", name="Model")).to_have_value("mqa")


def test_a_setting_costs_one_run_and_leaves_the_frame_alone(window: Callable[..., Page], server: Server) -> None:
    page, sent = window(), []
    page.on("websocket", lambda socket: socket.on("framesent", lambda frame: sent.append(frame)))
    page.goto(f"{server.url}/heads")
    settle(page)
    sent.clear()
    page.get_by_test_id("stSidebar").evaluate(
        "(bar) => new MutationObserver((all) => (window.frame = all.length)).observe(bar, "
        "{ subtree: true, childList: true, characterData: true })"
    )
    page.get_by_role("combobox", name="Model").select_option("gqa-2")
    expect(page.get_by_text("8 query heads read 2 KV heads")).to_be_visible()
    settle(page)
    assert len(sent) == 1 and page.evaluate("window.frame ?? 0") == 0


def test_the_source_that_is_shown_is_the_module_that_ran(visit: Callable[..., Page]) -> None:
    page = visit("heads?model=mla")
    page.get_by_role("button", name="View source").click()
    expect(page.get_by_text("class MultiHeadLatentAttention")).to_be_visible()


# ---- the grid


def test_a_click_and_the_keys_select_a_head(visit: Callable[..., Page]) -> None:
    page = visit("heads")
    page.get_by_role("gridcell", name="Layer 2, head 3,").click()
    settle(page)
    expect(page.get_by_role("heading", name="Layer 2, head 3")).to_be_visible()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    settle(page)
    expect(page.get_by_role("heading", name="Layer 3, head 4")).to_be_visible()
    assert (in_address(page)["layer"], in_address(page)["head"]) == (["3"], ["4"])


def test_pointing_at_a_cell_names_it_in_every_head_without_asking_the_server(
    window: Callable[..., Page], server: Server
) -> None:
    page, sent = window(), []
    page.on("websocket", lambda socket: socket.on("framesent", lambda frame: sent.append(frame)))
    page.goto(f"{server.url}/heads")
    settle(page)
    assert sent
    sent.clear()
    page.get_by_role("gridcell").nth(9).locator(".map").hover(position={"x": 3, "y": 60})
    expect(page.get_by_text("Layer 1, H1 reads KV 0. Query")).to_be_visible()
    marks = page.get_by_role("gridcell").locator(".mark")
    assert len({(mark.bounding_box()["width"], mark.is_visible()) for mark in marks.all()}) == 1
    assert sent == []


# ---- downloads


@pytest.fixture
def downloads(visit: Callable[..., Page]) -> Callable[[str], bytes]:
    """downloads("CSV"): the bytes of the first chart of the heads page, saved as that."""
    page = visit("heads")
    page.get_by_text("Zoom, numbers and downloads").click()
    settle(page)

    def save(kind: str) -> bytes:
        with page.expect_download() as started:
            page.get_by_role("button", name=kind, exact=True).first.click()
        download: Download = started.value
        return download.path().read_bytes()

    return save


def test_a_chart_can_be_saved_in_four_ways(downloads: Callable[[str], bytes]) -> None:
    rows = list(csv.reader(io.StringIO(downloads("CSV").decode())))
    assert len(rows) > 29 and len({len(row) for row in rows}) == 1
    assert downloads("PNG").startswith(b"\x89PNG")
    svg = downloads("SVG")
    assert b"<svg" in svg[:200]
    assert b"fill: rgb(91, 95, 106)" in svg and b"fill: rgb(128, 132, 149)" not in svg  # as accessible.css has it
    assert b"plotly" in downloads("HTML").lower()


@pytest.mark.parametrize("address", ["", "heads"])
def test_a_setting_changed_is_in_the_links_that_lead_on(visit: Callable[..., Page], address: str) -> None:
    """For whoever opens one in another tab."""
    page = visit(address)
    page.get_by_role("combobox", name="Model").select_option("My own settings · untrained")
    settle(page)
    link = page.get_by_test_id("stSidebar").get_by_role("link", name="RoPE")
    link.hover()
    assert "model=own" in link.get_attribute("href")
