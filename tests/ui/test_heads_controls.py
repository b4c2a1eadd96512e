"""Controls and links of the Heads page that move sentences: ablated heads, a masked pair, one head's roles."""

import re

import pytest

from tests.pages import HEADS, opened, titles

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("no_links_to_pages")]


def test_one_head_and_several_are_ablated():
    app = opened(HEADS, tab="off", layer="0", head="0")
    assert "## Without L0 H0, the loss goes from" in titles(app)
    app.multiselect(key="control-off").set_value(["2.1", "3.7"]).run()
    assert "## Without L2 H1 and L3 H7, the loss goes from" in titles(app)
    assert re.search(r"## Ablating L\d H\d raises the loss most: ", titles(app))
    app.segmented_control(key="control-off_way").set_value("mean").run()
    assert not app.exception and app.query_params["off_way"] == "mean"


def test_the_tokens_of_a_character_are_merged_where_there_are_any():
    assert not [each for each in opened(HEADS, text="A dog met a cat.").toggle if each.key == "control-merged"]
    app = opened(HEADS, text="床前明月光")
    toggle = app.toggle(key="control-merged")
    assert toggle.label == "Merge the rows and columns of the 5 characters that are several tokens each"
    toggle.set_value(True).run()
    assert not app.exception and app.query_params["merged"] == "1"
    assert opened(HEADS, text="床前明月光", merged="1").toggle(key="control-merged").value


def test_a_key_that_is_masked_is_said_to_have_no_weight():
    assert "masked, so no weight" in titles(opened(HEADS, tab="number", query="21", key="28"))
    assert re.search("Query 21 .* key 3 .*score", titles(opened(HEADS, tab="number", query="21", key="3")))


def test_what_each_head_does_is_said_of_the_selected_one():
    there = titles(opened(HEADS, tab="does", layer="2", head="5"))
    assert "## Layer 2, head 5: " in there and re.search("of 32 heads put .* on the first token", there)
