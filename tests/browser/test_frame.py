"""What is round every page: links, the text, the model, going from page to page, the clipboard, downloads."""

import csv
import io
import re
from collections.abc import Callable
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
from playwright.sync_api import Download, Page, expect

from attnviz.session.pages import ALL
from tests.browser.conftest import PAGES
from tests.browser.painted import pixels, settle
from tests.browser.server import Server, serve
from tests.browser.sidebar import open_masks, pick_model, the_model, the_text, write

TEXT = "Ein Mädchen fand 红球."
LINK = f"text={TEXT}&model=own&n_layers=2&n_kv_heads=2&layer=1&head=5"


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


def test_a_text_that_was_typed_is_applied_by_its_button(visit: Callable[..., Page]) -> None:
    page = visit("heads?text=aha")
    the_text(page).fill("one two")
    page.get_by_role("button", name="Apply").click()
    expect(page).to_have_url(re.compile("text=one"))
    settle(page)
    page.get_by_test_id("stSidebar").get_by_text("emoji", exact=True).click()
    expect(the_text(page)).to_have_value(re.compile("The cat"))
    settle(page)
    assert "The cat" in in_address(page)["text"][0]


def test_only_numbers_of_kv_heads_that_divide_are_offered(visit: Callable[..., Page]) -> None:
    slider = visit("heads?model=own&n_heads=6&n_kv_heads=1").get_by_role("slider", name="KV heads")
    offered = []
    for _ in range(4):
        offered.append(slider.get_attribute("aria-valuetext"))
        slider.press("ArrowRight")
        settle(slider.page)
    assert offered == ["1", "2", "3", "6"]


def test_what_belongs_to_a_model_of_ones_own_is_offered_for_that_alone(visit: Callable[..., Page]) -> None:
    page = visit("heads?model=own&n_heads=1&d_model=64")
    expect(page.get_by_role("slider", name="Query heads")).to_have_value("1")
    expect(page.get_by_role("slider", name="KV heads")).to_be_hidden()  # one head: nothing to choose
    pick_model(page, "MLA")
    settle(page)
    for name in ("Layers", "Query heads", "d_model"):
        expect(page.get_by_role("slider", name=name)).to_be_hidden()
    open_masks(page)
    expect(page.get_by_text("The checkpoints were trained causal")).to_be_visible()


def test_settings_changed_one_right_after_the_other_are_all_in_the_address(visit: Callable[..., Page]) -> None:
    page = visit("heads?model=own")
    open_masks(page)
    page.get_by_role("checkbox", name="Causal").press("Space")
    page.get_by_role("slider", name="Sliding window").press("ArrowRight")
    page.get_by_role("slider", name="Sliding window").press("ArrowRight")
    page.get_by_role("checkbox", name="RoPE").press("Space")
    expect(page).to_have_url(re.compile("window=2"))
    settle(page)
    assert {name: in_address(page).get(name) for name in ("causal", "window", "rope")} == {
        "causal": ["0"], "window": ["2"], "rope": ["0"]
    }  # fmt: skip


def test_back_and_forward_restore_the_page_and_its_settings(visit: Callable[..., Page], walk: Callable) -> None:
    page = visit("heads")
    write(page, "one two")
    pick_model(page, "MQA")
    expect(page).to_have_url(re.compile("model=mqa"))
    settle(page)
    page.get_by_role("gridcell", name="Layer 2, head 5,").click()
    expect(page).to_have_url(re.compile("head=5"))
    settle(page)
    walk(page, "rope")
    here = {"text": ["one two"], "model": ["mqa"], "layer": ["2"], "head": ["5"]}
    for go, name, said in (
        (page.go_back, "Heads", here),
        (page.go_back, "Heads", {"text": ["one two"], "model": ["mqa"]}),
        (page.go_forward, "Heads", here),
        (page.go_forward, "RoPE", here),
    ):
        go()
        expect(page.get_by_role("heading", level=1)).to_have_text(name)
        settle(page)
        assert in_address(page) == said
        expect(the_text(page)).to_have_value("one two")
        expect(the_model(page)).to_have_value(re.compile("MQA"))


@pytest.mark.parametrize(
    "old", ["heads?heads_part=rollout", "query_groups?closer=latent", "rope?turning=layouts", "cost?part=speed"]
)
def test_a_link_made_before_there_was_a_tab_opens_what_it_opened(visit: Callable[..., Page], old: str) -> None:
    page, tab = visit(old), old.split("=")[1]
    name = next(each.tabs[tab] for each in ALL if each.path == old.split("?")[0])
    expect(page.get_by_role("radio", name=name, exact=True)).to_be_checked()


def test_the_app_works_without_what_relies_on_streamlits_insides(window: Callable[..., Page]) -> None:
    page = window()
    with serve(env={"ATTNVIZ_WITHOUT": "all"}) as plain:
        page.goto(f"{plain.url}/heads?window=9")
        settle(page)
        pick_model(page, "MQA")
        expect(page.get_by_text("8 query heads read 1 KV head")).to_be_visible()
        settle(page)
        page.get_by_role("gridcell", name="Layer 2, head 5,").click()
        expect(page.get_by_role("heading", name="Layer 2, head 5")).to_be_visible()
        page.get_by_test_id("stSidebar").get_by_role("link", name="RoPE").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("RoPE")
        settle(page)
        assert in_address(page)["window"] == ["9"] and plain.tracebacks() == []


def test_what_is_set_before_the_page_has_come_is_not_lost(window: Callable[..., Page]) -> None:
    page = window()
    with serve() as fresh:  # its first visitor waits for torch
        page.goto(f"{fresh.url}/heads")
        pick_model(page, "MQA")
        expect(page).to_have_url(re.compile("model=mqa"))
        settle(page)
        expect(page.get_by_text("MQA: 8 query heads read 1 KV head")).to_be_visible()
        expect(the_model(page)).to_have_value(re.compile("MQA"))


def test_a_setting_is_one_message_and_leaves_the_title_alone(window: Callable[..., Page], server: Server) -> None:
    page, sent = window(), []
    page.on("websocket", lambda socket: socket.on("framesent", lambda frame: sent.append(frame)))
    page.goto(f"{server.url}/heads")
    settle(page)
    page.get_by_role("heading", level=1).evaluate("(title) => (window.before = title)")
    sent.clear()
    pick_model(page, "GQA-2")
    expect(page.get_by_text("8 query heads read 2 KV heads")).to_be_visible()
    settle(page)
    assert len(sent) == 1 and page.get_by_role("heading", level=1).evaluate("(title) => title === window.before")


def test_the_source_that_is_shown_is_the_module_that_ran(visit: Callable[..., Page]) -> None:
    page = visit("heads?model=mla")
    page.get_by_role("button", name="View source").click()
    expect(page.get_by_role("dialog").get_by_text("class MultiHeadLatentAttention")).to_be_visible()


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
    pick_model(page, "My own settings")
    settle(page)
    link = page.get_by_test_id("stSidebar").get_by_role("link", name="RoPE")
    link.hover()
    assert "model=own" in link.get_attribute("href")
