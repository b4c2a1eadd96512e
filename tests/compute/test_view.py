"""A text that is too long is cut at a whole character, and the notice says how many characters fit."""

from attnviz.compute import heads, mistakes
from attnviz.compute.view import View
from attnviz.session.settings import Settings

FAMILY = "👩‍👩‍👧‍👦"  # 25 tokens of the shipped tokenizer: its bytes


def view(text: str, **fields: object) -> View:
    return View(Settings(text=text, **fields))


def test_a_chinese_text_is_cut_after_170_characters_of_three_tokens():
    cut = view("床" * 300)
    assert len(cut.ids) == len(cut.labels) == 510 and cut.labels[-1] == "床 3/3"
    assert cut.shown_text == "床" * 170
    assert cut.cut_notice and cut.cut_notice.startswith(
        "The text has 900 tokens; the first 510 are shown, which are 170 of its 300 characters, up to “…床"
    )


def test_a_joined_emoji_is_not_cut_in_two():
    cut = view(FAMILY * 30)
    assert len(cut.ids) == 500 and cut.shown_text == FAMILY * 20
    assert cut.cut_notice and "20 of its 30 characters" in cut.cut_notice
    flags = view("a" + "🇩🇪" * 70)
    assert len(flags.ids) == 505 and flags.shown_text == "a" + "🇩🇪" * 63


def test_a_text_that_fits_is_not_cut():
    whole = view("床" * 170)
    assert len(whole.ids) == 510 and whole.cut_notice is None
    assert [span.stop for span in whole.spans] == list(range(3, 511, 3))


def test_a_character_that_fits_no_limit_is_cut_at_its_tokens():
    cut = view("e" + "\u0301" * 400)  # one character of 801 tokens
    assert len(cut.ids) == 512 and [span.stop for span in cut.spans] == list(range(1, 513))
    assert cut.cut_notice and "512" in cut.cut_notice


def test_shorter_limits_are_whole_characters_too():
    long = view("床" * 300, second_text="床" * 300)
    assert long.first(mistakes.MAX_TOKENS) == 126
    ids, labels = heads.second_text_of(long)
    assert len(ids) == len(labels) == 126


def test_the_spans_of_a_text_hold_each_token_once():
    text = view("床 🇩🇪!")
    assert [(s.stop - s.start, s.text) for s in text.spans] == [(3, "床"), (1, " "), (8, "🇩🇪"), (1, "!")]
    assert sum(s.stop - s.start for s in text.spans) == len(text.ids)
