"""Frame of every page: links, text, model, navigation between pages, clipboard, downloads."""

import csv
import io
import re
from collections.abc import Callable
from urllib.parse import parse_qs, urlsplit

import numpy as np
from playwright.sync_api import Page, expect

from attnviz.session.examples import EXAMPLES
from tests.browser.conftest import NARROW, PAGES, count_messages, go
from tests.browser.painted import pixels, settle
from tests.browser.server import Server, serve
from tests.browser.sidebar import open_masks, pick_model, the_model, the_text, to_page, write

TEXT = "Ein Mädchen fand 红球."
LINK = f"text={TEXT}&model=own&n_layers=2&n_kv_heads=2&layer=1&head=5"


def in_address(page: Page) -> dict[str, list[str]]:
    return parse_qs(urlsplit(page.url).query)


# ---- links


def test_links_work_as_the_first_requests_after_a_start(tab: Callable[..., Page]) -> None:
    with serve() as fresh:
        pages = {"front": tab(), "cost": tab()}
        for name, page in pages.items():
            page.goto(f"{fresh.url}/{PAGES[name][0]}?{LINK}", wait_until="commit")
        for page in pages.values():
            pick_model(page, "MQA")  # while the server is still importing torch
        for name, page in pages.items():
            expect(page).to_have_url(re.compile("model=mqa"))
            settle(page)
            expect(page.get_by_role("heading", level=1)).to_have_text(PAGES[name][1])
            expect(the_text(page)).to_have_value(TEXT)
            expect(the_model(page)).to_have_value(re.compile("MQA"))
            expect(page.get_by_test_id("stMain")).to_contain_text("MQA")
            expect(page.get_by_test_id("stSidebarNav")).to_have_count(0)
        assert fresh.tracebacks() == []


def test_a_link_goes_along_to_other_pages_and_tabs_and_is_copied(
    visit: Callable[..., Page], walk: Callable[[Page, str], None], server: Server
) -> None:
    page = visit(f"heads?{LINK}")
    asked = in_address(page)
    for name in ("rope", "front", "heads"):
        walk(page, name)
        expect(the_text(page)).to_have_value(TEXT)
        assert in_address(page) == asked
    chosen = page.get_by_role("gridcell", selected=True)
    expect(chosen).to_have_accessible_name(re.compile("^Layer 1, head 5, reads KV 1,"))
    the_copied_link_reopens_the_view(page, server)
    a_link_opened_in_another_tab_takes_the_settings_along(page, walk)


def the_copied_link_reopens_the_view(page: Page, server: Server) -> None:
    """Also of a text that was only typed: the click on the button applies it."""
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    the_text(page).fill(f"{TEXT} More.")
    page.get_by_role("button", name="Copy link").click()
    expect(page.get_by_text("Copied", exact=True)).to_be_visible()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.startswith(f"{server.url}/heads?")
    settle(page)
    page.mouse.move(2, 2)
    grid = pixels(page.get_by_role("grid"))
    page.goto("about:blank")
    go(page, server, copied.removeprefix(f"{server.url}/"))
    expect(the_text(page)).to_have_value(f"{TEXT} More.")
    expect(page.locator(".st-key-tab-mark")).to_have_count(0)  # it names no tab, so it opens at the top
    assert page.get_by_test_id("stMain").evaluate("main => main.scrollTop") == 0
    assert np.array_equal(pixels(page.get_by_role("grid")), grid)


def a_link_opened_in_another_tab_takes_the_settings_along(page: Page, walk: Callable[[Page, str], None]) -> None:
    walk(page, "front")
    pick_model(page, "MQA")
    links_say(page, "mqa")
    doors = page.get_by_test_id("stMain").get_by_role("link", name="Cost")
    expect(doors).to_have_attribute("href", re.compile("model=mqa"))
    with page.context.expect_page() as opened:
        to_page(page, "Query grouping").click(button="middle")
    other = opened.value
    expect(other.get_by_role("heading", level=1)).to_have_text("Query grouping")
    settle(other)
    for each in (page, other):
        expect(the_model(each)).to_have_value(re.compile("MQA"))


def links_say(page: Page, model: str) -> None:
    expect(to_page(page, "Query grouping")).to_have_attribute("href", re.compile(f"model={model}"))
    settle(page)


TABS_ON_TOP = "Math.abs(document.querySelector('.st-key-control-tab').getBoundingClientRect().top - 66) < 2"


def test_a_link_to_a_tab_opens_at_the_tabs_and_one_to_a_step_of_a_lesson_at_the_top(visits: Callable) -> None:
    lesson, seen_anyway = "query_groups?lesson=many-heads&tab=alike", "practice?tab=write"
    for address, page in visits(["query_groups?tab=alike", seen_anyway, lesson], width=NARROW):
        main = page.get_by_test_id("stMain")
        if address == "query_groups?tab=alike":
            page.wait_for_function(TABS_ON_TOP)
            page.mouse.move(100, 500)
            page.mouse.wheel(0, -100_000)  # what the user does is not undone
            page.wait_for_function("document.querySelector('[data-testid=stMain]').scrollTop === 0")
            page.wait_for_timeout(500)
        elif address == seen_anyway:
            expect(page.get_by_role("heading", level=1)).to_be_in_viewport(ratio=1)
            page.wait_for_timeout(500)
        else:
            expect(page.locator(".st-key-tab-mark")).to_have_count(0)
        assert main.evaluate("main => main.scrollTop") == 0, address


