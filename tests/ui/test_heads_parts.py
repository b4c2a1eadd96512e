"""pytest tests/test_heads_parts.py: every closer look of the heads page, for texts and models at their limits."""

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from attnviz.session.pages import PAGES

APP = Path(__file__).parents[2] / "app.py"
VIEWS = {
    "one token": {"text": "a"},
    "Chinese, latent": {"text": "小女孩在花园里。", "model": "mla", "layer": "3", "head": "7"},
    "long and many": {"text": "a **x** $y$ <b> " * 60, "model": "own", "n_heads": "14", "d_model": "280"},
    "padding, window": {"padding": "500", "window": "2", "n_sinks": "1", "model": "mqa", "rope": "0"},
}


def opened(**link: str) -> AppTest:
    app = AppTest.from_file(APP, default_timeout=120)
    app.switch_page("pages/1_heads.py")
    for name, value in link.items():
        app.query_params[name] = value
    app.run()
    assert not app.exception, [e.value for e in app.exception]
    return app


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
@pytest.mark.parametrize("part", PAGES["heads"].tabs)
def test_every_part_opens_for_any_text_and_model(part, view):
    app = opened(tab=part, pinned="0.3,7.15", **view)
    assert not app.error
