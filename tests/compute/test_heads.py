"""Computations of the Heads page, compared with models run by hand."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from attnviz.analysis import roles as analysis
from attnviz.analysis.heads import statistics
from attnviz.analysis.rollout import reachable, rollout
from attnviz.analysis.values import logit_effects
from attnviz.compute import ablation, models, vocabulary
from attnviz.compute import heads as compute_heads
from attnviz.compute.view import View
from attnviz.experiments.ablation import ablated, mean_outputs
from attnviz.figures import role_captions
from attnviz.session.settings import Settings
from attnviz.trace import ROWS_AT_ONCE, final_stream, predict, trace

OWN = Settings(model="own", n_layers=2, n_heads=6, n_kv_heads=3, d_model=60, mask_window=4, mask_sinks=2)
IDS = tuple(range(5, 18))


def test_the_masks_are_those_that_were_chosen():
    found = compute_heads.masked_of(OWN, IDS, 1)
    t = np.arange(len(IDS))
    back = t[:, None] - t
    by_hand = [
        back >= 0,
        (back >= 0) & (back < 4),
        (back >= 0) & ((back < 4) | (t < 2)),
        (back >= 0) & (t >= 3),
        np.ones_like(back, bool),
    ]
    np.testing.assert_array_equal(found.allowed, by_hand)
    sums = np.where(found.allowed.any(-1), 1, 0)[:, None].repeat(6, axis=1)
    np.testing.assert_allclose(found.weights.sum(-1), sums, atol=1e-5)
    assert not (found.weights * ~found.allowed[:, None]).any()


def test_losses_are_torchs_cross_entropy_over_all_predictions():
    losses = compute_heads.masked_of(OWN, IDS, 0).losses
    for loss, window, sinks in zip(losses, (None, 4, 4), (0, 0, 2), strict=True):
        model = models.model_of(OWN)
        model = model.with_config(replace(model.config, sliding_window=window, n_sinks=sinks))
        logits = model(torch.tensor([IDS]))[0].detach()
        assert loss == pytest.approx(float(F.cross_entropy(logits[:-1], torch.tensor(IDS[1:]))), abs=1e-5)


def test_the_predicted_next_tokens_are_the_largest_of_the_softmax():
    settings = Settings(text="The little girl went to the forest with her dog. " * 3)  # more than are read at once
    view = View(settings)
    logits = models.model_of(settings)(torch.tensor([view.ids]))[0].detach().double()
    labels = vocabulary.vocabulary(settings)
    found = vocabulary.next_tokens_of(view)
    assert len(found) == len(view.ids) > ROWS_AT_ONCE
    for row, odds in zip(found, logits.softmax(-1).numpy(), strict=True):
        best = np.argsort(-odds)[: vocabulary.MAX_NEXT]
        assert [label for label, *_ in row] == [labels[i] for i in best]
        assert [p for _, p, _ in row] == pytest.approx(odds[best], abs=5.1e-5)  # rounded to four decimals


@pytest.mark.parametrize("padding", [1, 3, 11])
def test_the_loss_is_the_one_that_ablation_starts_from(padding):
    """The loss of a text and model does not depend on the number of padding tokens of another mask."""
    settings = replace(OWN, mask_padding=padding)
    before = ablation.effects_of(settings, IDS, None).before
    assert compute_heads.masked_of(settings, IDS, 0).losses[0] == pytest.approx(before, abs=1e-6)


def test_mean_ablation_has_a_reference_text_of_its_own():
    means = ablation.means_of(replace(OWN, off_way="mean"))
    by_hand = mean_outputs(models.model_of(OWN), ablation.reference(OWN))
    np.testing.assert_array_equal(means, by_hand)
    assert len(ablation.reference(OWN)) == 256 and ablation.means_of(OWN) is None


def not_again(*given, **named):
    pytest.fail("this was computed before")


@pytest.mark.parametrize("way", ["zero", "mean"])
def test_a_prediction_without_heads_runs_the_model_once_for_all_queries(way, monkeypatch):
    settings, off = replace(OWN, off_way=way, seed=21), [(0, 1), (1, 4)]
    model, means = models.model_of(settings), ablation.means_of(settings)
    for heads in ([], off):
        with monkeypatch.context() as patch:
            found = {3: ablation.prediction_of(settings, IDS, heads, 3)}
            patch.setattr(ablation, "final_stream", not_again)
            found[7] = ablation.prediction_of(settings, IDS, heads[::-1], 7)
        logits = torch.tensor(predict(ablated(model, heads, means), IDS)).double()
        loss = float(F.cross_entropy(logits[:-1], torch.tensor(IDS[1:])))
        for query, prediction in found.items():
            np.testing.assert_allclose(prediction.odds, logits[query].softmax(-1), atol=1e-6)
            assert prediction.loss == pytest.approx(loss, abs=1e-5)


def test_results_of_all_layers_are_computed_once_per_run(monkeypatch):
    view = View(replace(OWN, text="one two three four five", average="all", padding=1), padded=True)
    weights, allowed = np.asarray(view.trace.weights), view.trace.allowed
    (shares, reach), found = compute_heads.rollout_of(view), compute_heads.statistics_of(view)
    means, seen = compute_heads.average_of(view)
    np.testing.assert_array_equal(shares, rollout(weights))
    np.testing.assert_array_equal(reach, reachable(allowed))
    np.testing.assert_array_equal(found.distance, statistics(weights, allowed).distance)
    np.testing.assert_array_equal(means, weights.mean(1))
    np.testing.assert_array_equal(seen, allowed.any(0))
    for name in ("rollout", "reachable", "statistics"):
        monkeypatch.setattr(compute_heads, name, not_again)
    other = view.but(query=2, head=3)
    assert compute_heads.rollout_of(other)[0] is shares and compute_heads.rollout_of(other)[1] is reach
    assert compute_heads.average_of(other)[0] is means and compute_heads.statistics_of(other) is found
    for changed in ({"padding": 2}, {"window": 2}, {"seed": 5}):
        with pytest.raises(pytest.fail.Exception):
            compute_heads.rollout_of(view.but(**changed))
        with pytest.raises(pytest.fail.Exception):
            compute_heads.statistics_of(view.but(**changed))
        assert compute_heads.average_of(view.but(**changed))[0] is not means


def test_no_statistics_are_given_where_each_query_has_one_key():
    assert compute_heads.statistics_of(View(replace(OWN, window=1))) is None


def test_the_mean_of_a_layer_is_over_its_heads():
    view = View(replace(OWN, average="layer", layer=1))
    maps, allowed = compute_heads.average_of(view)
    np.testing.assert_array_equal(maps, view.trace.weights[1])
    np.testing.assert_array_equal(allowed, view.trace.allowed[1])


def test_the_effects_of_another_head_do_not_run_the_model_again(monkeypatch):
    view = View(replace(OWN, text="one two three four", seed=3))
    compute_heads.logit_effects_of(view.but(head=1))
    stream = final_stream(view.model, view.ids)[view.query]
    monkeypatch.setattr(compute_heads, "final_stream", not_again)
    effects, output = compute_heads.logit_effects_of(view), compute_heads.writes_of(view).outputs[view.query]
    np.testing.assert_array_equal(effects, logit_effects(output, stream, *compute_heads.readout(view.model)))
    with pytest.raises(pytest.fail.Exception):
        compute_heads.logit_effects_of(view.but(window=2))


def test_a_second_text_is_cut_where_texts_are_compared():
    ids, labels = compute_heads.second_text_of(View(replace(OWN, second_text="a dog " * 99)))
    _, whole, names, *_ = models.read("a dog " * 99)
    assert ids == whole[: compute_heads.MAX_COMPARED] and labels == list(names[: compute_heads.MAX_COMPARED])
    assert compute_heads.second_text_of(View(replace(OWN, second_text=""))) == ((), [])


def test_a_single_token_has_no_loss():
    assert compute_heads.masked_of(OWN, IDS[:1], 0).losses == []


def test_the_selected_mask_is_recognised_and_a_click_selects_any():
    for i, mask in enumerate(compute_heads.masks_of(OWN)):
        chosen = replace(OWN, **mask.fields())
        assert [m.selected(chosen) for m in compute_heads.masks_of(chosen)] == [j == i for j in range(5)]


@pytest.mark.parametrize("window", [9, 63, 64, 200])
def test_roles_are_scored_under_the_window_in_force(window):
    model = models.model_of(OWN)
    model = model.with_config(replace(model.config, sliding_window=window))
    probes = analysis.probes(model.config.vocab_size, compute_heads.PERIOD, compute_heads.N_PROBES)
    traces = [trace(model, ids) for ids in probes]
    by_hand = [analysis.score(t.weights, t.allowed, t.tokens) for t in traces]
    found = compute_heads.scores_of(replace(OWN, window=window))
    for role in analysis.KEYED:
        np.testing.assert_allclose(found.weight[role], np.mean([s.weight[role] for s in by_hand], axis=0), atol=1e-5)
        np.testing.assert_allclose(found.chance[role], by_hand[0].chance[role])
    np.testing.assert_allclose(found.entropy, np.mean([s.entropy for s in by_hand], axis=0), atol=1e-5)
    assert np.isnan(found.weight["induction"]).all() == (window == 9)
    assert f"window of {window}" in compute_heads.probes_of(replace(OWN, window=window)).text()


@pytest.mark.parametrize(
    "settings",
    [OWN, replace(OWN, d_model=24, n_kv_heads=6, seed=7), replace(OWN, window=4), replace(OWN, causal=False)],
)
def test_untrained_heads_have_no_role(settings):
    names = {role.name for row in compute_heads.roles_of(settings) for role in row}
    assert names == {analysis.NO_ROLE}


def test_no_trained_head_is_called_local_or_broad_because_the_window_leaves_it_nothing_else():
    trained = Settings(model="mha", window=4)
    scores = compute_heads.scores_of(trained)
    for layer, row in enumerate(compute_heads.roles_of(trained)):
        for head, role in enumerate(row):
            assert role.name != "local"
            assert role.name != analysis.BROAD or scores.entropy[layer, head] >= analysis.UNIFORM


@pytest.mark.parametrize(
    "settings", [Settings(), Settings(window=3), Settings(causal=False, model="mla"), Settings(padding=11)]
)
def test_a_grid_and_a_head_say_the_same_of_the_text(settings):
    view = View(settings, padded=True)
    found = compute_heads.on_text(view)
    labels, measures = found.labels, found.by_name()
    alone = statistics(np.asarray(view.trace.weights), view.trace.allowed)
    for name, values in zip(compute_heads.MEASURES, (alone.entropy, alone.distance, alone.first_token), strict=True):
        np.testing.assert_allclose(measures[name], values, atol=1e-6)
    for layer, head in ((0, 0), (1, 3), (2, 6), (3, 7)):
        weights, allowed = view.trace.weights[layer, head], view.trace.allowed[layer]
        here = analysis.score(weights[None, None], allowed[None], view.trace.tokens).of(0, 0)
        column = analysis.largest_columns(weights[None], allowed)[0]
        assert labels[layer][head] == role_captions.text_label(here, column)
        kept, key = compute_heads.text_scores_of(view, layer, head)
        assert (key and key.key) == (column and column.key) and kept.distance == pytest.approx(here.distance, abs=1e-5)
        assert {name: share.weight for name, share in kept.shares.items()} == pytest.approx(
            {name: share.weight for name, share in here.shares.items()}, abs=1e-6
        )


def test_a_head_is_scored_alone_where_its_layer_has_not_been_reached():
    view = View(Settings(text="one two one two"))
    assert compute_heads.on_text(view, stopped=True).scores == []
    alone = compute_heads.text_scores_of(view, 1, 3)[0]
    compute_heads.on_text(view)
    assert compute_heads.text_scores_of(view, 1, 3)[0].distance == pytest.approx(alone.distance, abs=1e-5)


def test_layers_arrive_one_by_one_and_go_on_where_they_were_interrupted(monkeypatch):
    view = View(replace(OWN, n_layers=5, text="one two three four"))
    arrived, more = [], iter([False, False, True])
    monkeypatch.setattr(compute_heads.queue, "rerun_requested", lambda: next(more, False))
    tell = lambda *layer: arrived.append(layer)  # noqa: E731
    found = compute_heads.on_text(view, tell)
    assert [layer for layer, *_ in arrived] == [0, 1] and len(found.labels) == 2
    assert found.by_name()["distance"].shape == (2, 6)
    again = compute_heads.on_text(view, tell)
    assert [layer for layer, *_ in arrived] == [0, 1, 2, 3, 4] and len(again.labels) == 5
    assert all(one is view.trace.layers[layer] for layer, one in arrived)
    compute_heads.on_text(view, tell)
    assert len(arrived) == 5  # cached: the callback is not called again


def test_a_head_is_most_alike_to_itself_and_the_order_is_by_the_difference():
    ranked = compute_heads.most_similar(Settings(), 1, 3, Settings())
    assert ranked[0] == (1, 3, 0.0) and len(ranked) == 4 * 8
    assert [apart for *_, apart in ranked] == sorted(apart for *_, apart in ranked)
    scores = compute_heads.scores_of(Settings())
    layer, head, apart = ranked[5]
    pairs = [(scores.weight[r][1, 3], scores.weight[r][layer, head]) for r in analysis.NAMED]
    pairs.append((scores.entropy[1, 3], scores.entropy[layer, head]))
    assert apart == pytest.approx(np.mean([abs(a - b) for a, b in pairs]))
    alone = Settings(window=1)  # each query attends to itself: no role, and no entropy
    assert compute_heads.most_similar(alone, 1, 3, alone) == []
