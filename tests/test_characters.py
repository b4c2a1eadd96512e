"""Characters as a reader sees them, the tokens that form one, and what a byte can begin."""

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnviz.characters import (
    Span,
    axis_labels,
    began,
    code_points,
    examples,
    graphemes,
    growing,
    printable,
    readable,
    spans,
    unfinished,
    whole,
)  # fmt: skip

FAMILY, FLAG = "👩‍👩‍👧‍👦", "🇩🇪"


def single_bytes(text: str) -> list[bytes]:
    return [bytes([b]) for b in text.encode()]


@pytest.mark.parametrize(
    "text, expected",
    [
        ("", []), ("abc", list("abc")), ("e\u0301a", ["e\u0301", "a"]), (FAMILY + FLAG, [FAMILY, FLAG]),
        ("床前", ["床", "前"]),
        (FLAG + "🇫🇷", [FLAG, "🇫🇷"]), ("\r\n", ["\r", "\n"]), ("é\r\n", ["é", "\r", "\n"]), ("กำ", ["กำ"]),
        ("\udce5\u0301a", ["\udce5", "\u0301", "a"]), ("\u202eab", ["\u202e", "a", "b"]),
        ("é\ud800\u0301床", ["é", "\ud800", "\u0301", "床"]), ("👍🏽", ["👍🏽"]),
    ],
)  # fmt: skip
def test_characters_are_grapheme_clusters(text, expected):
    assert graphemes(text) == expected


def test_the_bytes_of_a_character_are_one_span():
    assert spans([b"a", b"\xe5", b"\xba", b"\x8a", b" b"]) == [Span(0, 1, "a"), Span(1, 4, "床"), Span(4, 5, " b")]
    assert spans(single_bytes(FAMILY)) == [Span(0, 25, FAMILY)]
    assert spans(single_bytes(FLAG + FLAG)) == [Span(0, 8, FLAG), Span(8, 16, FLAG)]
    assert [s.text for s in code_points(single_bytes(FLAG))] == ["🇩", "🇪"]


def test_tokens_that_share_a_character_are_one_span_with_all_their_text():
    assert spans([b" \xe2\x80", b"\x9ca", b"b"]) == [Span(0, 2, " “a"), Span(2, 3, "b")]
    assert spans([b"\xe3\x83\xbc\xe3", b"\x83\x86\xe3", b"\x82\xa2"]) == [Span(0, 3, "ーテア")]


def test_bytes_that_spell_nothing_stand_alone():
    assert spans([b"\xe5", b"\xba", b"a", b"\xff"]) == [
        Span(0, 1, "\udce5"), Span(1, 2, "\udcba"), Span(2, 3, "a"), Span(3, 4, "\udcff")
    ]  # fmt: skip
    assert spans([]) == []


@given(st.lists(st.binary(max_size=5), max_size=12))
@settings(max_examples=200, deadline=None)
def test_every_token_is_in_one_span_and_no_text_is_lost(pieces):
    found = spans(pieces)
    assert [s.stop for s in found[:-1]] == [s.start for s in found[1:]]
    assert not pieces or (found[0].start, found[-1].stop) == (0, len(pieces))
    assert "".join(s.text for s in found).encode("utf-8", "surrogateescape") == b"".join(pieces)


def test_a_cut_is_at_the_last_whole_character():
    found = spans(single_bytes("a床前"))  # ends after 1, 4 and 7 tokens
    assert [whole(found, n) for n in range(1, 9)] == [1, 1, 1, 4, 4, 4, 7, 7]
    assert whole(found[1:], 2) == 2  # none fits


def test_a_writer_completes_a_character_byte_by_byte():
    assert growing(single_bytes("a床b")) == [
        Span(0, 1, "a"), Span(1, 2, "\udce5"), Span(2, 3, "\udcba"), Span(1, 4, "床"), Span(4, 5, "b")
    ]  # fmt: skip
    flag = growing(single_bytes(FLAG))
    assert flag[3] == Span(0, 4, "🇩") and flag[7] == Span(0, 8, FLAG)
    assert growing(single_bytes("a床b"), 3) == [Span(1, 4, "床"), Span(4, 5, "b")]


