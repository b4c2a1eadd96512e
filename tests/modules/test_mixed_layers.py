"""A model of different layers against a forward written by hand with torch's own kernel."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from attnviz.config import ConfigError, ModelConfig
from attnviz.cost import count_parameters, kv_cache_bytes
from attnviz.decode import Sampling, generate
from attnviz.decode.bounded import sliding_cache
from attnviz.experiments import ablation
from attnviz.mechanisms import Dense, Experts, Layer
from attnviz.modules import Transformer
from attnviz.steps import Selection, Walk, record
from attnviz.trace import layer_weights, predict, trace, trace_bytes, weights_of
from tests.mixed import LATENT, MIXED, SINGLE, UNROTATED, WINDOWED, H

IDS = [5, 7, 2, 5, 19, 30, 0, 5, 7, 11, 13]
T = len(IDS)
THETAS = (53.0, None, 1009.0, 71.0)


@pytest.fixture
def model():
    model = Transformer.random(MIXED, seed=3)
    with torch.no_grad():
        for p in model.parameters():  # norms and biases too, which are 1 and 0 in a random model
            p += 0.3 * torch.randn(p.shape, generator=torch.Generator().manual_seed(5)) if p.ndim == 1 else 0
    return model


def norm(x, module):
    return x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt() * module.weight


def rotated(x, theta, n_dims=None):
    """Rotate the first n_dims of x (..., T, D) by complex multiplication, halves as pairs."""
    n = (x.shape[-1] if n_dims is None else n_dims) // 2
    angles = torch.arange(x.shape[-2])[:, None] * theta ** (-torch.arange(n) / n)
    turned = torch.complex(x[..., :n], x[..., n : 2 * n]) * torch.polar(torch.ones_like(angles), angles)
    return torch.cat((turned.real, turned.imag, x[..., 2 * n :]), -1)


def heads(x, n):
    return x.view(T, n, -1).transpose(0, 1)  # (n, T, D)


def allowed(window=None, n_sinks=0):
    """Which keys a query may attend to, cell by cell."""
    near = [[i - j < window or j < n_sinks for j in range(T)] for i in range(T)] if window else True
    return torch.tensor([[j <= i for j in range(T)] for i in range(T)]) & torch.as_tensor(near)


def grouped(attn, x, mixer, theta):
    q, k, v = heads(attn.q_proj(x), H), *(heads(p(x), mixer.n_kv_heads) for p in (attn.k_proj, attn.v_proj))
    if theta:
        q, k = (rotated(t, theta, int(mixer.head_dim * mixer.rotary_fraction)) for t in (q, k))
    return q, k, v, mixer.scale or mixer.head_dim**-0.5


def latent(attn, x, mixer, theta):
    q_nope, q_rope = heads(attn.q_proj(x), H).split((7, 4), -1)
    compressed, key = attn.kv_a_proj(x).split((29, 4), -1)
    k_nope, v = heads(attn.kv_b_proj(norm(compressed, attn.kv_a_norm)), H).split((7, 5), -1)
    key = rotated(key, theta).expand(H, T, 4)
    return torch.cat((q_nope, rotated(q_rope, theta)), -1), torch.cat((k_nope, key), -1), v, 11**-0.5


def feed_forward(ffn, x, activation):
    if activation == "gelu":
        return ffn.down_proj(F.gelu(ffn.up_proj(x), approximate="tanh"))
    gate = F.silu(ffn.gate_proj(x)) if activation == "swiglu" else F.gelu(ffn.gate_proj(x), approximate="tanh")
    return ffn.down_proj(gate * ffn.up_proj(x))


@torch.no_grad()
def by_hand(model):
    """Return q, k, v, mask and weights of each layer, and the logits."""
    x, found = model.embed.weight[IDS], []
    for block, layer, theta in zip(model.blocks, MIXED.layers, THETAS, strict=True):
        attention = latent if layer.mixer is LATENT else grouped
        q, k, v, scale = attention(block.attn, norm(x, block.attn_norm), layer.mixer, theta)
        mask = allowed(layer.mixer.window, layer.mixer.n_sinks)
        whole = {"attn_mask": mask, "scale": scale, "enable_gqa": True}
        weights = F.scaled_dot_product_attention(q, k, torch.eye(T).expand(len(k), T, T), **whole)
        written = block.attn.o_proj(F.scaled_dot_product_attention(q, k, v, **whole).transpose(0, 1).flatten(1))
        x = x + (norm(written, block.attn_post_norm) if layer.n_norms == 4 else written)
        written = feed_forward(block.ffn, norm(x, block.ffn_norm), layer.parts[1].activation or "swiglu")
        x = x + (norm(written, block.ffn_post_norm) if layer.n_norms == 4 else written)
        found.append({"q": q, "k": k, "v": v, "allowed": mask, "weights": weights})
    return found, norm(x, model.norm) @ model.embed.weight.T


def test_the_trace_is_that_of_a_forward_by_hand(model):
    layers, logits = by_hand(model)
    traced = trace(model, IDS)
    for one, expected in zip(traced.layers, layers, strict=True):
        for name, array in expected.items():
            np.testing.assert_allclose(getattr(one, name), array.numpy(), atol=2e-5)
    np.testing.assert_allclose(traced.logits, logits.numpy(), atol=2e-4)
    np.testing.assert_array_equal(predict(model, IDS), traced.logits)
    assert traced.nbytes == trace_bytes(MIXED, T)


def test_each_layers_scores_and_heads_are_its_own(model):
    traced = trace(model, IDS)
    assert [one.mixer for one in traced.layers] == [WINDOWED, UNROTATED, LATENT, SINGLE]
    assert [one.mixer.kv_head_of for one in traced.layers] == [
        (0, 0, 1, 1, 2, 2), (0, 0, 0, 1, 1, 1), (0, 1, 2, 3, 4, 5), (0,) * 6,
    ]  # fmt: skip
    for one in traced.layers:
        masked = np.where(one.allowed, one.scores, -np.inf)
        np.testing.assert_allclose(one.weights, torch.tensor(masked).softmax(-1).numpy(), atol=2e-6)
    np.testing.assert_array_equal(traced.layers[1].q, traced.layers[1].q_pre_rope)  # a layer without a rotation


def test_what_differs_in_shape_is_not_stacked(model):
    traced = trace(model, IDS)
    assert traced.weights.shape == (4, H, T, T) and traced.allowed.shape == (4, T, T)
    with pytest.raises(ValueError, match="layers differ in the shape of k"):
        traced.k  # noqa: B018


def test_decoding_with_a_cache_equals_recomputing(model):
    steps = list(generate(model, IDS[:5], 6, Sampling()))
    ids = IDS[:5] + [step.id for step in steps]
    for n, step in enumerate(steps, 5):
        np.testing.assert_allclose(step.logits.numpy(), predict(model, ids[:n])[-1], atol=1e-4)


def test_the_caches_bytes_are_those_of_its_tensors(model):
    """No layer without a window here: a live cache holds every token, whatever a window would let go."""
    whole = tuple(replace(layer, parts=(layer.mixer.unwindowed, layer.parts[1])) for layer in MIXED.layers)
    config, cache = replace(MIXED, mixed_layers=whole), model.new_cache()
    model(torch.tensor([IDS]), cache=cache)
    by_hand = (2 * 3 * 13, 2 * 2 * 11, 29 + 4, 2 * 19)
    assert [layer.nbytes for layer in cache] == [4 * T * numbers for numbers in by_hand]
    assert sum(layer.nbytes for layer in cache) == kv_cache_bytes(config, T, bits=32)


def test_parameters_are_those_of_the_modules(model):
    assert count_parameters(MIXED).total == sum(p.numel() for p in model.parameters())


def test_one_layer_and_several_texts(model):
    traced, texts = trace(model, IDS), [IDS[:5], IDS[4:9]]
    for layer, one in enumerate(traced.layers):
        np.testing.assert_array_equal(layer_weights(model, IDS, layer), one.weights)
    for n, ids in enumerate(texts):
        for many, one in zip(weights_of(model, texts), trace(model, ids).layers, strict=True):
            np.testing.assert_allclose(many[n], one.weights, atol=1e-6)


@pytest.mark.parametrize("layer", range(4))
def test_each_layer_can_be_walked_through(model, layer):
    head, mixer = 5, MIXED.layers[layer].mixer
    walk = Walk(record(model, IDS, layer), Selection(head, mixer.kv_head_of[head], 7, 3))
    assert len(walk.stops) > 10
    traced = trace(model, IDS).layers[layer]
    recorded = [value.array for value in walk.run.values if value.array is not None]
    for name in ("q", "k", "weights"):
        array = getattr(traced, name)[None]
        assert any(each.shape == array.shape and np.allclose(each, array, atol=1e-6) for each in recorded)


def test_a_head_of_each_layer_can_be_ablated(model):
    means = ablation.mean_outputs(model, IDS)
    assert [mean.shape for mean in means] == [(H, 13), (H, 11), (H, 5), (H, 19)]
    for layer in range(4):
        without = ablation.losses_without_each(model, IDS, layer, means)
        one = predict(ablation.ablated(model, [(layer, 3)], means), IDS)
        expected = F.cross_entropy(torch.tensor(one[:-1]), torch.tensor(IDS[1:]))
        assert without[3] == pytest.approx(float(expected), abs=1e-5)


def test_a_windowed_layer_refuses_a_second_window(model):
    with pytest.raises(ValueError, match="already has a sliding window of 5 tokens"):
        sliding_cache(model, 7)


def test_without_rope_no_layer_is_rotated(model):
    off = trace(model.with_config(replace(MIXED, position="none")), IDS)
    for one in off.layers:
        np.testing.assert_array_equal(one.q, one.q_pre_rope)
    with pytest.raises(ConfigError, match="sliding_window must stay None"):
        model.with_config(replace(MIXED, sliding_window=3))


@pytest.mark.parametrize(
    "layer, message",
    [
        (Layer((SINGLE, Experts(5, 2, 3))), "no mixture of experts; cost can be counted"),
        (Layer((SINGLE, LATENT, Dense(7))), "one mixer, then one feed-forward, not grouped-query attention, latent"),
        (Layer((Dense(7),)), "one mixer, then one feed-forward, not feed-forward"),
        (Layer((SINGLE, Dense(7)), parallel=True), "parallel = False only, not True"),
        (Layer((SINGLE, Dense(7)), shares_cache_of=0), "needs reads_cache = True"),
        (Layer((SINGLE, Dense(7)), shares_weights_of=1), "shares_weights_of = None only, not 1"),
        (Layer((SINGLE, Dense(7)), n_norms=1), "n_norms = 2 or 4 only, not 1"),
        (Layer((replace(SINGLE, chunked=True), Dense(7))), "chunked = False only, not True"),
        (Layer((replace(LATENT, qk_rope_head_dim=3), Dense(7)), rope_theta=5.0), "qk_rope_head_dim must be even"),
    ],
)
def test_what_has_no_module_is_refused_in_a_sentence(layer, message):
    layers = (*MIXED.mixed_layers[:2], layer, MIXED.mixed_layers[3])
    with pytest.raises(ConfigError, match=message):
        Transformer(replace(MIXED, mixed_layers=layers))


def test_what_layers_do_not_agree_on_has_to_be_asked_of_each():
    for name in ("mixer", "rotary_dim", "group_size"):
        with pytest.raises(ConfigError, match="each has to be asked for its own"):
            getattr(MIXED, name)
    assert MIXED.windows == (5, 3)
    with pytest.raises(ConfigError, match="cannot be changed in all layers at once"):
        MIXED.with_kv_heads(2)
    spelt = ModelConfig(3, 42, 6, 3, sliding_window=5, full_layers=(1,))
    spelt = replace(spelt, mixed_layers=spelt.layers)
    assert spelt.mixer.n_kv_heads == 3 and spelt.rotary_dim == 6  # all layers agree, up to the window


def test_windows_and_bases_can_be_changed_in_all_layers(model):
    run = MIXED.run_as(window=2, n_sinks=1, theta=97.0)
    traced = trace(model.with_config(run), IDS)
    for i, one in enumerate(traced.layers):
        assert MIXED.layers[i].mixer.attends == bool(run.layers[i].mixer.window)
        if one.mixer.attends:
            np.testing.assert_array_equal(one.allowed, allowed(2, 1))
        assert run.layers[i].rope_theta == (97.0 if THETAS[i] else None)
    assert MIXED.run_as() == MIXED
    with pytest.raises(ConfigError, match="mixed_layers must stay"):
        model.with_config(replace(run, mixed_layers=(*run.mixed_layers[:3], run.mixed_layers[0])))
