"""A layerwise trace equals a full one layer by layer, with a fraction of the memory."""

from types import SimpleNamespace

import numpy as np
import pytest

from attnviz.config import ModelConfig
from attnviz.layerwise import LayerwiseTrace, LazyLayers, layer_bytes
from attnviz.modules import Transformer
from attnviz.trace import final_stream, trace
from tests.mixed import MIXED

PLAIN = ModelConfig(5, 6 * 14, 6, 3, head_dim=10, d_ff=37, vocab_size=113, sliding_window=4, full_layers=(1, 4))
GEMMA = ModelConfig(5, 6 * 14, 6, 2, head_dim=10, d_ff=37, vocab_size=113, ffn="geglu", norms_per_layer=4,
                    qk_norm="head", attention_softcap=3.0, attention_scale=0.7, logit_softcap=5.0)  # fmt: skip
LATENT = ModelConfig(5, 6 * 14, 6, d_ff=37, vocab_size=113, attention="mla", kv_lora_rank=13, qk_nope_head_dim=7,
                     qk_rope_head_dim=4, v_head_dim=5)  # fmt: skip
IDS = (5, 17, 5, 17, 29, 3, 5)
ARRAYS = ("q", "k", "v", "q_pre_rope", "k_pre_rope", "weights", "allowed", "scores")


@pytest.mark.parametrize(
    ("config", "n_padding", "kept"),  # bytes of the residual stream
    [(PLAIN, 0, 10**9), (PLAIN, 2, 5000), (PLAIN, 2, 1), (GEMMA, 2, 10**9), (GEMMA, 0, 5000), (LATENT, 2, 5000),
     (MIXED, 0, 10**9), (MIXED, 2, 1000)],
)  # fmt: skip
def test_by_layers_equals_whole(config, n_padding, kept, monkeypatch):
    monkeypatch.setattr("attnviz.layerwise.MAX_STREAM_BYTES", kept)
    model = Transformer.random(config, 3)
    whole, parts = trace(model, IDS, n_padding), LayerwiseTrace(lambda: model, IDS, n_padding)
    assert parts.layers.stride == {10**9: 1, 5000: 3, 1000: 5, 1: 11760}[kept]
    assert len(parts.layers) == len(whole.layers) == config.n_layers
    for one, other in zip(parts.layers, whole.layers, strict=True):
        assert one.scale == other.scale and one.mixer is other.mixer
        for name in ARRAYS:
            np.testing.assert_allclose(getattr(one, name), getattr(other, name), atol=1e-5)
    for mask, layer in zip(parts.masks, whole.layers, strict=True):
        np.testing.assert_array_equal(mask, layer.allowed)
    np.testing.assert_allclose(parts.logits, whole.logits, atol=1e-5)
    np.testing.assert_allclose(parts.logits_at(slice(2, 5)), whole.logits_at(slice(2, 5)), atol=1e-5)
    np.testing.assert_array_equal(parts.tokens, whole.tokens)
    np.testing.assert_array_equal(parts.final_stream, final_stream(model, IDS, n_padding))


def test_a_layer_is_accessed_as_in_a_list():
    model = Transformer.random(PLAIN, 3)
    parts = LayerwiseTrace(lambda: model, IDS)
    assert parts.layers[-1] is parts.layers[4] and [*parts.layers[3:]][1] is parts.layers[4]
    with pytest.raises(IndexError):
        parts.layers[5]


def test_layers_looked_at_last_are_kept_and_no_more_than_the_bound(monkeypatch):
    model = Transformer.random(PLAIN, 3)
    parts = LayerwiseTrace(lambda: model, IDS)
    one = parts.layers[0].nbytes - parts.layers[0].allowed.nbytes
    assert one == layer_bytes(PLAIN, len(IDS))
    monkeypatch.setattr("attnviz.layerwise.MAX_LAYER_BYTES", 2 * one)
    computed, compute = [], LazyLayers._computed

    def counted(self: LazyLayers, layer: int) -> object:
        computed.append(layer)
        return compute(self, layer)

    monkeypatch.setattr(LazyLayers, "_computed", counted)
    for layer in (0, 1, 0, 2, 0, 1):
        parts.layers[layer]
    assert computed == [1, 2, 1] and len(parts.layers._recent) == 2
    with pytest.raises(ValueError):
        parts.layers[0].weights[0, 0, 0] = 1


def test_the_time_of_a_trace_is_that_of_the_run_alone(monkeypatch):
    model, now = Transformer.random(PLAIN, 3), [0.0]
    monkeypatch.setattr("attnviz.layerwise.time", SimpleNamespace(perf_counter=lambda: now[0]))

    def load() -> Transformer:
        now[0] += 1
        model.embed.register_forward_hook(lambda *_: now.__setitem__(0, now[0] + 5))
        return model

    assert LayerwiseTrace(load, IDS).seconds == 5