# ---- the text and the model


def a_notice_names_the_layer_and_the_query_that_are_shown(page: Page) -> None:
    notices = page.get_by_test_id("stAlert").all_inner_texts()
    layer, head, query = (int(re.findall(r"\d+", notice)[-1]) for notice in notices[:3])
    expect(page.get_by_role("heading", name=f"Layer {layer}, head {head}")).to_be_visible()
    expect(page.get_by_role("heading", name=f"From score to weight: query {query} “")).to_be_visible()
    expect(page.get_by_label("Query token").first).to_have_value(str(query))
    assert len(notices) == 4 and (layer, head, query) == (3, 7, 21)


def the_model_card_is_a_click_away_where_a_model_runs_beyond_its_training(page: Page) -> None:
    expect(page.get_by_text("a window of 5 tokens")).to_be_visible()
    page.get_by_role("button", name="Model card").click()
    expect(page.get_by_text("seventeen children's books")).to_be_visible()
    page.keyboard.press("Escape")


def a_text_is_typed_and_applied_or_an_example_is_taken(page: Page) -> None:
    expect(page.get_by_text("1 token,")).to_be_visible()
    before = pixels(page.get_by_role("grid"))
    write(page, "a b")
    expect(page.get_by_text("2 tokens,")).to_be_visible()
    assert not np.array_equal(pixels(page.get_by_role("grid")), before)
    the_text(page).fill("one two")
    page.get_by_role("button", name="Apply").click()
    expect(page).to_have_url(re.compile("text=one"))
    settle(page)
    the_text(page).fill("not applied")
    page.get_by_role("radio", name="中文", exact=True).click()
    expect(the_text(page)).to_have_value(EXAMPLES["中文"])
    expect(page).to_have_url(re.compile("text=%E5"))
    settle(page)
    expect(the_text(page)).to_have_value(EXAMPLES["中文"])
    expect(page.get_by_role("radio", name="中文", exact=True)).not_to_be_checked()  # it can be chosen again


def only_numbers_of_kv_heads_that_divide_are_offered(page: Page) -> None:
    slider = page.get_by_role("slider", name="KV heads")
    offered = []
    for _ in range(4):
        offered.append(slider.get_attribute("aria-valuetext"))
        slider.press("ArrowRight")
        settle(slider.page)
    assert offered == ["1", "2", "3", "6"]


def what_belongs_to_a_model_of_ones_own_is_offered_for_that_alone(page: Page) -> None:
    expect(page.get_by_role("slider", name="Query heads")).to_have_value("1")
    expect(page.get_by_role("slider", name="KV heads")).to_be_hidden()  # one query head: no choice of KV heads
    pick_model(page, "MLA")
    settle(page)
    for name in ("Layers", "Query heads", "d_model"):
        expect(page.get_by_role("slider", name=name)).to_be_hidden()
    open_masks(page)
    expect(page.get_by_text("The checkpoints were trained with a causal mask")).to_be_visible()


def settings_changed_one_right_after_the_other_are_all_in_the_address(page: Page) -> None:
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


def the_source_that_is_shown_is_the_module_that_ran(page: Page) -> None:
    page.get_by_role("button", name="View source").click()
    expect(page.get_by_role("dialog").get_by_text("class MultiHeadLatentAttention")).to_be_visible()
    page.keyboard.press("Escape")


def a_setting_is_one_message_and_leaves_the_title_alone(page: Page) -> None:
    page.get_by_role("heading", level=1).evaluate("(title) => (window.before = title)")
    sent = count_messages(page)
    pick_model(page, "GQA-2")
    expect(page.get_by_text("8 query heads read 2 KV heads")).to_be_visible()
    settle(page)
    assert sent() == 1 and page.get_by_role("heading", level=1).evaluate("(title) => title === window.before")


def what_was_typed_is_in_force_on_the_page_that_is_opened_next(page: Page) -> None:
    """The link still has the old settings when it is clicked, before the server has sent a new one."""
    the_text(page).fill("one two three")
    to_page(page, "Query grouping").click(delay=100)  # the duration of a tap
    expect(page.get_by_role("heading", level=1)).to_have_text("Query grouping")
    settle(page)
    expect(the_text(page)).to_have_value("one two three")
    assert in_address(page) == {"text": ["one two three"], "window": ["9"], "selection": ["auto"]}


