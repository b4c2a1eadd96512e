"""Every page, and the tabs with a row or choice per layer, with an opened model of 30 layers of 9 heads."""

from pathlib import Path

import pytest

from attnviz.session import openable
from attnviz.session.pages import ALL
from tests.checkpoints.tall import L, save_tall
from tests.pages import opened, pictures, sentences
from tests.ui.test_opened_pages import DRAW_NOTHING
from tests.walk import decode_little

pytestmark = pytest.mark.slow

PER_LAYER = ("does", "rollout", "off", "cross", "lens", "residual", "work")
PLACES = [(page, tab) for page in ALL for tab in dict.fromkeys(("", *(t for t in page.tabs if t in PER_LAYER)))]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tall(tmp_path_factory.mktemp("tall"))


def test_every_page_draws_thirty_layers(folder, monkeypatch):
    monkeypatch.setenv(openable.ALLOWED, str(folder))
    decode_little(monkeypatch, n_read=24)
    for page, tab in PLACES:
        app = opened(page.file, model=str(folder), layer=str(L - 1), bound="16", **({"tab": tab} if tab else {}))
        assert not app.error and not app.warning, (page.path, tab, sentences(app))
        # Linear and sparse opens on the state, which a model with attention alone does not have.
        assert pictures(app) or page.path in (*DRAW_NOTHING, "linear"), (page.path, tab)
        if tab == "work":
            assert any("trained as GQA-3" in each.value for each in app.caption)
