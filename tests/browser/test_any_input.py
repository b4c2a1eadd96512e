"""Any text and any link gives a picture or a sentence; markup in them is shown as text."""

from collections.abc import Callable
from urllib.parse import quote

from playwright.sync_api import Page, expect

from tests.browser.conftest import turn_to
from tests.browser.painted import overflow, painted_fraction, pixels, settle
from tests.browser.server import Server
from tests.browser.sidebar import the_text, write

MARKUP = "<script>alert(1)</script> <img src=x onerror=alert(2) class=injected> [a](javascript:alert(3)) $x^2$ **b**"
KINDS = (  # the server's answer to each of them alone: tests/ui/test_pages.py
    "小女孩在花园里找到一个红色的球。",
    "وجدت الفتاة الصغيرة كرة حمراء في الحديقة.",
    "👩‍👩‍👧 🐈 👍🏽 🇪🇺",
    "a\u0007b\u200bc\u202ed\r\n\te",
    MARKUP,
)
LONG = "Once upon a time there was a king. " * 571 + "The end of it"  # 20,000 characters, too long for a URL
ALL_KINDS = " ".join(KINDS)


def test_any_text_is_drawn_on_every_page_and_a_long_one_stays_whole(
    visit: Callable[..., Page], walk: Callable[[Page, str], None]
) -> None:
    page = visit("heads")
    for text in ("a", ALL_KINDS):
        write(page, text)
        is_drawn(page, "[role=gridcell]", f"{text} on heads")
    for name, picture in {"query-groups": ".gd svg", "rope": "[data-testid=stPlotlyChart]"}.items():
        walk(page, name)
        for text in ("a", ALL_KINDS):
            write(page, text)
            is_drawn(page, picture, f"{text} on {name}")
    write(page, LONG)
    is_drawn(page, "[data-testid=stPlotlyChart]", "20,000 characters on rope", shortened=True)
    for name, picture in {"query-groups": ".gd svg", "heads": "[role=gridcell]"}.items():
        walk(page, name)
        expect(the_text(page)).to_have_value(LONG)
        is_drawn(page, picture, f"20,000 characters on {name}", shortened=True)
    page.go_back()
    expect(page.get_by_role("heading", level=1)).to_have_text("Query grouping")
    settle(page)
    expect(the_text(page)).to_have_value(LONG)
    turn_to(page, f"decode?text={quote(KINDS[0])}")
    expect(page.locator(".dp .text")).to_contain_text(
        KINDS[0]
    )  # each character once, of however many tokens it is made


def is_drawn(page: Page, picture: str, name: str, shortened: bool = False) -> None:
    """Expect a painted picture inside the window, without markup from the text."""
    expect(page.get_by_test_id("stAlert").filter(has_text="first 512 are shown")).to_have_count(int(shortened))
    page.locator(picture).first.scroll_into_view_if_needed()
    assert painted_fraction(pixels(page.locator(picture).first)) > 0.01, name
    assert overflow(page) <= 0, name
    expect(page.locator(".injected")).to_have_count(0)


# ---- links

NONSENSE = (
    "n_layers=1e99&n_kv_heads=99&seed=abc&head=&theta=nan&model=__proto__"
    f"&<img src=x onerror=alert(1) class=injected>=1&text={MARKUP}"
)
SNARES = ["![x](//e.x/i.png)", "[x](https://e.x)", "https://e.x/y", "www.e.x", "a@e.xy", "$x$", ":material/home:"]


def test_no_link_brings_markup_and_each_is_answered_by_a_sentence(visit: Callable[..., Page]) -> None:
    page = visit(f"?{NONSENSE}")
    links_of_nonsense_open_and_say_what_they_were_taken_for(page)
    no_text_is_answered_by_a_sentence(page)
    no_sentence_holds_a_link_or_a_picture_of_a_stranger(page)


def links_of_nonsense_open_and_say_what_they_were_taken_for(page: Page) -> None:
    """On Overview and Heads; the sentences on all pages: tests/ui/test_pages.py."""
    for path in ("", "heads"):
        if path:
            turn_to(page, f"{path}?{NONSENSE}")
        notices = page.get_by_test_id("stAlert").all_inner_texts()
        for name in ("n_layers", "n_kv_heads", "seed", "head", "theta", "model", "img src"):
            assert any(name in notice for notice in notices), f"nothing is said about {name} on {path}"
        expect(page.locator(".injected")).to_have_count(0)


def no_text_is_answered_by_a_sentence(page: Page) -> None:
    turn_to(page, "heads?text=")
    expect(page.get_by_test_id("stAlert")).to_have_count(1)
    expect(page.get_by_test_id("stAlert")).to_contain_text("There is no text yet")


def no_sentence_holds_a_link_or_a_picture_of_a_stranger(page: Page) -> None:
    for address, said in {
        "heads?" + "&".join(f"{quote(snare)}=1" for snare in SNARES): "e.x",
        "heads?text=" + quote("https://e.x/y " * 300): "the first 512 are shown",
        "cost?tab=facts&facts=" + quote('{"![x](//e.x/i.png) [x](https://e.x) https://e.x": 1}'): "e.x",
    }.items():
        turn_to(page, address)
        alerts = page.get_by_test_id("stAlert")
        expect(alerts.filter(has_text=said).first).to_be_visible()
        expect(alerts.locator("a, img, .katex")).to_have_count(0)


def test_the_log_holds_no_text_of_a_user(visit: Callable[..., Page], server: Server) -> None:
    page = visit("heads?text=Quokka&n_layers=Wombat&Numbat=1&facts=Bilby&second_text=Dingo")
    assert "Numbat" in page.get_by_test_id("stMain").inner_text()  # the text did arrive
    write(page, "Potoroo")
    turn_to(page, "cost?tab=facts&facts=%7B%22Bandicoot%22%3A%201%7D")
    assert "Bandicoot" in page.get_by_test_id("stMain").inner_text()
    log = server.log.read_text(errors="replace")
    assert "streamlit" in log.lower() or server.url in log  # it really is the log
    for word in ("Quokka", "Wombat", "Numbat", "Bilby", "Dingo", "Potoroo", "Bandicoot"):
        assert word.lower() not in log.lower()
