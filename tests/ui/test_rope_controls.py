"""Controls of the RoPE page: each moves the sentences that it is about."""

import math

import pytest

from attnviz.session.shared import OWN_THETA
from tests.pages import ROPE, opened, sentences, titles
from tests.reading import numbers_where

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("no_links_to_pages")]

TURNS = "Pair # repeats every # positions, pair # every #"


def test_theta_slows_the_pairs_down():
    app = opened(ROPE)
    assert numbers_where(TURNS, titles(app)) == [0, 6.28, 11, 29_164]  # pairs, and positions of a turn
    theta = app.select_slider(key="control-theta").set_value(10_000_000.0)
    slower = 2 * math.pi * 1e7 ** (11 / 12)
    assert numbers_where(TURNS, titles(theta.run())) == [0, 6.28, 11, pytest.approx(slower, rel=0.005)]
    assert numbers_where("base is #; training used #", sentences(app)) == [10_000_000, 10_000]
    assert float(app.query_params["theta"]) == 1e7
    app.select_slider(key="control-theta").set_value(100.0).run()
    assert numbers_where(TURNS, titles(app)) == [0, 6.28, 11, 428]
    assert "10,000" in theta.options
    app.select_slider(key="control-theta").set_value(OWN_THETA).run()
    assert numbers_where(TURNS, titles(app))[3] == 29_164 and "theta" not in app.query_params


def test_a_part_of_the_dimensions_can_turn():
    app = opened(ROPE, tab="without", fraction="1")
    changes = "# of # dimensions rotated: weights change by up to #(?:\n|$)"
    assert numbers_where(changes, titles(app)) == [24, 24, 0]
    app.slider(key="control-fraction").set_value(0.0).run()
    without = numbers_where("Without RoPE: weights change by up to #", titles(app))
    assert numbers_where(changes, titles(app)) == [0, 24, *without]


def test_the_decoupled_key_opens_with_the_mla_checkpoint():
    app = opened(ROPE)
    app.segmented_control(key="control-tab").set_value("latent").run()
    next(button for button in app.button if button.label == "Show it with the MLA checkpoint").click().run()
    for part in ("Content part", "RoPE part", "Their sum"):
        assert f"## {part}: standard deviation" in titles(app)
    assert dict(app.query_params) == {"model": "mla", "tab": "latent", "selection": "auto"}


def test_with_rope_off_the_page_says_so():
    app = opened(ROPE, rope="0")
    assert len(app.info) == 1 and "RoPE" in app.info[0].value
    assert numbers_where(TURNS, titles(app))[:2] == [0, 6.28]
