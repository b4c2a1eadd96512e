"""Every page and tab with a layer that has a state shows a picture, or a sentence that its mechanism says."""

from dataclasses import replace

import pytest

from attnviz.compute import models
from attnviz.compute.placeholders import MISSING, OF_ROTATION, PLACEHOLDERS, filled
from attnviz.compute.view import View
from attnviz.mechanisms import GatedDelta
from attnviz.mistakes import CannotOccur, all_mistakes, load_mistake
from attnviz.modules import Transformer
from attnviz.session.pages import PAGES
from attnviz.session.settings import Settings
from tests.mixed import HYBRID
from tests.pages import DECODE, HEADS, STEPS, opened, pictures, said, sent, sentences
from tests.walk import decode_little

pytestmark = pytest.mark.slow

CONFIG = replace(HYBRID, vocab_size=2048)
TEXT = "the cat that the dog saw saw the cat"
IDS = [5, 7, 2, 5, 19, 30, 0, 5, 7, 11]
REFUSED = {"writes": "writes", "number": "score", "stages": "score", "rollout": "rollout", "masks": "masks",
           "cross": "cross-attention"}  # fmt: skip


@pytest.fixture(autouse=True)
def hybrid(monkeypatch):
    monkeypatch.setattr(models, "config_of", lambda settings: CONFIG)
    monkeypatch.setattr(models, "run_of", lambda settings: models.Run(("own", CONFIG, 3), CONFIG))
    decode_little(monkeypatch, n_read=24)


@pytest.mark.parametrize("page", ["heads", "rope", "steps", "decode", "query_groups"])
def test_each_tab_draws_or_says_why_not(page):
    for tab in PAGES[page].tabs:
        app = opened(PAGES[page].file, text=TEXT, model="own", layer="0", head="4", bound="16", tab=tab)
        assert not app.error and not app.warning, (page, tab, sentences(app))
        assert pictures(app) or sentences(app), (page, tab)
        if page == "heads" and tab in REFUSED:
            assert GatedDelta.refusals[REFUSED[tab]] in sentences(app)


def test_what_is_said_of_a_head_with_effective_weights():
    app = opened(HEADS, text=TEXT, model="own", layer="0", head="4", tab="does")
    text = said(app)
    assert GatedDelta.shares_note in text and "the weights of each row sum to 1" not in text
    assert "reads key head 2" in sent(app) and "expanded from the latent" not in sent(app)
    assert "may be negative (grey)" in sent(app)


def test_the_loop_over_tokens_is_folded_and_the_state_is_in_numbers():
    assert "The loop over" in said(opened(STEPS, text=TEXT, model="own", layer="0", query="3"))
    assert "The loop over" not in said(opened(STEPS, text=TEXT, model="own", layer="1", query="3"))
    app = opened(DECODE, text=TEXT, model="own", layer="0")
    assert "2 layers then keep a state of 3,984 B together, however long the text is" in said(app)
    assert "state and convolution: 210 + 288 = 498 numbers, 1,992 B" in sent(app)


def test_each_mistake_shows_in_it_or_is_refused_in_a_sentence():
    model, refused = Transformer.random(CONFIG, seed=3), 0
    for name in all_mistakes():
        try:
            found = load_mistake(name).symptom(model, IDS)
        except CannotOccur as reason:
            refused += 1
            assert str(reason).endswith(".")
        else:
            assert found.sentence
    assert 0 < refused < len(all_mistakes()) / 2


@pytest.mark.parametrize("layer", [0, 1])
def test_each_placeholder_of_a_lesson_has_a_value_or_a_dash(layer):
    view = View(Settings(text=TEXT, model="own", layer=layer, head=4))
    for name in PLACEHOLDERS:
        text = filled(f"{{{name}}}", view)
        assert text and (layer or name not in OF_ROTATION or text == MISSING), name
