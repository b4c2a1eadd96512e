"""Any text and any link gets a picture or a sentence; markup in them is text, and stays text."""

from collections.abc import Callable
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import go
from tests.browser.painted import overflow, painted_fraction, pixels, settle
from tests.browser.server import Server, serve
from tests.browser.sidebar import the_text, write

MARKUP = "<script>alert(1)</script> <img src=x onerror=alert(2) class=injected> [a](javascript:alert(3)) $x^2$ **b**"
TEXTS = {
    "one character": "a",
    "Chinese": "小女孩在花园里找到一个红色的球。",
    "Arabic": "وجدت الفتاة الصغيرة كرة حمراء في الحديقة.",
    "emoji": "👩‍👩‍👧 🐈 👍🏽 🇪🇺",
    "control characters": "a\u0007b\u200bc\u202ed\r\n\te",
    "markup": MARKUP,
    "a thousand equal words": "word " * 1000,
    "20,000 characters": "Once upon a time there was a king. " * 571 + "The end of it",
}


PICTURES = {"heads": "[role=gridcell]", "query_groups": ".gd svg", "rope": "[data-testid=stPlotlyChart]"}


@pytest.mark.parametrize(("address", "picture"), PICTURES.items())
def test_any_text_is_drawn_on_every_page(visit: Callable[..., Page], address: str, picture: str) -> None:
    page = visit(address)
    for text in TEXTS.values():
        write(page, text)
        expect(page.get_by_test_id("stAlert").filter(has_text="first 512 are shown")).to_have_count(
            int(len(text) > 4000)
        )
        page.locator(picture).first.scroll_into_view_if_needed()
        assert painted_fraction(pixels(page.locator(picture).first)) > 0.01
        assert overflow(page) <= 0
    expect(page.locator(".injected")).to_have_count(0)


def test_a_text_longer_than_an_address_can_say_stays_whole_from_page_to_page(
    visit: Callable[..., Page], walk: Callable[[Page, str], None]
) -> None:
    text = TEXTS["20,000 characters"]
    page = visit("heads")
    write(page, text)
    for name in ("query-groups", "heads"):
        walk(page, name)
        expect(the_text(page)).to_have_value(text)
    page.go_back()
    expect(page.get_by_role("heading", level=1)).to_have_text("Query grouping")
    settle(page)
    expect(the_text(page)).to_have_value(text)


def test_no_text_and_a_long_one_are_answered_by_a_sentence(visit: Callable[..., Page], server: Server) -> None:
    page = visit("heads?text=")
    expect(page.get_by_test_id("stAlert")).to_have_count(1)
    expect(page.get_by_test_id("stAlert")).to_contain_text("There is no text yet")
    go(page, server, "heads?text=" + "word%20" * 1000)
    expect(page.get_by_test_id("stAlert").first).to_contain_text("the first 512 are shown")


def test_a_link_of_nonsense_opens_and_says_what_it_made_of_it(visits: Callable) -> None:
    nonsense = "n_layers=1e99&n_kv_heads=99&seed=abc&head=&theta=nan&model=__proto__"
    nonsense += f"&<img src=x onerror=alert(1) class=injected>=1&text={MARKUP}"
    for address, page in visits(f"{p}?{nonsense}" for p in ("", "heads", "query_groups", "rope", "cost", "steps")):
        notices = page.get_by_test_id("stAlert").all_inner_texts()
        for name in ("n_layers", "n_kv_heads", "seed", "head", "theta", "model", "img src"):
            assert any(name in notice for notice in notices), f"nothing is said about {name} on {address}"
        expect(page.locator(".injected")).to_have_count(0)


SNARES = ["![x](//e.x/i.png)", "[x](https://e.x)", "https://e.x/y", "www.e.x", "a@e.xy", "$x$", ":material/home:"]


def test_no_sentence_holds_a_link_or_a_picture_of_a_stranger(visits: Callable) -> None:
    addresses = (
        "heads?" + "&".join(f"{quote(snare)}=1" for snare in SNARES),
        "heads?text=" + quote("https://e.x/y " * 300),
        "cost?tab=facts&facts=" + quote('{"![x](//e.x/i.png) [x](https://e.x) https://e.x": 1}'),
    )
    for _, page in visits(addresses):
        alerts = page.get_by_test_id("stAlert")
        expect(alerts.first).to_be_visible()
        expect(alerts.locator("a, img, .katex")).to_have_count(0)


def test_the_log_holds_no_text_of_a_user(window: Callable[..., Page]) -> None:
    page = window()
    with serve() as fresh:
        page.goto(f"{fresh.url}/heads?text=Quokka&n_layers=Wombat&Numbat=1&facts=Bilby&second_text=Dingo")
        settle(page)
        assert "Numbat" in page.get_by_test_id("stMain").inner_text()  # it did arrive
        write(page, "Potoroo")
        page.goto(f"{fresh.url}/cost?tab=facts&facts=%7B%22Bandicoot%22%3A%201%7D")
        settle(page)
        assert "Bandicoot" in page.get_by_test_id("stMain").inner_text()
        log = fresh.log.read_text(errors="replace")
    assert "streamlit" in log.lower() or fresh.url in log  # it is the log
    for word in ("Quokka", "Wombat", "Numbat", "Bilby", "Dingo", "Potoroo", "Bandicoot"):
        assert word.lower() not in log.lower()
