"""Published models of several kinds of layers on the Cost page, in every tab; the plot of all models by year."""

import pytest

from attnviz.cost import load_presets
from attnviz.cost.cached import state_bytes
from attnviz.session.pages import PAGES
from tests.pages import COST, opened, shown
from tests.reading import numbers_where

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("no_links_to_pages")]
TABS = [tab for tab in PAGES["cost"].tabs if tab not in ("facts", "measured")]


@pytest.mark.parametrize("id", ["qwen3-next-80b-a3b", "mamba-2.8b", "llama-4-scout", "deepseek-v4-flash"])
def test_a_model_whose_layers_differ_is_answered_for_in_every_tab(id):
    model = load_presets()[id]
    for tab in TABS:
        there = shown(opened(COST, tab=tab, preset=id, n_machines="8", compare=f"llama-3-8b,{id}"))
        assert model.name.partition(" (")[0] in there.replace("\\", "")
    there = shown(opened(COST, tab="published", preset=id))
    assert "No other type of attention is compared" in there


def test_all_models_are_drawn_by_year_and_the_link_keeps_it():
    app = opened(COST, tab="published")
    assert "caches less per token than" in shown(app)
    next(each for each in app.button_group if each.label == "All models by").set_value("year").run()
    assert not app.exception and app.query_params["by"] == "year"
    assert len(numbers_where("Median cache per token of these models: # KiB in #, # KiB in #", shown(app))) == 4
    assert "Median cache per token" in shown(opened(COST, tab="published", by="year"))


def test_models_with_a_state_are_listed_by_their_kind():
    app = opened(COST, tab="models", kinds="state")
    listed = app.dataframe[0].value
    with_state = {m.name.partition(" (")[0] for m in load_presets().values() if state_bytes(m)}
    assert set(listed["model"]) == with_state and len(with_state) == 31
    assert numbers_where("NVIDIA H100 SXM: # of # models", shown(app))[1] == 31


def test_a_hybrids_configuration_can_be_taken_and_counted():
    app = opened(COST, tab="facts", preset="kimi-linear-48b-a3b")
    next(each for each in app.button if each.label.startswith("Start from Kimi Linear")).click().run()
    assert not app.exception and "20 × " in shown(app) and "**Kimi Linear" in shown(app)
