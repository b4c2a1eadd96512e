"""Counts, lists and tokens in sentences."""

from attnviz.phrases import count, first_of, in_quotes, listed, span, unbroken, written


def test_a_noun_is_singular_for_one_thing_only() -> None:
    assert [count(n, "KV head") for n in (0, 1, 2, 1000)] == ["0 KV heads", "1 KV head", "2 KV heads", "1,000 KV heads"]


def test_a_number_has_a_true_minus_sign_at_which_no_line_is_broken() -> None:
    assert [written(x, ".1e") for x in (6.6e-7, -2.0e5)] == ["6.6e−07", "−2.0e+05"]
    assert written(-0.25, ".2g") == "−0.25"


def test_the_last_two_items_are_joined_by_and() -> None:
    assert [listed(range(n)) for n in (1, 2, 3)] == ["0", "0 and 1", "0, 1 and 2"]


def test_letters_from_right_to_left_are_isolated_and_others_left_as_they_are() -> None:
    """U+2068 begins and U+2069 ends an isolate (Unicode Annex 9): outside of it, order is that of the sentence."""
    assert [in_quotes(label) for label in ("·the", "好 1/3", "👩", "2")] == ["“·the”", "“好 1/3”", "“👩”", "“2”"]
    assert [in_quotes(label) for label in ("ل 2/2", "אב")] == ["“\u2068ل 2/2\u2069”", "“\u2068אב\u2069”"]


def test_one_is_said_as_one() -> None:
    assert span("0.2", "0.7") == "0.2 to 0.7" and span("0.7", "0.7") == "0.7"
    assert first_of(1, "token") == "first token" and first_of(4, "token") == "first 4 tokens"


def test_no_line_breaks_within_a_name_or_a_value() -> None:
    """U+2060 joins what stands around it, U+00A0 is a space at which no line is broken."""
    assert unbroken("GQA-4 and GPT\\-2") == "GQA-\u20604 and GPT\\-\u20602"
    assert unbroken("D = 128: head_dim; M₁ = 3") == "D\u00a0=\u00a0128: head_dim; M₁\u00a0=\u00a03"
    same = ("top-level", "5 - 3", "-2", "`gqa-4`", "as many = all", "a(2) = 3")
    assert [unbroken(text) for text in same] == list(same)
