"""The checkpoints beside the family on the pages: a picture, or one sentence that says why there is none."""

import pytest

from attnviz.config import FAMILY, SHIPPED
from tests.pages import COST, DECODE, GROUPS, HEADS, STEPS, opened, sentences, shown

OTHER = "has more in its layers than one of these"


@pytest.mark.parametrize(
    ("page", "link", "said"),
    [
        (HEADS, {"model": "sinks", "layer": "1", "head": "3"}, "is the share of the head's learned sink"),
        (HEADS, {"model": "shared", "layer": "3", "head": "0"}, "in the cache of layer 1"),
        (DECODE, {"model": "shared", "tab": "paged"}, "blocks"),
        (STEPS, {"model": "shared", "layer": "2"}, "CacheReadingAttention.forward"),
    ],
)
def test_what_is_particular_is_said(page, link, said):
    app = opened(page, **link)
    assert said in shown(app) and not sentences(app)


@pytest.mark.parametrize(
    ("page", "link", "why"),
    [
        (GROUPS, {"model": "shared"}, OTHER),
        (GROUPS, {"model": "sinks"}, OTHER),
        (DECODE, {"model": "sinks", "tab": "bounded"}, "That of 32 tokens is this model's own"),
        (STEPS, {"model": "sinks", "tab": "tiles"}, "The tiles are computed without one"),
        (COST, {"model": "shared", "tab": "measured"}, "Choose MHA, GQA, MQA or MLA"),
    ],
)
def test_what_cannot_be_drawn_is_refused_in_a_sentence(page, link, why):
    app = opened(page, **link)
    assert why in shown(app) and not app.error


def test_they_are_in_the_sidebars_list():
    (models,) = [box for box in opened(HEADS).sidebar.selectbox if box.label == "Model"]
    names = [option.partition(" · ")[0] for option in models.options]
    assert names[: len(SHIPPED)] == list(SHIPPED.values()) and {*SHIPPED} > {*FAMILY}
