"""Controls of the Step by step page."""

import pytest

from attnviz.compute import steps as compute
from attnviz.compute.view import View
from attnviz.session.pages import PAGES
from attnviz.session.settings import Settings
from attnviz.ui.pages.steps import SELECTED_BY
from tests.pages import STEPS, opened

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("no_links_to_pages")]
LABELS = {"layer": "Layer", "head": "Head", "query": "Query token", "key": "Key token"}


@pytest.mark.parametrize("tab", PAGES["steps"].tabs)
def test_a_tab_has_the_controls_of_what_it_shows(tab):
    shown = [box.label for box in opened(STEPS, tab=tab).main.selectbox]
    assert [label for label in shown if label in LABELS.values()] == [LABELS[name] for name in SELECTED_BY[tab]]


def test_the_layer_that_is_read_is_chosen_above_what_it_changes():
    main = opened(STEPS, tab="lens").main
    kinds = [node.type for node in main]
    assert kinds.index("plotly_chart") > max(i for i, kind in enumerate(kinds) if kind == "button_group")


@pytest.mark.parametrize("tab", PAGES["steps"].tabs)
def test_the_source_below_is_spoken_of_where_there_is_one(tab):
    main = opened(STEPS, tab=tab).main
    said = [text.value for text in (*main.caption, *main.markdown) if "source below" in text.value]
    assert bool(said) == (tab in ("walk", "step"))


def test_the_walk_opens_on_a_line_that_makes_something_and_its_signature_by_its_number():
    for model in ("gqa-4", "mla", "hybrid"):
        view = View(Settings(model=model))
        walk = compute.walk_of(view)
        opening = walk.stops[compute.stop_of(view, walk)]
        assert "embedding" in opening.operations, model
        assert compute.stop_of(view.but(step=0), walk) == 0 and not walk.stops[0].operations
