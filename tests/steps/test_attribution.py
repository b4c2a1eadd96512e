"""The attribution of a logit is what the Heads page shows, and adds up to the model's logit minus the mean."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from attnviz.compute import heads
from attnviz.compute import steps as compute
from attnviz.compute.view import View
from attnviz.config import ModelConfig
from attnviz.experiments.residual import residual
from attnviz.modules import Transformer
from attnviz.session.settings import Settings

RMS = ModelConfig(3, 6 * 14, 6, 2, d_ff=37, vocab_size=113, tie_embeddings=False)
LAYER_NORM = replace(RMS, norm="layernorm", norm_bias=True, position="learned", learned_position_rows=9, ffn="gelu")
IDS = (5, 17, 5, 17, 101, 3, 5)


@pytest.mark.parametrize(("model", "token"), [("mqa", 101), ("mla", 17)])
def test_attention_adds_what_its_heads_write_on_the_heads_page(model, token):
    view = View(Settings(model=model, query=5))
    bars = dict(zip(compute.logit_part_names(view), compute.attribution_of(view, 5, token), strict=True))
    for layer in (0, view.config.n_layers - 1):
        effects = [heads.logit_effects_of(view.but(layer=layer, head=h))[token] for h in range(view.config.n_heads)]
        assert bars[f"attention {layer}"] == pytest.approx(sum(effects), abs=1e-4)
    logits = view.trace.logits[5].astype(np.float64)
    assert sum(bars.values()) == pytest.approx(logits[token] - logits.mean(), abs=1e-4)
    assert compute.logit_of(view, 5, token) == pytest.approx(logits[token] - logits.mean(), abs=1e-4)
    assert abs(logits.mean()) > 0.1  # the mean matters on this text


@pytest.mark.parametrize("config", [RMS, LAYER_NORM])
def test_each_bar_is_the_change_of_the_logit_minus_that_of_all_tokens(config, monkeypatch):
    """By torch's own norm and unembedding: each part is taken away while the norm's divisor stays the same."""
    model, position, token = Transformer.random(config, 3), 4, 29
    for parameter in model.parameters():
        parameter.data.normal_(std=0.3)
    written = residual(model, IDS)
    monkeypatch.setattr(View, "model", model)
    monkeypatch.setattr(compute, "residual_of", lambda _: written)
    monkeypatch.setattr(View, "config", config)
    view = View(Settings())
    bars = compute.attribution_of(view, position, token)
    with torch.inference_mode():
        logits, parts = model(torch.tensor([IDS]))[0, position], written.parts[:, position]
        whole = model.norm(parts.sum(0))
        mean = parts.mean(-1, keepdim=True) if config.norm_bias else torch.zeros(len(parts), 1)
        stream = parts.sum(0) - mean.sum()
        scale = model.norm.weight / (stream.square().mean() + model.norm.eps).sqrt()
        for bar, part, m in zip(bars, parts, mean, strict=False):
            change = logits - model.unembedded(whole - (part - m) * scale)
            assert bar == pytest.approx(float(change[token] - change.mean()), abs=1e-4)
    assert len(bars) == 7 + config.norm_bias
    assert sum(bars) == pytest.approx(float(logits[token] - logits.mean()), abs=1e-4)
    assert compute.logit_of(view, position, token) == pytest.approx(float(logits[token] - logits.mean()), abs=1e-4)
