"""A layerwise trace equals a full one for every kind of access, with a fraction of the memory."""

from types import SimpleNamespace

import numpy as np
import pytest

from attnviz.config import ModelConfig
from attnviz.layerwise import Layered, LayerwiseTrace
from attnviz.modules import Transformer
from attnviz.trace import final_stream, trace

PLAIN = ModelConfig(5, 6 * 14, 6, 3, head_dim=10, d_ff=37, vocab_size=113, sliding_window=4, full_layers=(1, 4))
GEMMA = ModelConfig(5, 6 * 14, 6, 2, head_dim=10, d_ff=37, vocab_size=113, ffn="geglu", norms_per_layer=4,
                    qk_norm="head", attention_softcap=3.0, attention_scale=0.7, logit_softcap=5.0)  # fmt: skip
IDS = (5, 17, 5, 17, 101, 3, 5)
ARRAYS = ("q", "k", "v", "q_pre_rope", "k_pre_rope", "weights", "logits", "allowed", "tokens")


@pytest.mark.parametrize(
    ("config", "n_padding", "kept"),  # bytes of the residual stream
    [(PLAIN, 0, 10**9), (PLAIN, 2, 5000), (PLAIN, 2, 1), (GEMMA, 2, 10**9), (GEMMA, 0, 5000)],
)
def test_by_layers_equals_whole(config, n_padding, kept, monkeypatch):
    monkeypatch.setattr("attnviz.layerwise.MAX_STREAM_BYTES", kept)
    model = Transformer.random(config, 3)
    whole, parts = trace(model, IDS, n_padding), LayerwiseTrace(lambda: model, IDS, n_padding)
    assert parts.stride == {10**9: 1, 5000: 3, 1: 11760}[kept] and parts.scale == whole.scale
    for name in ARRAYS:
        assert getattr(parts, name).shape == getattr(whole, name).shape
        np.testing.assert_allclose(np.asarray(getattr(parts, name)), getattr(whole, name), atol=1e-5)
    np.testing.assert_allclose(parts.scores_of(3, 4), whole.scores_of(3, 4), atol=1e-5)
    np.testing.assert_array_equal(parts.final_stream, final_stream(model, IDS, n_padding))


def test_every_way_of_looking_gives_numpys_answer():
    array = np.random.default_rng(0).normal(size=(5, 3, 2)).astype(np.float32)
    layered = Layered(array.shape, lambda i: array[i])
    for index in (2, -1, (1, 2), (1, 2, 0), (3, slice(1, 3)), slice(1, 3), slice(2, 2), (slice(0, 2), 1),
                  ([0, 4, 4], [2, 0, 1]), [1, 3]):  # fmt: skip
        np.testing.assert_array_equal(layered[index], array[index])
    np.testing.assert_array_equal(np.stack(list(layered)), array)
    assert len(layered) == 5 and layered.ndim == 3
    with pytest.raises(IndexError):
        layered[5]


def test_layers_looked_at_last_are_kept_and_no_more_than_the_bound(monkeypatch):
    model = Transformer.random(PLAIN, 3)
    parts = LayerwiseTrace(lambda: model, IDS)
    one = sum(a.nbytes for a in parts._layer(0).values())
    monkeypatch.setattr("attnviz.layerwise.MAX_LAYER_BYTES", 2 * one)
    computed, compute = [], LayerwiseTrace._computed

    def counted(self: LayerwiseTrace, layer: int) -> dict:
        computed.append(layer)
        return compute(self, layer)

    monkeypatch.setattr(LayerwiseTrace, "_computed", counted)
    for layer in (0, 1, 0, 2, 0, 1):
        parts.weights[layer]
    assert computed == [1, 2, 1] and len(parts._layers) == 2
    with pytest.raises(ValueError):
        parts.weights[0][0, 0, 0] = 1


def test_the_time_of_a_trace_is_that_of_the_run_alone(monkeypatch):
    model, now = Transformer.random(PLAIN, 3), [0.0]
    monkeypatch.setattr("attnviz.layerwise.time", SimpleNamespace(perf_counter=lambda: now[0]))

    def load() -> Transformer:
        now[0] += 1
        model.embed.register_forward_hook(lambda *_: now.__setitem__(0, now[0] + 5))
        return model

    assert LayerwiseTrace(load, IDS).seconds == 5
