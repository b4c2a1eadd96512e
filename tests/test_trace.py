"""A trace holds the model's intermediate results, read-only, and its size is predicted exactly."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from attnviz.config import ModelConfig
from attnviz.modules import Transformer
from attnviz.trace import allowed_of, cross_weights, layer_weights, predict, trace, trace_bytes, weights_of

LATENT = {"attention": "mla", "kv_lora_rank": 13, "qk_nope_head_dim": 7, "qk_rope_head_dim": 4, "v_head_dim": 5}
CONFIGS = {
    "gqa": ModelConfig(3, 30, 6, 2, head_dim=10, d_ff=17, vocab_size=101),
    "window, bias, no rope": ModelConfig(2, 22, 11, 1, position="none", sliding_window=3, qkv_bias=True, vocab_size=97),
    "mla": ModelConfig(2, 30, 5, d_ff=17, vocab_size=101, **LATENT),
}
IDS = [5, 7, 2, 5, 96, 31, 0, 5, 7, 11, 13, 2, 5]


@pytest.fixture(params=CONFIGS)
def traced(request):
    model = Transformer.random(CONFIGS[request.param], seed=3)
    return model, trace(model, IDS)


def test_shapes_and_sizes(traced):
    model, t = traced
    c, T = model.config, len(IDS)
    assert t.weights.shape == t.scores.shape == (c.n_layers, c.n_heads, T, T)
    assert t.q.shape == t.q_pre_rope.shape == (c.n_layers, c.n_heads, T, c.head_dim)
    assert t.k.shape == t.k_pre_rope.shape == (c.n_layers, c.n_kv_heads, T, c.head_dim)
    assert t.v.shape[:3] == (c.n_layers, c.n_kv_heads, T)
    assert t.logits.shape == (T, c.vocab_size) and t.tokens.tolist() == IDS
    assert t.nbytes == trace_bytes(c, T)


def test_weights_are_what_torchs_own_kernel_applies(traced):
    """The kernel returns no weights; with the identity as values its output is the weights."""
    model, t = traced
    c, T = model.config, len(IDS)
    for layer in range(c.n_layers):
        q, k = torch.tensor(t.q[layer]), torch.tensor(t.k[layer]).repeat_interleave(c.group_size, 0)
        mask = torch.tensor(t.allowed[layer])
        kernel = F.scaled_dot_product_attention(q, k, torch.eye(T).expand(c.n_heads, T, T), attn_mask=mask)
        np.testing.assert_allclose(t.weights[layer], kernel.numpy(), atol=2e-6)
        np.testing.assert_allclose(t.scores[layer], (q @ k.mT / c.head_dim**0.5).numpy(), atol=2e-5)
        masked = torch.tensor(t.scores[layer]).masked_fill(~mask, float("-inf"))  # the softmax was of these scores
        np.testing.assert_allclose(t.weights[layer], masked.softmax(-1).numpy(), atol=2e-6)


def test_rows_sum_to_one_and_nothing_forbidden_has_weight(traced):
    _, t = traced
    np.testing.assert_allclose(t.weights.sum(-1), 1, atol=1e-5)
    assert (t.weights * ~t.allowed[:, None] == 0).all()


def test_logits_are_those_of_the_plain_model(traced):
    model, t = traced
    with torch.inference_mode():
        np.testing.assert_array_equal(t.logits, model(torch.tensor([IDS]))[0].numpy())


def test_nobody_can_change_a_trace(traced):
    _, t = traced
    for name in ("weights", "q", "k", "v", "logits", "tokens", "allowed", "q_pre_rope", "k_pre_rope"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(t, name)[..., 0] = 1
    with pytest.raises(AttributeError):
        t.weights = None


def test_the_first_token_is_the_same_before_and_after_rope_and_the_others_are_not():
    t = trace(Transformer.random(CONFIGS["gqa"], seed=3), IDS)
    np.testing.assert_array_equal(t.q[:, :, 0], t.q_pre_rope[:, :, 0])
    assert np.abs(t.k[:, :, 1:] - t.k_pre_rope[:, :, 1:]).max() > 0.1


@pytest.mark.parametrize("ids", [[], [101], [-1], [[1, 2]]])
def test_what_cannot_be_traced_is_refused_in_words(ids):
    with pytest.raises(ValueError, match="token"):
        trace(Transformer.random(CONFIGS["gqa"], seed=0), ids)


def test_padding_in_front_is_seen_by_nobody_and_changes_nothing_else(traced):
    """RoPE depends only on distances, so a text after padding gives the same scores."""
    model, alone = traced
    padded = trace(model, [3, 1, 4, *IDS], n_padding=3)
    assert not padded.allowed[:, :, :3].any() and not padded.weights[..., :3].any()
    np.testing.assert_array_equal(padded.allowed[:, 3:, 3:], alone.allowed)
    np.testing.assert_allclose(padded.weights[..., 3:, 3:], alone.weights, atol=1e-4)
    np.testing.assert_allclose(padded.logits[3:], alone.logits, atol=1e-3)
    assert not padded.weights[..., :3, :].any()  # rows of padding queries are all masked: zeros, never NaN


def test_prediction_alone_is_the_traces(traced):
    model, t = traced
    found = predict(model, IDS)
    np.testing.assert_array_equal(found, t.logits)
    with pytest.raises(ValueError, match="read-only"):
        found[0] = 0


def caught_states(model, ids):
    """Return each layer's attention input, recorded by hooks on the live model."""
    caught = []
    hooks = [b.attn_norm.register_forward_hook(lambda m, i, out: caught.append(out[0])) for b in model.blocks]
    predict(model, ids)
    for hook in hooks:
        hook.remove()
    return caught


