"""The tokenizer: any Unicode text round-trips, and every token has a label without invisible characters."""

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnviz.characters import marks, printable
from attnviz.text import Tokenizer

TOKENIZER = Tokenizer()
INVISIBLE = {"Cc", "Cf", "Cs", "Co", "Cn", "Zs", "Zl", "Zp"}  # controls, formats, surrogates, unassigned, blanks
FILLERS = "\u115f\u1160\u2800\u3164\uffa0"  # letters or symbols by category, but invisible
TEXTS = [
    "", " ", "a", "The cat sat.\n\n\tThe  end", "'s can't", "word " * 50, "好的", "مرحبا بالعالم", "שלום", "नमस्ते",
    "\U0001f469\u200d\U0001f469\u200d\U0001f467 ❤\ufe0f 🇨🇭", "e\u0301 a\u0308\u0323", "ﬁ ½ Ⅷ", "\u202eabc\u202c",
    "<script>alert(1)</script>", "<|endoftext|> [MASK] </s>", "\x00\x07\x1b[31m\x7f\x85", "\ufeff\u200b\u00ad",
    "\U0010ffff\ue000\u0378", "\u3164\u115f\u2800\ufe0f\u034f", "\r\n \u00a0\u2003\u2028",
]  # fmt: skip


def hides(label: str) -> bool:
    """Check whether the label is empty or has an invisible character."""
    shown = label.replace(" ", "")  # the one in "好 1/3"
    return not shown or any(unicodedata.category(c) in INVISIBLE or c in FILLERS for c in shown)


def assert_comes_back_with_labels(text: str) -> None:
    ids = TOKENIZER.encode(text)
    labels = TOKENIZER.labels(ids)
    assert TOKENIZER.decode(ids) == text
    assert len(labels) == len(ids) and [label for label in labels if hides(label)] == []


@pytest.mark.parametrize("text", TEXTS)
def test_hard_texts_come_back_with_a_visible_label_a_token(text):
    assert_comes_back_with_labels(text)


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=40))
@settings(max_examples=60, deadline=None)
def test_any_text_comes_back_with_a_visible_label_a_token(text):
    assert_comes_back_with_labels(text)


@given(st.lists(st.integers(0, TOKENIZER.vocab_size - 1), max_size=30))
@settings(max_examples=60, deadline=None)
def test_any_tokens_have_labels_even_where_they_spell_no_text(ids):
    labels = TOKENIZER.labels(ids)
    assert len(labels) == len(ids) and [label for label in labels if hides(label)] == []
    assert b"".join(TOKENIZER.token_bytes(ids)).decode("utf-8", "replace") == TOKENIZER.decode(ids)


@pytest.mark.parametrize(
    "text, expected",
    [
        ("\ud800", "\ufffd"),
        ("a\udc00b", "a\ufffdb"),
        ("\ud83d\ude00", "😀"),  # a valid surrogate pair
        ("\ude00\ud83d", "\ufffd\ufffd"),
    ],
)
def test_lone_surrogates_become_the_replacement_character(text, expected):
    assert TOKENIZER.decode(TOKENIZER.encode(text)) == expected


def test_every_byte_is_a_token_of_its_own_if_need_be():
    single = {piece for piece in TOKENIZER.token_bytes(list(range(TOKENIZER.vocab_size))) if len(piece) == 1}
    assert single == {bytes([b]) for b in range(256)}
    assert TOKENIZER.vocab_size == 2048


def test_the_parts_of_a_split_character_are_kept_together():
    ids = TOKENIZER.encode("a好b")
    assert TOKENIZER.labels(ids) == ["a", "好 1/3", "好 2/3", "好 3/3", "b"]
    assert TOKENIZER.token_bytes(ids) == [b"a", b"\xe5", b"\xa5", b"\xbd", b"b"]


def test_half_a_character_at_a_cut_end_is_shown_as_such():
    ids = TOKENIZER.encode("a好")[:-1]
    assert TOKENIZER.labels(ids) == ["a", "<0xE5>", "<0xA5>"]
    assert TOKENIZER.decode(ids) == "a\ufffd"


def test_equal_words_have_equal_labels():
    labels = TOKENIZER.labels(TOKENIZER.encode("the" + " the" * 1000))
    assert labels == ["the"] + ["·the"] * 1000


@pytest.mark.parametrize(
    "text, shown",
    [
        (" the", "·the"), ("\n\t\r", "⏎⇥␍"), ("\x00\x1b", "␀␛"), ("\x7f", "U+007F"), ("\u200b", "U+200B"),
        ("\u202e", "U+202E"), ("\u00a0", "⍽"), ("\u3164", "U+3164"), ("\ufe0f", "U+FE0F"), ("\u0301", "◌\u0301"),
        ("\ue000", "U+E000"), ("<b>", "<b>"), ("好", "好"), ("·", "·"),
    ],
)  # fmt: skip
def test_what_is_invisible_is_written_out(text, shown):
    assert printable(text) == shown


def test_the_marks_that_occur_in_labels_are_explained():
    assert marks(["The", "dog"]) == ""
    assert marks(["The", "·dog"]) == "“·” is a space."
    said = marks(["红 1/3", "红 2/3", "红 3/3", ".⏎", "·a"])
    assert said.startswith("“·” is a space, “⏎” ends a line, “2/3” is the second of three tokens")


def token(piece: bytes) -> int:
    return TOKENIZER.token_bytes(list(range(TOKENIZER.vocab_size))).index(piece)


E5, BA, x8A = token(b"\xe5"), token(b"\xba"), token(b"\x8a")


def test_a_byte_is_named_with_a_character_that_it_can_begin():
    assert TOKENIZER.name(E5) == "<0xE5> 儿…"
    assert TOKENIZER.described(E5) == "begins 儿, 入, 八, … (U+5000–U+5FFF)"
    assert TOKENIZER.name(BA, [E5]) == "<0xBA> 序…"
    assert TOKENIZER.described(BA, [E5]) == "continues 序, 庇, 床, … (U+5E80–U+5EBF)"


def test_a_token_is_named_as_it_will_be_labelled_in_the_text():
    assert TOKENIZER.name(x8A, [E5, BA]) == "床 3/3" and TOKENIZER.described(x8A, [E5, BA]) == ""
    assert TOKENIZER.name(BA) == "<0xBA>" and TOKENIZER.described(BA) == ""  # no character begins with it
    the = token(b" the")
    assert TOKENIZER.name(the, [E5]) == "·the" and TOKENIZER.described(the, [E5]) == ""
    assert TOKENIZER.described(E5, [E5, BA]) == TOKENIZER.described(E5)  # it does not continue them
    assert TOKENIZER.described(10**6) == "" and TOKENIZER.described(token(b"\xcc")) == "begins U+0300–U+033F"


def test_the_unfinished_tokens_are_those_of_the_last_character():
    ids = TOKENIZER.encode("a床")
    assert [len(TOKENIZER.unfinished(ids[:n])) for n in range(len(ids) + 1)] == [0, 0, 1, 2, 0]


def test_what_a_byte_begins_is_explained():
    assert marks(["<0xE5> 儿…"]) == "“<0xE5> 儿…” is a byte that can be a part of 儿 or of other characters."
    two = "<0xE5A4> 夕…"
    assert marks([two]) == f"“{two}” are bytes that can be a part of 夕 or of other characters."
    assert marks(["<0xBA>"]) == "“<0xE5>” is one byte of a character."
