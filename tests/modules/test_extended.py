"""Learned sinks, output gates and shared caches: against transformers' gpt-oss, Qwen3-Next and Gemma 3n, and loops."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers import Gemma3nTextConfig, GptOssConfig, Qwen3NextConfig
from transformers.models.gemma3n.modeling_gemma3n import Gemma3nTextAttention
from transformers.models.gpt_oss.modeling_gpt_oss import GptOssAttention
from transformers.models.qwen3_next.modeling_qwen3_next import Qwen3NextAttention

from attnviz.config import ConfigError, ModelConfig
from attnviz.cost import count_parameters, kv_cache_bytes
from attnviz.decode import Sampling, generate
from attnviz.decode.quantised import quantised_cache
from attnviz.experiments import ablation
from attnviz.experiments.fused import fused_attend
from attnviz.mechanisms import Dense, Grouped, Layer
from attnviz.modules import (
    CacheReadingAttention,
    ExtendedAttention,
    GroupedQueryAttention,
    Recording,
    RMSNorm,
    Transformer,
)
from attnviz.modules.extended import Passing
from attnviz.modules.masks import attention_mask
from attnviz.modules.rope import Rope, rope_frequencies
from attnviz.trace import layer_weights, predict, trace, trace_bytes, weights_of
from tests.oracles import agree

B, T, C, H, K, D = 2, 11, 18, 6, 3, 8
THETA = 53.0
SIZES = dict(hidden_size=C, num_attention_heads=H, num_key_value_heads=K, head_dim=D, num_hidden_layers=4)


def random(module):
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return module.eval()


def copied(ours, theirs, **names):
    """Copy the parameters of equal names, and those given as ours = (their name, how it is changed)."""
    weights = theirs.state_dict()
    ours.load_state_dict({
        name: names[key][1](weights[names[key][0]]) if (key := name.replace(".", "_")) in names else weights[name]
        for name, _ in ours.named_parameters()
    })  # fmt: skip
    return ours


def cos_and_sin(n_dims: int) -> tuple[torch.Tensor, torch.Tensor]:
    angles = torch.arange(T)[:, None] * rope_frequencies(n_dims, THETA)  # (T, n_dims / 2)
    return angles.cos().float()[None], angles.sin().float()[None]


def additive(mask: torch.Tensor) -> torch.Tensor:
    return torch.where(mask, 0.0, float("-inf"))[None, None]


MASKS = [attention_mask(T, T, causal=True), attention_mask(T, T, causal=True, window=4)]


@pytest.mark.parametrize("mask", MASKS, ids=["full", "window"])
def test_learned_sinks_equal_gpt_oss(mask):
    theirs = random(GptOssAttention(GptOssConfig(**SIZES, attn_implementation="eager"), 1))
    ours = ExtendedAttention(C, H, K, head_dim=D, qkv_bias=True, out_bias=True, sink_logits=True)
    copied(ours, theirs)
    x, record = torch.randn(B, T, C), Recording()
    output, weights = theirs(x, cos_and_sin(D), additive(mask))
    assert agree(ours(x, mask=mask, rope=Rope(rope_frequencies(D, THETA)), record=record), output)
    (one,) = record
    assert agree(one.weights, weights)
    assert agree(one.own["sink"], 1 - weights.sum(-1)) and 0.03 < one.own["sink"].mean() < 0.97
    fused = ours(x, mask=mask, rope=Rope(rope_frequencies(D, THETA)), kernel=fused_attend)
    assert agree(fused, output)


def test_where_every_key_is_masked_all_weight_is_the_sinks():
    ours, x, record = random(ExtendedAttention(C, H, K, head_dim=D, sink_logits=True)), torch.randn(B, T, C), []
    mask = torch.ones(T, T, dtype=torch.bool)
    mask[2] = False
    output = ours(x, mask=mask, record=lambda **found: record.append(found))
    assert not output[:, 2].any() and torch.isfinite(output).all()
    assert record[0]["sink"][:, :, 2].eq(1).all() and not record[0]["weights"][:, :, 2].any()
    alone = ours(x, mask=torch.ones(T, 1, dtype=torch.bool))  # one mask for all keys
    assert agree(alone, ours(x))


@pytest.mark.parametrize("mask", MASKS, ids=["full", "window"])
def test_a_gate_for_each_number_equals_qwen3_next(mask):
    theirs = random(Qwen3NextAttention(Qwen3NextConfig(**SIZES, attn_implementation="eager"), 3))
    ours = ExtendedAttention(C, H, K, head_dim=D, gate="width", qk_norm=RMSNorm)
    of_heads = lambda part: lambda weight: weight.view(H, 2, D, C)[:, part].flatten(0, 1)  # noqa: E731 (query, gate)
    copied(
        ours, theirs, q_proj_weight=("q_proj.weight", of_heads(0)), gate_proj_weight=("q_proj.weight", of_heads(1)),
        **{f"{name}_weight": (f"{name}.weight", lambda weight: 1 + weight) for name in ("q_norm", "k_norm")},
    )  # fmt: skip
    x, record, (cos, sin) = torch.randn(B, T, C), Recording(), cos_and_sin(D // 2)
    output, weights = theirs(x, (torch.cat((cos, cos), -1), torch.cat((sin, sin), -1)), additive(mask))
    assert agree(ours(x, mask=mask, rope=Rope(rope_frequencies(D // 2, THETA)), record=record), output)
    assert agree(record[0].weights, weights)
    assert agree(record[0].own["gate"], ours.gate_proj(x).sigmoid().view(B, T, H, D).transpose(1, 2))


def test_a_gate_per_head_multiplies_what_each_head_read():
    ours, x = random(ExtendedAttention(C, H, K, head_dim=D, gate="head", gate_bias=True)), torch.randn(B, T, C)
    gates = 1 / (1 + (-ours.gate_proj(x)).exp())  # (B, T, H)
    plain = GroupedQueryAttention(C, H, K, head_dim=D)
    plain.load_state_dict({name: p for name, p in ours.state_dict().items() if "gate" not in name})
    plain.o_proj = torch.nn.Identity()
    read = plain(x, causal=True).view(B, T, H, D)
    heads = [gates[:, :, h, None] * read[:, :, h] for h in range(H)]
    assert agree(ours(x, causal=True), ours.o_proj(torch.cat(heads, -1)))
    with pytest.raises(ValueError, match="gate must be one of width, head or None, not 'token'"):
        ExtendedAttention(C, H, K, head_dim=D, gate="token")


@pytest.mark.parametrize("mask", MASKS, ids=["full", "window"])
def test_a_layer_that_shares_a_cache_equals_gemma_3n(mask):
    config = Gemma3nTextConfig(
        **SIZES, num_kv_shared_layers=2, layer_types=["sliding_attention", "full_attention"] * 2, rms_norm_eps=1e-6,
        attn_implementation="eager",
    )  # fmt: skip
    theirs = random(Gemma3nTextAttention(config, 3))
    ours = copied(CacheReadingAttention(C, H, K, head_dim=D, qk_norm=RMSNorm, scale=1.0), theirs)
    k, v, x, record = torch.randn(B, K, T, D), torch.randn(B, K, T, D), torch.randn(B, T, C), Recording()
    cos, sin = (torch.cat((part, part), -1) for part in cos_and_sin(D))
    output, weights = theirs(x, (cos, sin), additive(mask), shared_kv_states={"full_attention": (k, v)})
    passing, rope = Passing(), Rope(rope_frequencies(D, THETA))
    passing.append(k, v)
    assert agree(ours(x, mask=mask, rope=rope, cache=passing, record=record), output)
    (one,) = record
    assert agree(one.weights, weights) and agree(rope(one.k_pre_rope), k)
    with pytest.raises(ValueError, match="needs the cache of the layer that it reads"):
        ours(x)


# --- a model with all of them -----------------------------------------------------------------------------------------

GROUPED = Grouped(H, n_kv_heads=K, head_dim=D)
MIXERS = (
    replace(GROUPED, window=4, sink_logits=True),
    replace(GROUPED, gate="width", gate_bias=True),
    replace(GROUPED, n_heads=H, reads_cache=True, sink_logits=True),
    replace(GROUPED, window=3, reads_cache=True, gate="head", qk_norm="head"),
)
SHARED = (None, None, 1, 1)
MODEL = ModelConfig(
    4, C, H, K, D, 23, 31,
    mixed_layers=tuple(
        Layer((mixer, Dense(23)), rope_theta=THETA, shares_cache_of=source)
        for mixer, source in zip(MIXERS, SHARED, strict=True)
    ),
)  # fmt: skip
IDS = torch.randint(31, (T,), generator=torch.Generator().manual_seed(7)).tolist()


@pytest.fixture(scope="module")
def model():
    return Transformer.random(MODEL, 3)


def test_layers_read_the_keys_and_values_of_the_layer_they_name(model):
    traced = trace(model, IDS)
    assert traced.nbytes == trace_bytes(MODEL, T)
    for layer in (2, 3):
        for name in ("k", "v"):
            np.testing.assert_array_equal(getattr(traced.layers[layer], name), getattr(traced.layers[1], name))
        np.testing.assert_allclose(traced.layers[layer].k_pre_rope, traced.layers[1].k_pre_rope, atol=1e-5)
    assert not hasattr(model.blocks[2].attn, "k_proj") and not np.allclose(traced.layers[0].k, traced.layers[1].k)
    for one in traced.layers:  # the softmax of the scores, and of the sink where there is one
        scores = torch.tensor(np.where(one.allowed, one.scores, -np.inf))
        sinks = model.blocks[traced.layers.index(one)].attn.sinks
        column = torch.full((H, T, 1), -np.inf) if sinks is None else sinks[:, None, None].expand(H, T, 1)
        expected = torch.cat((scores, column), -1).softmax(-1)
        np.testing.assert_allclose(one.weights, expected[..., :-1].detach(), atol=1e-6)
        if sinks is not None:
            np.testing.assert_allclose(one.own["sink"], expected[..., -1].detach(), atol=1e-6)


def test_parameters_and_cache_are_those_that_are_counted(model):
    assert count_parameters(MODEL).total == sum(p.numel() for p in model.parameters())
    whole = tuple(replace(layer, parts=(layer.mixer.unwindowed, layer.parts[1])) for layer in MODEL.layers)
    cache = model.new_cache()
    model(torch.tensor([IDS]), cache=cache)
    assert [len(layer) for layer in cache] == [T, T, 0, 0]  # a layer that shares a cache appends nothing
    assert sum(layer.nbytes for layer in cache) == kv_cache_bytes(replace(MODEL, mixed_layers=whole), T, bits=32)


def test_decoding_equals_recomputing(model):
    steps = list(generate(model, IDS[:5], 6, Sampling()))
    ids = IDS[:5] + [step.id for step in steps]
    for n, step in enumerate(steps, 5):
        np.testing.assert_allclose(step.logits.numpy(), predict(model, ids[:n])[-1], atol=1e-4)
    cache = quantised_cache(model, 8)
    with torch.no_grad():
        assert agree(model(torch.tensor([IDS]), cache=cache), model(torch.tensor([IDS])), 0.2)


def test_layers_run_one_by_one_read_the_same(model):
    traced = trace(model, IDS)
    for layer, one in enumerate(traced.layers):
        np.testing.assert_allclose(layer_weights(model, IDS, layer), one.weights, atol=1e-6)
    for many, one in zip(weights_of(model, [IDS, IDS[::-1]]), traced.layers, strict=True):
        np.testing.assert_allclose(many[0], one.weights, atol=1e-6)


def test_a_head_of_each_layer_can_be_ablated(model):
    """Also of the layer whose keys others read: from there on each ablated run has keys of its own."""
    means = ablation.mean_outputs(model, IDS)
    for layer in range(4):
        without = ablation.losses_without_each(model, IDS, layer, means)
        for head in (1, 3):
            logits = predict(ablation.ablated(model, [(layer, head)], means), IDS)
            expected = torch.nn.functional.cross_entropy(torch.tensor(logits[:-1]), torch.tensor(IDS[1:]))
            assert without[head] == pytest.approx(float(expected), abs=1e-5)


def test_a_model_is_trained_through_the_keys_that_it_shares(model):
    trained = Transformer.random(MODEL, 5).train()
    trained(torch.tensor([IDS]))[0, -1, 3].backward()
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in trained.parameters())


@pytest.mark.parametrize(
    "index, layer, message",
    [
        (2, {"shares_cache_of": None}, r"mixed_layers\[2\].shares_cache_of must name a layer with reads_cache = True"),
        (1, {"shares_cache_of": 0}, r"mixed_layers\[1\].shares_cache_of needs reads_cache = True"),
        (3, {"shares_cache_of": 2}, "the same KV heads, head_dim and rotation, not 2"),
        (3, {"rope_theta": 71.0}, "the same KV heads, head_dim and rotation, not 1"),
        (0, {"parts": (replace(MIXERS[0], softcap=3.0), Dense(23))}, "sink_logits runs without softcap"),
    ],
)
def test_what_cannot_be_read_is_refused(index, layer, message):
    layers = list(MODEL.mixed_layers)
    layers[index] = replace(layers[index], **layer)
    with pytest.raises(ConfigError, match=message):
        Transformer(replace(MODEL, mixed_layers=tuple(layers)))


def test_one_layers_cache_is_cut_with_those_that_read_it(model):
    cache = model.new_cache()
    model(torch.tensor([IDS]), cache=cache)
    for layer in cache:
        layer.cut(T - 1)
    again = model(torch.tensor([IDS[-1:]]), cache=cache)
    assert agree(again, model(torch.tensor([IDS]))[:, -1:], 1e-4)
    assert [layer.nbytes for layer in cache[2:]] == [0, 0]
    with pytest.raises(ValueError, match="nothing is appended"):
        cache[2].append(torch.zeros(1, K, 1, D))
