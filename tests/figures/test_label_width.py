"""The estimated width of labels; test_seen.py compares it with what Chromium measures."""

from attnviz.figures.label_width import label_width


def test_a_label_takes_the_sum_of_its_characters_and_its_markup_nothing():
    assert label_width("ill") < label_width("abc") < label_width("MHA") < label_width("注意力") == 36
    assert label_width("<b>GQA-4</b>") == label_width("GQA-4") == label_width("GQA") + label_width("-4")
    assert label_width("\u2068e\u0301\u2069") == label_width("e")  # isolates and combining marks


def test_an_entity_takes_what_its_character_takes():
    assert label_width("a &lt;b&gt; &amp;") == label_width("a ") + 2 * label_width("=") + label_width("b &")
