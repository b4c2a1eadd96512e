"""pytest tests/test_heads_runs.py: what the heads page computes besides the trace, against models run by hand."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from attnviz.analysis import heads as analysis
from attnviz.compute import heads as heads_runs
from attnviz.compute import models as runs
from attnviz.session.settings import Settings
from attnviz.trace import trace

OWN = Settings(model="own", n_layers=2, n_heads=6, n_kv_heads=3, d_model=60, mask_window=4, mask_sinks=2)
IDS = tuple(range(5, 18))


def test_the_masks_are_those_that_were_chosen():
    found = heads_runs.masked_of(OWN, IDS, 1)
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


def test_losses_are_torchs_cross_entropy_behind_the_padding():
    losses = heads_runs.masked_of(OWN, IDS, 0).losses
    for loss, window, kept in ((losses[0], None, 0), (losses[1], 4, 0), (losses[2], 4, 2)):
        model = runs.model_of(OWN)
        model = model.with_config(replace(model.config, sliding_window=window, n_sinks=kept))
        logits = model(torch.tensor([IDS]))[0].detach()
        assert loss == pytest.approx(float(F.cross_entropy(logits[3:-1], torch.tensor(IDS[4:]))), abs=1e-5)


def test_a_single_token_has_no_loss():
    assert heads_runs.masked_of(OWN, IDS[:1], 0).losses == []


def test_the_mask_in_force_is_recognised_and_a_click_would_put_any_in_force():
    for i, mask in enumerate(heads_runs.masks_of(OWN)):
        chosen = replace(OWN, **mask.fields())
        assert [m.in_force(chosen) for m in heads_runs.masks_of(chosen)] == [j == i for j in range(5)]


@pytest.mark.parametrize("window", [9, 63, 64, 200])
def test_roles_are_scored_as_the_window_in_force_lets_the_heads_see(window):
    model = runs.model_of(OWN)
    model = model.with_config(replace(model.config, sliding_window=window))
    probes = analysis.probes(model.config.vocab_size, heads_runs.PERIOD, heads_runs.N_PROBES)
    by_hand = [analysis.role_scores(trace(model, ids).weights, heads_runs.PERIOD) for ids in probes]
    found = heads_runs.scores_of(replace(OWN, window=window))
    for role in analysis.ROLES:
        np.testing.assert_allclose(found[role], np.mean([each[role] for each in by_hand], axis=0), atol=1e-5)