def back_and_forward_restore_the_page_and_its_settings(page: Page) -> None:
    pick_model(page, "MQA")
    expect(page).to_have_url(re.compile("model=mqa"))
    settle(page)
    page.get_by_role("gridcell", name="Layer 2, head 5,").click()
    expect(page).to_have_url(re.compile("head=5"))
    settle(page)
    to_page(page, "Query grouping").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Query grouping")
    settle(page)
    text, model = {"text": ["one two"], "selection": ["auto"]}, {"model": ["mqa"]}
    head = {"layer": ["2"], "head": ["5"]}
    for steps, name, said in (
        (-1, "Heads", text | model | head),
        (-1, "Heads", text | model),
        (1, "Heads", text | model | head),
        (1, "Query grouping", text | model | head),
        (-2, "Heads", text | model),
        (-1, "Heads", {"text": ["one two"]}),  # the link that was opened, which computes no selection
    ):
        page.evaluate("(steps) => history.go(steps)", steps)
        expect(page.get_by_role("heading", level=1)).to_have_text(name)
        settle(page)
        assert in_address(page) == said
        expect(the_text(page)).to_have_value("one two")
        expect(the_model(page)).to_have_value(re.compile("MQA" if "model" in said else "GQA-4"))
        if name == "Heads":
            chosen = "Layer 2, head 5," if "head" in said else "Layer 1, head 3,"
            expect(page.get_by_role("gridcell", selected=True)).to_have_accessible_name(re.compile(chosen))


# ---- the grid and downloads


def a_click_and_the_keys_select_a_head(page: Page) -> None:
    page.get_by_role("gridcell", name="Layer 2, head 3,").click()
    settle(page)
    expect(page.get_by_role("heading", name="Layer 2, head 3")).to_be_visible()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    settle(page)
    expect(page.get_by_role("heading", name="Layer 3, head 4")).to_be_visible()
    assert (in_address(page)["layer"], in_address(page)["head"]) == (["3"], ["4"])


KINDS = """(marks) => new Set(marks.map(
    (mark) => `${mark.getBoundingClientRect().width} ${mark.checkVisibility({ visibilityProperty: true })}`
)).size"""


def pointing_at_a_cell_names_it_in_every_head_without_asking_the_server(page: Page) -> None:
    sent = count_messages(page)
    page.get_by_role("gridcell").nth(9).locator(".map").hover(position={"x": 3, "y": 30})
    expect(page.get_by_text(re.compile("Layer 1, H1 reads KV 0.*Query"))).to_be_visible()
    assert page.get_by_role("gridcell").locator(".mark").evaluate_all(KINDS) == 1
    assert sent() == 0


def a_chart_can_be_saved_in_four_ways(page: Page) -> None:
    page.get_by_text("Zoom, numbers and downloads").click()
    settle(page)
    rows = list(csv.reader(io.StringIO(saved(page, "CSV").decode())))
    assert len(rows) > 29 and len({len(row) for row in rows}) == 1
    assert saved(page, "PNG").startswith(b"\x89PNG")
    svg = saved(page, "SVG")
    assert b"<svg" in svg[:200]
    assert b"fill: rgb(91, 95, 106)" in svg and b"fill: rgb(128, 132, 149)" not in svg  # as in page_style.css
    assert b"plotly" in saved(page, "HTML").lower()


def saved(page: Page, kind: str) -> bytes:
    """Download the first chart of the page as "CSV", "PNG", … and return its bytes."""
    with page.expect_download() as started:
        page.get_by_role("button", name=kind, exact=True).first.click()
    return started.value.path().read_bytes()


def a_head_is_chosen_pointed_at_and_saved(page: Page) -> None:
    pointing_at_a_cell_names_it_in_every_head_without_asking_the_server(page)
    a_click_and_the_keys_select_a_head(page)
    a_chart_can_be_saved_in_four_ways(page)


# ---- all in one tab

STEPS = {  # {assertion: URL}
    a_notice_names_the_layer_and_the_query_that_are_shown: "heads?layer=7&head=31&query=511&key=99",
    the_model_card_is_a_click_away_where_a_model_runs_beyond_its_training: "heads?window=5",
    a_text_is_typed_and_applied_or_an_example_is_taken: "heads?text=a",
    only_numbers_of_kv_heads_that_divide_are_offered: "heads?model=own&n_heads=6&n_kv_heads=1",
    what_belongs_to_a_model_of_ones_own_is_offered_for_that_alone: "heads?model=own&n_heads=1&d_model=64",
    settings_changed_one_right_after_the_other_are_all_in_the_address: "heads?model=own",
    the_source_that_is_shown_is_the_module_that_ran: "heads?model=mla",
    a_head_is_chosen_pointed_at_and_saved: "heads",
    a_setting_is_one_message_and_leaves_the_title_alone: "heads?layer=1",
    back_and_forward_restore_the_page_and_its_settings: "heads?text=one+two",
    what_was_typed_is_in_force_on_the_page_that_is_opened_next: "heads?window=9",
}


def test_a_text_a_model_and_a_head_are_chosen_and_back_and_forward_restore_them(turns: Callable) -> None:
    for each, (_, page) in zip(STEPS, turns(STEPS.values()), strict=True):
        each(page)