@given(st.lists(st.sampled_from(single_bytes("a床 👩‍👧🇩🇪é")), max_size=20), st.integers(0, 20))
@settings(max_examples=200, deadline=None)
def test_what_a_writer_has_is_the_last_span_of_the_text_so_far(pieces, first):
    assert growing(pieces, first) == [spans(pieces[:n])[-1] for n in range(first + 1, len(pieces) + 1)]


@pytest.mark.parametrize(
    "text, shown",
    [
        (f"a {FAMILY}\n", f"a {FAMILY}\n"), ("❤\ufe0f", "❤\ufe0f"), ("\u200d", "U+200D"), ("a\u202eb", "aU+202Eb"), 
        ("\udce5", "<0xE5>"),
        ("naïve e\u0301", "naïve e\u0301"), ("\u0301", "◌\u0301"), ("\x00", "␀"), ("\u3164", "U+3164"),
        ("می\u200cخواهم", "می\u200cخواهم"),
    ],
)  # fmt: skip
def test_running_text_reads_as_text_and_hides_nothing(text, shown):
    assert readable(text) == shown


def test_bytes_of_one_token_stand_together():
    """In a list of candidates, "<0xE5><0xA4> 夕…" was cut to "<0xE5><0x…", and so was "<0xE5><0xBA> 序…"."""
    assert printable(" \udce5\udca4") == "·<0xE5A4>" and printable("a\udcf0\udc9f\udc98b\udce5") == "a<0xF09F98>b<0xE5>"
    assert printable("<0xE5><0xA4>") == "<0xE5><0xA4>"  # a text may contain it


def test_a_mark_that_has_a_letter_stays_on_it():
    assert printable("e\u0301 \u0301") == "e\u0301·◌\u0301" and printable("\u0301") == "◌\u0301"


@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_byte_begins_the_characters_that_python_encodes_with_it(size):
    by_beginning: dict[bytes, list[int]] = {}
    for point in [*range(0xD800), *range(0xE000, 0x110000)]:
        encoded = chr(point).encode()
        if len(encoded) > size:
            by_beginning.setdefault(encoded[:size], []).append(point)
    for beginning, points in by_beginning.items():
        found = began(beginning)
        inside = [p for p in (found.start, found.stop - 1) if not 0xD800 <= p < 0xE000]
        assert len(found) - sum(0xD800 <= p < 0xE000 for p in found if beginning[0] == 0xED) == len(points)
        assert set(inside) <= {points[0], points[-1]} and inside
    for first in range(256):
        if size == 1 and bytes([first]) not in by_beginning:
            assert not began(bytes([first]))


def test_only_the_end_of_a_text_is_unfinished():
    assert unfinished("a床".encode()) == b"" and unfinished(b"") == b""
    assert unfinished("a床".encode()[:-1]) == b"\xe5\xba" and unfinished(b"a\xf0\x9f\x91") == b"\xf0\x9f\x91"
    assert unfinished(b"\xba") == b"" and unfinished(b"\xe5a") == b""


@pytest.mark.parametrize(
    "data", [b"\xe5", b"\xe5\xba", b"\xe2", b"\xf0", b"\xf0\x9f\x91", b"\xc3", b"\xd9", b"\xe3", b"\xef", b"\xd0"]
)
def test_examples_are_visible_characters_that_begin_with_these_bytes(data):
    found = examples(began(data))
    assert len(found) == 3 and all(c.encode().startswith(data) for c in found)
    assert all(unicodedata.category(c)[0] in "LPSN" for c in found)


def test_the_examples_of_a_chinese_byte_are_common_characters():
    assert examples(began(b"\xe5")) == ("儿", "入", "八") and "床" in examples(began(b"\xe5\xba"))
    assert examples(began(b"\xcc")) == ()  # combining marks


def test_an_axis_names_a_character_once_where_its_tokens_are_neighbours():
    labels = ["a", "床 1/3", "床 2/3", "床 3/3", "1/3", "·1/3"]  # the last two are of a text with fractions
    assert axis_labels(labels, range(6)) == ["a", "床", "2/3", "3/3", "1/3", "·1/3"]
    assert axis_labels(labels, [0, 2, 4]) == ["a", "床 2/3", "1/3"]
    assert axis_labels(labels, [1, 3]) == ["床 1/3", "床 3/3"] and axis_labels(labels, [2, 3]) == ["床 2/3", "3/3"]
