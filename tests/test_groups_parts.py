"""pytest tests/test_groups_parts.py: every part of the query-groups page under hard settings, without a browser."""

import json

import pytest
from streamlit.testing.v1 import AppTest

from tests.test_pages import opened, sentences

PARTS = ["equal", "work", "cost", "maps", "alike", "latent"]
SETTINGS = {
    "one token": {"text": "a"},
    "one head": {"model": "own", "n_heads": "1", "n_layers": "1"},
    "six heads": {"model": "own", "n_heads": "6", "n_kv_heads": "3", "d_model": "96", "n_layers": "2", "qkv_bias": "1"},
    "sixteen heads": {"model": "own", "n_heads": "16", "n_kv_heads": "4", "d_model": "128", "n_layers": "1"},
    "largest": {"model": "own", "n_heads": "16", "n_kv_heads": "8", "d_model": "384", "n_layers": "8"},
    "window of one": {"model": "mha", "window": "1"},
    "no mask, no rope": {"causal": "0", "rope": "0"},
    "latent": {"model": "mla"},
    "long": {"text": "word " * 600, "model": "mqa"},
}


def chosen_of(app: AppTest) -> str:
    """The part that the page's `one_of` says is shown."""
    shown = (each.proto for each in app.get("bidi_component"))
    return next(json.loads(each.bytes)["chosen"] for each in shown if each.component_name.endswith("one_of"))


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("part", PARTS)
def test_every_part_has_a_picture_or_a_sentence(part, settings):
    app = opened("pages/2_query_groups.py", closer=part, tiled="1", head="15", layer="7", **settings)
    assert chosen_of(app) == part
    assert {"stored", "diagram"} <= {part.proto.id.split("-")[-1] for part in app.get("bidi_component")}
    shown = bool(app.get("plotly_chart") or app.info)  # the rest of the page has none
    assert shown or (part == "equal" and any("said in several ways" in text.value for text in app.markdown))


@pytest.mark.parametrize("part", ["cost", "maps"])
def test_what_cannot_be_compared_is_said(part):
    page = "pages/2_query_groups.py"
    assert "Type a longer text" in sentences(opened(page, closer=part, text="a"))
    assert "too large to be converted" in sentences(opened(page, closer=part, **SETTINGS["largest"]))


def test_where_nothing_is_merged_the_maps_say_so():
    assert "Nothing is merged here" in sentences(opened("pages/2_query_groups.py", closer="maps", model="mha"))


def test_untrained_heads_are_called_so():
    app = opened("pages/2_query_groups.py", closer="cost", **SETTINGS["six heads"])
    assert any("Untrained heads have learnt nothing" in caption.value for caption in app.caption)
    assert any("untrained, seed 0" in text.value for text in app.markdown)
