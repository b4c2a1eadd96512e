"""A trace holds the model's intermediate results, read-only, and its size is predicted exactly."""

from dataclasses import fields, replace
from functools import partial

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from attnviz.config import ModelConfig
from attnviz.modules import GroupedQueryAttention, Transformer
from attnviz.modules.transformer import layer_input
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


YARN = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 8}
LLAMA_3 = {"type": "llama3", "factor": 4.0, "original_max_position_embeddings": 8, "low_freq_factor": 1.0,
           "high_freq_factor": 4.0}  # fmt: skip
LONGROPE = {"type": "longrope", "factor": 4.0, "original_max_position_embeddings": 8, "short_factor": (1.0,) * 5,
            "long_factor": (2.0, 3.0, 4.0, 5.0, 6.0)}  # fmt: skip
SCALINGS = [{"type": name, "factor": 3.0} for name in ("linear", "ntk", "dynamic")] + [YARN, LLAMA_3, LONGROPE]
OPTIONS = [  # each field of a configuration that can run, with another value than its default
    {"attention_scale": 0.7}, {"attention_softcap": 0.9}, {"attention_scale": 0.7, "attention_softcap": 0.9},
    {"qk_norm": "head"}, {"qk_norm": "head", "attention_scale": 0.2, "norm_eps": 0.1}, {"qkv_bias": True},
    {"o_bias": True}, {"causal": False}, {"sliding_window": 3}, {"sliding_window": 3, "n_sinks": 2},
    {"sliding_window": 3, "full_layers": (1,), "rope_theta_windowed": 50.0}, {"sliding_window": 3, "causal": False},
    {"position": "none"}, {"position": "learned", "learned_position_rows": 64}, {"rope_theta": 50.0},
    {"rope_layout": "interleaved"}, {"rotary_fraction": 0.4},
    *({"rope_scaling": tuple(each.items()), "max_context": 8} for each in SCALINGS),
    {"norm": "layernorm", "norm_bias": True}, {"norms_per_layer": 4}, {"ffn": "gelu", "ffn_bias": True},
    {"ffn": "geglu"}, {"tie_embeddings": False}, {"embedding_scale": 3.0}, {"logit_softcap": 2.0},
    LATENT | {"n_kv_heads": None, "head_dim": None}, LATENT | {"n_kv_heads": None, "head_dim": None, "q_lora_rank": 9},
    LATENT | {"n_kv_heads": None, "head_dim": None, "max_context": 8,
              "rope_scaling": tuple((YARN | {"mscale": 1.0, "mscale_all_dim": 0.8}).items())},
]  # fmt: skip
SIZES = {"n_layers", "d_model", "n_heads", "n_kv_heads", "head_dim", "d_ff", "vocab_size"}
NAMES = {"id", "name", "family", "year", "dtype"}
NOT_RUN = {
    "moe", "mixed_layers", "head_rows", "lm_head_bias", "embedding_norm", "parallel_block", "attention_sinks",
    "other_parts", "norm_weights",
}  # fmt: skip  # by check_runnable


def test_each_field_that_can_run_is_among_the_options():
    fields_ = {field.name for field in fields(ModelConfig)}
    left_out = fields_ - {name for option in OPTIONS for name in option} - SIZES - NAMES - NOT_RUN
    assert not left_out, f"add to OPTIONS another value than the default of {left_out}"


@pytest.mark.parametrize("option", OPTIONS)
def test_the_softmax_of_the_masked_scores_is_the_weights(option):
    """For each way to run: the scores are computed again, with the recorded q, k and scale."""
    model = Transformer.random(replace(CONFIGS["gqa"], **option), seed=3)
    with torch.no_grad():
        for p in model.parameters():  # norms and biases too, which are 1 and 0 in a random model
            p += 0.3 * torch.randn(p.shape) if p.ndim == 1 else 0
    t = trace(model, IDS)
    for layer in range(model.config.n_layers):
        mask = torch.tensor(t.allowed[layer])
        for head in range(model.config.n_heads):
            masked = torch.tensor(t.layers[layer].scores_of(head)).masked_fill(~mask, float("-inf"))
            np.testing.assert_allclose(t.weights[layer, head], masked.softmax(-1).numpy(), atol=2e-6)


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
    assert len(found) == c.n_layers and found[0].shape == (c.n_heads, len(IDS), len(other))
    for layer, block in enumerate(model.blocks):
        with torch.inference_mode():
            q, k = block.attn.q_proj(states[layer]).numpy(), block.attn.k_proj(context[layer]).numpy()
        for head in range(c.n_heads):
            kv, D = head // c.group_size, c.head_dim
            scores = q[:, head * D : (head + 1) * D] @ k[:, kv * D : (kv + 1) * D].T / D**0.5
            by_hand = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
            np.testing.assert_allclose(found[layer][head], by_hand, atol=1e-5)


def test_who_may_attend_to_whom_is_known_without_a_run(traced):
    model, t = traced
    np.testing.assert_array_equal(allowed_of(model, len(IDS)), t.allowed)
    both_ways = model.with_config(replace(model.config, causal=False, sliding_window=None))
    assert all(mask.all() for mask in allowed_of(both_ways, 7))


def test_weights_of_several_texts_at_once_are_those_of_each():
    model = Transformer.random(CONFIGS["gqa"], seed=1)
    c, texts = model.config, [IDS[:5], IDS[1:6]]
    found = weights_of(model, texts)
    assert [layer.shape for layer in found] == c.n_layers * [(2, c.n_heads, 5, 5)]
    for n, ids in enumerate(texts):
        assert np.allclose([layer[n] for layer in found], trace(model, ids).weights, atol=1e-6)


@pytest.mark.parametrize("kind", CONFIGS)
def test_weights_of_one_layer_are_those_of_the_trace(kind):
    model = Transformer.random(CONFIGS[kind], seed=1)
    everything = trace(model, IDS).weights
    for layer in range(model.config.n_layers):
        np.testing.assert_array_equal(layer_weights(model, IDS, layer), everything[layer])


class _Marked(GroupedQueryAttention):
    def forward(self, x, *, record=None, **options):
        own = {"squares": x.square()}  # (B, T, C)
        return super().forward(x, record=record and partial(record, **own), **options)


def test_what_only_one_mechanism_records_is_its_layers_own():
    config = ModelConfig(2, 35, 5, 1, 6, 11, vocab_size=13)
    plain = Transformer.random(config, 0)
    marked = _Marked(35, 5, 1, head_dim=6)
    marked.load_state_dict(plain.blocks[1].attn.state_dict())
    model, ids = plain.with_attentions({1: marked.eval()}), [1, 2, 3]
    found = trace(model, ids)
    np.testing.assert_array_equal(found.weights, trace(plain, ids).weights)
    x = layer_input(model, ids, 1)[0].numpy()
    np.testing.assert_array_equal(found.layers[1].own["squares"], x**2)
    assert not found.layers[0].own and found.layers[1].nbytes == found.layers[0].nbytes + 3 * 35 * 4
    with pytest.raises(ValueError, match="read-only"):
        found.layers[1].own["squares"][0] = 0
