"""Any text and any link gives a picture or a sentence; markup in them is shown as text."""

import re
from collections.abc import Callable, Sequence
from urllib.parse import quote

from playwright.sync_api import Page, expect

from tests.browser.conftest import turn_to
from tests.browser.painted import overflow, painted_fraction, pixels
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
    page = visit("rope?text=a")
    is_drawn(page, "rope", "a")
    write(page, ALL_KINDS)
    is_drawn(page, "rope", ALL_KINDS)
    for name, texts in {"heads": [ALL_KINDS, "a"], "query-groups": ["a", ALL_KINDS, LONG]}.items():
        walk(page, name)
        expect(the_text(page)).to_have_value(re.compile(re.escape(texts[0][:30])))  # that of the page before
        for text in texts:
            if text != texts[0]:
                write(page, text)
            is_drawn(page, name, text)
    for name in ("rope", "heads"):
        walk(page, name)
        expect(the_text(page)).to_have_value(LONG)
        is_drawn(page, name, LONG)
    page.go_back()
    expect(page.get_by_role("heading", level=1)).to_have_text("RoPE")
    expect(the_text(page)).to_have_value(LONG)
    turn_to(page, f"decode?text={quote(KINDS[0])}")
    # each character once, of however many tokens it is made
    expect(page.locator(".dp .text")).to_contain_text(KINDS[0])


PICTURES = {"heads": "[role=gridcell]", "query-groups": ".gd svg", "rope": "[data-testid=stPlotlyChart]"}


def is_drawn(page: Page, name: str, text: str) -> None:
    """Expect a painted picture inside the window, without markup from the text."""
    expect(page.get_by_test_id("stAlert").filter(has_text="first 512 are shown")).to_have_count(int(text == LONG))
    picture = page.locator(PICTURES[name]).first
    picture.scroll_into_view_if_needed()
    assert painted_fraction(pixels(picture)) > 0.01, (name, text)
    assert overflow(page) <= 0, (name, text)
    expect(page.locator(".injected")).to_have_count(0)


# ---- links

SNARES = ["![x](//e.x/i.png)", "[x](https://e.x)", "https://e.x/y", "www.e.x", "a@e.xy", "$x$", ":material/home:"]
NONSENSE = (
    f"n_layers=1e99&n_kv_heads=99&seed=Wombat&head=&theta=nan&model=__proto__&Numbat=1&facts=Bilby&second_text=Dingo"
    f"&<img src=x onerror=alert(1) class=injected>=1&text=Quokka {MARKUP}&{'&'.join(f'{quote(s)}=1' for s in SNARES)}"
)
NAMED = ("n_layers", "n_kv_heads", "seed", "head", "theta", "model", "img src", "Numbat", "e.x")
WORDS = ("Quokka", "Wombat", "Numbat", "Bilby", "Dingo", "Potoroo", "Bandicoot")  # in links and typed


def test_a_link_brings_no_markup_is_answered_by_a_sentence_and_leaves_no_text_in_the_log(
    visit: Callable[..., Page], server: Server
) -> None:
    page = visit(f"heads?{NONSENSE}")
    every_setting_of_nonsense_is_named(page)
    no_sentence_holds_a_link_or_a_picture_of_a_stranger(page)
    turn_to(page, "heads?text=")
    expect(page.get_by_test_id("stAlert")).to_have_count(1)
    expect(page.get_by_test_id("stAlert")).to_contain_text("There is no text yet")
    write(page, "https://e.x/y Potoroo " * 150)
    expect(page.get_by_test_id("stAlert").filter(has_text="the first 512 are shown")).to_be_visible()
    no_sentence_holds_a_link_or_a_picture_of_a_stranger(page)
    turn_to(page, "cost?tab=facts&facts=" + quote('{"![x](//e.x/i.png) [x](https://e.x) https://e.x Bandicoot": 1}'))
    assert "Bandicoot" in " ".join(page.get_by_test_id("stAlert").all_inner_texts())
    no_sentence_holds_a_link_or_a_picture_of_a_stranger(page)
    the_log_holds_none_of(WORDS, server)


def every_setting_of_nonsense_is_named(page: Page) -> None:
    """On Heads; the sentences on all pages: tests/ui/test_pages.py."""
    notices = page.get_by_test_id("stAlert").all_inner_texts()
    for name in NAMED:
        assert any(name in notice for notice in notices), f"nothing is said about {name}"


def no_sentence_holds_a_link_or_a_picture_of_a_stranger(page: Page) -> None:
    expect(page.get_by_test_id("stAlert").first).to_be_visible()
    expect(page.get_by_test_id("stAlert").locator("a, img, .katex")).to_have_count(0)
    expect(page.locator(".injected")).to_have_count(0)


def the_log_holds_none_of(words: Sequence[str], server: Server) -> None:
    log = server.log.read_text(errors="replace").lower()
    assert "streamlit" in log or server.url in log  # it really is the log
    assert [word for word in words if word.lower() in log] == []
