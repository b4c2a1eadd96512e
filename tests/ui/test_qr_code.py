"""The QR code encodes the link without presentation mode; a link that is too long has none."""

from urllib.parse import parse_qsl

from attnviz.session.settings import Settings
from attnviz.ui.qr_code import address, svg


def test_the_link_is_that_of_the_page_and_not_of_who_presents() -> None:
    s = Settings(layer=2, text="a b", present=True, only="head-grid", lesson="mla", lesson_step=2)
    base, _, query = address("https://example.org/heads?present=1", s).partition("?")
    assert base == "https://example.org/heads"
    assert dict(parse_qsl(query)) == {"layer": "2", "text": "a b", "lesson": "mla", "lesson_step": "2"}
    assert address("https://example.org/", Settings(present=True)) == "https://example.org/"


def test_a_code_is_drawn_for_each_link_and_none_for_one_that_is_too_long() -> None:
    first, second = svg("https://example.org/heads"), svg("https://example.org/rope")
    assert first and second and first.startswith("<svg") and first != second
    assert svg("https://example.org/?text=" + "a" * 3000) is None
