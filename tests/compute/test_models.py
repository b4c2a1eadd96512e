"""Models and traces stay within their caches' limits and are referenced nowhere else."""

import gc
import re
import weakref
from dataclasses import replace

import numpy as np
import pytest

from attnviz.compute import models
from attnviz.compute.byte_cache import ByteCache
from attnviz.compute.view import View
from attnviz.config import ConfigError
from attnviz.modules import Transformer
from attnviz.session.settings import Settings
from attnviz.session.shared import widths

SMALL = Settings(model="own", n_layers=1, n_heads=2, n_kv_heads=1, d_model=16, text="a dog")


@pytest.mark.parametrize("padded", [False, True])
def test_a_view_holds_neither_the_model_nor_the_trace(padded: bool) -> None:
    """Sessions hold views, and forty sessions must not hold forty traces."""
    view = View(SMALL, padded)
    assert view.trace.weights.shape[:2] == (1, 2) and view.model.config == view.config
    assert not [name for name, value in vars(view).items() if hasattr(value, "nbytes") or hasattr(value, "parameters")]


def test_models_are_kept_within_their_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    one = models._loaded(Transformer.random(SMALL.own_weights(), 0), "own").nbytes
    cache = ByteCache(2 * one)
    monkeypatch.setattr(models, "_own", cache)
    models.model_of(SMALL)
    first = weakref.ref(cache.get(models.weights_key(SMALL), pytest.fail).model)
    for seed in (1, 2):
        models.model_of(replace(SMALL, seed=seed))
    gc.collect()
    assert first() is None


def test_a_model_takes_the_bytes_of_its_parameters() -> None:
    kept = models._loaded(Transformer.random(SMALL.own_weights(), 0), "own")
    assert kept.nbytes == 4 * sum(p.numel() for p in kept.model.parameters())


@pytest.mark.usefixtures("no_checkpoints")
def test_a_missing_checkpoint_is_a_sentence() -> None:
    assert "There is no checkpoint mqa" in models.problem_of(Settings(model="mqa"))


def test_one_that_is_there_is_none() -> None:
    assert models.problem_of(Settings(model="mqa")) is None


def test_untrained_models_do_not_drive_the_checkpoints_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "_own", ByteCache(1))
    first = models.model_of(Settings(model="mqa"))
    models.model_of(SMALL)
    monkeypatch.setattr(models, "load_checkpoint", pytest.fail)
    assert models.model_of(Settings(model="mqa")).embed is first.embed


def test_a_model_that_is_too_large_is_refused_with_the_width_that_fits():
    large = Settings(model="own", n_layers=32, n_heads=32, d_model=384)
    with pytest.raises(ConfigError, match=r"With 32 layers of 32 heads, a d_model of (\d+) fits") as raised:
        models.model_of(large)
    width = int(re.search(r"d_model of (\d+)", str(raised.value))[1])
    assert models.run_of(replace(large, d_model=width)).problem == ""
    assert models.run_of(replace(large, d_model=next(w for w in widths(32) if w > width))).problem != ""


def test_a_loaded_model_has_run_once_before_its_trace_is_timed(monkeypatch):
    ran = []
    monkeypatch.setattr(models, "predict", lambda model, ids: ran.append(model) or np.zeros(1))
    loaded = models._loaded(Transformer.random(SMALL.own_weights(), 0), "own")
    assert ran == [loaded.model]
