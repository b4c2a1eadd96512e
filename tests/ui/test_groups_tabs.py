"""All tabs of the query-grouping page at edge-case settings, without a browser."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from streamlit.testing.v1 import AppTest

from attnviz.compute import models
from attnviz.compute import query_groups as compute_groups
from attnviz.experiments.conversion import group_kv_heads, reorder_heads
from attnviz.figures.group_quality import AVERAGED, BEST, FIRST, TRAINED
from attnviz.session.settings import Settings
from attnviz.trace import predict
from tests.pages import GROUPS, behind, opened, said, sentences

PARTS = ["equal", "work", "cost", "maps", "alike", "latent"]
SIX_HEADS = {"model": "own", "n_heads": "6", "n_kv_heads": "3", "d_model": "96", "n_layers": "2", "qkv_bias": "1"}
SETTINGS = {
    "one token": {"text": "a"},
    "one head": {"model": "own", "n_heads": "1", "n_layers": "1"},
    "largest": {"model": "own", "n_heads": "16", "n_kv_heads": "8", "d_model": "384", "n_layers": "8"},
    "window of one, no mask, no rope": {"model": "mha", "window": "1", "causal": "0", "rope": "0"},
    "long": {"text": "word " * 600, "model": "mqa"},
}
SAID = {
    ("cost", "one token"): "Type a longer text",
    ("maps", "one token"): "Type a longer text",
    ("maps", "largest"): "too large to convert",
    ("maps", "window of one, no mask, no rope"): "nothing is merged",
}


def chosen_of(app: AppTest) -> str:
    """Return the tab that is open."""
    return app.segmented_control(key="control-tab").value


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.slow
def test_every_part_has_a_picture_or_a_sentence(part, name):
    """MLA and other numbers of heads: tests/test_printed_equations.py."""
    app = opened(GROUPS, closer=part, tiled="1", head="15", layer="7", **SETTINGS[name])
    assert chosen_of(app) == part
    assert SAID.get((part, name), "") in sentences(app)
    assert {"stored", "diagram"} <= {part.proto.id.split("-")[-1] for part in app.get("bidi_component")}
    shown = bool(app.get("plotly_chart") or app.info)  # the rest of the page has none
    assert shown or (part == "equal" and any("equivalent formulations agree" in text.value for text in app.markdown))


def test_untrained_heads_are_called_so():
    app = opened(GROUPS, closer="maps", **SIX_HEADS)
    assert any("Untrained heads have learnt nothing" in caption.value for caption in app.caption)
    assert "untrained, seed 0" in said(app).replace("\\", "")  # of Markdown


def test_untrained_weights_have_no_loss_that_sharing_could_cost():
    app = opened(GROUPS, closer="cost", tiled="1", **SIX_HEADS)
    assert "untrained weights predict nothing" in sentences(app)
    assert not app.get("plotly_chart")
    said = " ".join(text.value for text in app.markdown)
    assert "read the wrong KV head" in said and "The loss goes" not in said


def test_a_long_text_has_its_equalities_on_its_first_tokens():
    short, long = (behind(opened(GROUPS, text="word " * n)) for n in (20, 100))
    assert "input for this text." in short and "input for the first 64 tokens of this text." in long


def test_what_sharing_costs_is_each_checkpoint_s_own_loss():
    settings, ids = Settings(window=5), tuple(range(3, 60, 4))
    trained = compute_groups.losses_of_sharing(settings, ids)[TRAINED]
    members = {member.name: member.losses for member in compute_groups.members_of(settings, ids)}
    for model, name in (("mha", "MHA"), ("gqa-4", "GQA-4"), ("gqa-2", "GQA-2"), ("mqa", "MQA"), ("mla", "MLA")):
        variant = replace(settings, model=model)
        logits = torch.tensor(predict(models.model_of(variant), ids)).double()
        loss = float(torch.nn.functional.cross_entropy(logits[:-1], torch.tensor(ids[1:])))
        assert len(members[name]) == len(ids) - 1 and members[name].mean() == pytest.approx(loss, rel=1e-5)
        if model != "mla":
            assert trained[models.config_of(variant).n_kv_heads].mean() == pytest.approx(loss, rel=1e-5)
    assert len(members) == 5 and sorted(trained) == [1, 2, 4, 8]


def test_with_one_group_the_best_partners_are_all_heads():
    settings, ids = Settings(window=6), tuple(range(3, 60, 4))
    losses = compute_groups.losses_of_sharing(settings, ids)
    assert all(list(by_number) == [1, 2, 4, 8] for by_number in losses.values())  # a line goes through them
    base = compute_groups.base_of(settings)
    mha, before = models.model_of(base), models.trace_of(base, ids)
    groups = [compute_groups.best_grouping(before, layer, 1) for layer in range(mha.config.n_layers)]
    regrouped = group_kv_heads(reorder_heads(mha, [sum(group, ()) for group in groups]), 1)
    logits = torch.tensor(predict(regrouped, ids)).double()
    loss = float(torch.nn.functional.cross_entropy(logits[:-1], torch.tensor(ids[1:])))
    assert losses[BEST][1].mean() == pytest.approx(loss, rel=1e-5)


def test_predictions_drift_from_those_of_the_multi_head_model():
    settings, ids = Settings(), tuple(range(3, 60, 4))
    before, after = (
        torch.tensor(predict(models.model_of(replace(settings, model=model)), ids)).double().log_softmax(-1)
        for model in ("mha", "gqa-2")
    )
    by_hand = (before.exp() * (before - after)).sum(-1)
    drifts = compute_groups.drifts_of(settings, ids, 2)
    assert list(drifts) == [TRAINED, AVERAGED, FIRST]
    np.testing.assert_allclose(drifts[TRAINED], by_hand, atol=1e-5)
    assert all(not drift.any() for drift in compute_groups.drifts_of(settings, ids, 8).values())
