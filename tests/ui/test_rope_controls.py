"""Controls of the RoPE page: each moves the sentences that it is about."""

import re

import pytest

from attnviz.session.shared import OWN_THETA
from tests.ui.test_heads_controls import titles
from tests.ui.test_rope_page import opened

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("no_links_to_pages")]


def test_theta_slows_the_pairs_down():
    app = opened()
    assert "## Pair 0 repeats every 6.28 positions, pair 11 every 29,164" in titles(app)
    theta = app.select_slider(key="control-theta").set_value(10_000_000.0)
    assert "## Pair 0 repeats every 6.28 positions, pair 11 every 16" in titles(theta.run())
    assert any("base is 10,000,000; training used 10,000" in each.value for each in (*app.info, *app.warning))
    assert float(app.query_params["theta"]) == 1e7
    app.select_slider(key="control-theta").set_value(100.0).run()
    assert "## Pair 0 repeats every 6.28 positions, pair 11 every 428" in titles(app)
    assert "10,000" in theta.options
    app.select_slider(key="control-theta").set_value(OWN_THETA).run()
    assert "pair 11 every 29,164" in titles(app) and "theta" not in app.query_params


def test_a_part_of_the_dimensions_can_turn():
    app = opened(tab="without", fraction="1")
    assert re.search("24 of 24 dimensions rotated: weights change by up to 0$", titles(app), re.MULTILINE)
    app.slider(key="control-fraction").set_value(0.0).run()
    without = re.search("Without RoPE: weights change by up to (.+)", titles(app))[1]
    assert re.search(f"0 of 24 dimensions rotated: weights change by up to {without}$", titles(app), re.MULTILINE)


def test_the_decoupled_key_opens_with_the_mla_checkpoint():
    app = opened()
    app.segmented_control(key="control-tab").set_value("latent").run()
    next(button for button in app.button if button.label == "Show it with the MLA checkpoint").click().run()
    for part in ("Content part", "RoPE part", "Their sum"):
        assert f"## {part}: standard deviation" in titles(app)
    assert dict(app.query_params) == {"model": "mla", "tab": "latent", "selection": "auto"}


def test_with_rope_off_the_page_says_so():
    app = opened(rope="0")
    assert any("this page shows the rotations" in info.value for info in app.info)
    assert "## Pair 0 repeats every 6.28 positions" in titles(app)