@pytest.mark.parametrize("name", ["gqa", "window, bias, no rope"])
def test_cross_attention_is_one_texts_queries_on_the_others_keys(name):
    """The softmax is computed in numpy."""
    model, other = Transformer.random(CONFIGS[name], seed=3), [31, 7, 7, 2, 50]
    c, states, context = model.config, caught_states(model, IDS), caught_states(model, other)
    found = cross_weights(model, IDS, other)
    assert found.shape == (c.n_layers, c.n_heads, len(IDS), len(other))
    for layer, block in enumerate(model.blocks):
        with torch.inference_mode():
            q, k = block.attn.q_proj(states[layer]).numpy(), block.attn.k_proj(context[layer]).numpy()
        for head in range(c.n_heads):
            kv, D = head // c.group_size, c.head_dim
            scores = q[:, head * D : (head + 1) * D] @ k[:, kv * D : (kv + 1) * D].T / D**0.5
            by_hand = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
            np.testing.assert_allclose(found[layer, head], by_hand, atol=1e-5)


def test_who_may_attend_to_whom_is_known_without_a_run(traced):
    model, t = traced
    np.testing.assert_array_equal(allowed_of(model, len(IDS)), t.allowed)
    both_ways = model.with_config(replace(model.config, causal=False, sliding_window=None))
    assert allowed_of(both_ways, 7).all()


def test_weights_of_several_texts_at_once_are_those_of_each():
    model = Transformer.random(CONFIGS["gqa"], seed=1)
    c, texts = model.config, [IDS[:5], IDS[1:6]]
    found = weights_of(model, texts)
    assert found.shape == (2, c.n_layers, c.n_heads, 5, 5)
    for weights, ids in zip(found, texts, strict=True):
        assert np.allclose(weights, trace(model, ids).weights, atol=1e-6)


@pytest.mark.parametrize("kind", CONFIGS)
def test_weights_of_one_layer_are_those_of_the_trace(kind):
    model = Transformer.random(CONFIGS[kind], seed=1)
    everything = trace(model, IDS).weights
    for layer in range(model.config.n_layers):
        np.testing.assert_array_equal(layer_weights(model, IDS, layer), everything[layer])
