"""Latent attention: against the DeepSeek attentions of `transformers` with copied weights; absorbed = expanded."""

import itertools

import numpy as np
import pytest
import torch
from transformers import DeepseekV2Config, DeepseekV2ForCausalLM, DeepseekV3Config, DeepseekV3ForCausalLM

from attnviz.config import ModelConfig
from attnviz.experiments.equalities import equalities_in_both
from attnviz.modules import (
    KVCache,
    MultiHeadLatentAttention,
    Recording,
    Rope,
    Transformer,
    apply_rope,
    rope_frequencies,
)
from attnviz.modules.masks import attention_mask
from attnviz.trace import trace
from tests.oracles import LargestTensor, agree, attention_by_hand, padding_mask

B, T, C, H, R, N, P, V, Q = 2, 7, 15, 3, 14, 6, 4, 13, 17  # DeepSeek-V2's code needs even R, N and P
SIZES = dict(kv_lora_rank=R, qk_nope_head_dim=N, qk_rope_head_dim=P, v_head_dim=V)
NAMES = {  # ours: theirs
    "kv_a_proj": "kv_a_proj_with_mqa", "kv_a_norm": "kv_a_layernorm", "q_a_norm": "q_a_layernorm",
    "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
    "attn": "self_attn", "ffn": "mlp", "blocks": "model.layers", "embed": "model.embed_tokens", "norm": "model.norm",
}  # fmt: skip


def layer(**options) -> MultiHeadLatentAttention:
    module = MultiHeadLatentAttention(C, H, **SIZES, **options)
    torch.nn.init.normal_(module.kv_a_norm.weight)
    return module


DEEPSEEK = {2: (DeepseekV2Config, DeepseekV2ForCausalLM), 3: (DeepseekV3Config, DeepseekV3ForCausalLM)}
Deepseek = DeepseekV2ForCausalLM | DeepseekV3ForCausalLM


def deepseek(q_lora_rank: int | None, version: int = 2, **options) -> Deepseek:
    """A configuration of two layers with a plain feed-forward, random weights and explicit attention."""
    config_class, model_class = DEEPSEEK[version]
    config = config_class(
        vocab_size=19, hidden_size=C, intermediate_size=23, num_hidden_layers=2, num_attention_heads=H,
        num_key_value_heads=H, first_k_dense_replace=2, q_lora_rank=q_lora_rank, tie_word_embeddings=False,
        attn_implementation="eager", **SIZES, **options,
    )  # fmt: skip
    model = model_class(config).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return model


def same_in_ours(theirs: Deepseek, rope_layout: str = "interleaved", **options) -> Transformer:
    config = ModelConfig(
        2, C, H, d_ff=23, vocab_size=19, attention="mla", q_lora_rank=theirs.config.q_lora_rank,
        tie_embeddings=False, rope_layout=rope_layout, **SIZES, **options,
    )  # fmt: skip
    weights, model = theirs.state_dict(), Transformer.random(config, seed=0)
    model.load_state_dict({name: weights[their_name(name)] for name, _ in model.named_parameters()})
    return model


def their_name(name: str) -> str:
    return ".".join(NAMES.get(part, part) for part in name.split("."))


@pytest.mark.parametrize("q_lora_rank", [None, Q])
def test_equals_deepseek_in_logits_and_every_layers_weights(q_lora_rank):
    theirs, ids, record = deepseek(q_lora_rank), torch.randint(19, (B, T)), Recording()
    ours = same_in_ours(theirs)
    expected = theirs(ids, output_attentions=True)
    assert agree(ours(ids, record=record), expected.logits, 1e-4)
    assert len(record) == len(expected.attentions) == 2
    assert all(agree(r.weights, weights) for r, weights in zip(record, expected.attentions, strict=True))


YARN = {"rope_type": "yarn", "original_max_position_embeddings": 5, "beta_fast": 2.0, "beta_slow": 0.25}
MSCALES = [
    {},
    {"mscale": 0.707, "mscale_all_dim": 0.707},  # DeepSeek-V2
    {"mscale": 1.0, "mscale_all_dim": 1.0},  # DeepSeek-V3
    {"mscale": 0.7, "mscale_all_dim": 1.3},
    {"mscale": 1.3},
    {"mscale_all_dim": 1.3},
    {"mscale": 0.7, "mscale_all_dim": 1.3, "attention_factor": 1.7},
]


def with_yarn(version: int, scaling: dict) -> tuple[Deepseek, Transformer]:
    """Return transformers' model and ours, with the same weights and the same rope_scaling."""
    theirs = deepseek(Q, version, rope_parameters=scaling | {"rope_theta": 10000.0})
    return theirs, same_in_ours(theirs, rope_scaling=tuple(scaling.items()))


@pytest.mark.parametrize(
    ("version", "factor", "mscales"),
    [*itertools.product([2], [4.0], MSCALES), *itertools.product([3], [40.0], MSCALES), (3, 1.0, MSCALES[3])],
)
def test_yarn_equals_deepseek_whatever_mscale_and_mscale_all_dim_are(version, factor, mscales):
    theirs, ours = with_yarn(version, YARN | {"factor": factor} | mscales)
    ids, record = torch.randint(19, (B, T)), Recording()
    expected = theirs(ids, output_attentions=True)
    assert agree(ours(ids, record=record), expected.logits, 1e-4)
    assert all(agree(r.weights, weights) for r, weights in zip(record, expected.attentions, strict=True))


@pytest.mark.parametrize("mscales", MSCALES[2:4], ids=str)
def test_scores_have_yarns_scale_wherever_they_are_computed(mscales):
    _, ours = with_yarn(3, YARN | {"factor": 40.0} | mscales)
    traced = trace(ours, torch.randint(19, (T,)).tolist())
    for layer, head in ((0, 1), (1, 2)):
        scores = np.where(traced.allowed[layer], traced.layers[layer].scores_of(head), -np.inf)
        np.testing.assert_allclose(torch.tensor(scores).softmax(-1), traced.weights[layer, head], atol=1e-5)
    found = equalities_in_both(ours, traced.tokens.tolist(), 1)
    assert all(exact.equal for _, exact in found)  # absorbed; torch's


def test_permuted_weights_run_in_the_half_split_layout():
    theirs, ids = deepseek(None), torch.randint(19, (B, T))
    ours, expected = same_in_ours(theirs, "half"), theirs(ids).logits
    assert not agree(ours(ids), expected, 1e-2)  # weights of one layout, run in the other
    order = torch.cat((torch.arange(0, P, 2), torch.arange(1, P, 2)))  # all first members of the pairs, then all second
    with torch.no_grad():
        for block in ours.blocks:
            rotated_key = block.attn.kv_a_proj.weight[R:]
            rotated_key.copy_(rotated_key[order])
            rotated_queries = block.attn.q_proj.weight.view(H, N + P, C)[:, N:]
            rotated_queries.copy_(rotated_queries[:, order])
    assert agree(ours(ids), expected, 1e-4)


@pytest.mark.parametrize("q_lora_rank", [None, Q])
@pytest.mark.parametrize("options", [dict(), dict(causal=True), dict(causal=True, mask=attention_mask(T, T, window=3))])
def test_absorbed_equals_expanded(q_lora_rank, options):
    module, x = layer(q_lora_rank=q_lora_rank).double(), torch.randn(B, T, C, dtype=torch.float64)
    real = padding_mask(torch.tensor([T, 4]), T)
    options = options | dict(rope=Rope(rope_frequencies(P)), mask=real & options.get("mask", real))
    assert agree(module(x, absorbed=True, **options), module(x, **options), 1e-10)


def test_absorbed_never_lays_out_the_keys_or_values_of_every_head():
    module, cache = layer(), KVCache()
    module(torch.randn(1, 997, C), absorbed=True, cache=cache, mask=torch.eye(997, dtype=torch.bool))
    expanded_values = 998 * H * V * 4
    with LargestTensor() as absorbed:
        module(torch.randn(1, 1, C), absorbed=True, cache=cache)
    with LargestTensor() as expanded:
        module(torch.randn(1, 1, C), cache=cache)
    assert absorbed.bytes < expanded_values < expanded.bytes


def test_the_cache_holds_the_normed_latent_and_the_turned_key():
    module, x, cache = layer(), torch.randn(B, T, C), KVCache()
    module(x[:, :3], causal=True, rope=Rope(rope_frequencies(P)), cache=cache)
    module(x[:, 3:], causal=True, rope=Rope(rope_frequencies(P)), cache=cache)
    latent, key = module.kv_a_proj(x).split((R, P), dim=-1)
    assert agree(cache.tensors[0], module.kv_a_norm(latent))
    assert agree(cache.tensors[1], apply_rope(key, torch.arange(T), rope_frequencies(P)))
    assert not agree(cache.tensors[1], key)


def test_only_the_rotary_part_is_turned_and_its_key_is_shared_by_all_heads():
    module, x, record = layer(), torch.randn(B, T, C), Recording()
    module(x, causal=True, rope=Rope(rope_frequencies(P)), record=record)
    (r,) = record
    for turned, unturned in ((r.q, r.q_pre_rope), (r.k, r.k_pre_rope)):
        assert torch.equal(turned[..., :N], unturned[..., :N])
        assert agree(turned[..., N:], apply_rope(unturned[..., N:], torch.arange(T), rope_frequencies(P)))
    assert torch.equal(r.k[:, :1, :, N:].expand(B, H, T, P), r.k[..., N:])
    assert not agree(r.k[:, 0, :, :N], r.k[:, 1, :, :N])


def test_the_record_is_what_was_computed():
    module, x, record = layer().double(), torch.randn(B, T, C, dtype=torch.float64), Recording()
    output = module(x, causal=True, rope=Rope(rope_frequencies(P)), record=record)
    r = record[0]
    heads, weights = attention_by_hand(r.q, r.k, r.v, attention_mask(T, T, causal=True))  # scale 1 / sqrt(N + P)
    assert r.v.shape == (B, H, T, V)
    assert agree(r.weights, weights, 1e-10) and agree(module.o_proj(torch.cat(heads.unbind(1), -1)), output, 1e-10)


def test_the_absorbed_form_has_nothing_to_record():
    with pytest.raises(ValueError, match="absorbed"):
        layer()(torch.randn(B, T, C), absorbed=True, record=Recording())


@pytest.mark.parametrize("absorbed", [False, True])
def test_a_query_that_may_see_nothing_gives_zeros_and_finite_gradients(absorbed):
    module, x = layer(), torch.randn(B, T, C, requires_grad=True)
    mask = padding_mask(torch.tensor([T, 0]), T)
    output = module(x, mask=mask, causal=True, rope=Rope(rope_frequencies(P)), absorbed=absorbed)
    assert (output[1] == 0).all() and (output[0] != 0).any()
    output.square().sum().backward()
    assert all(p.grad.isfinite().all() for p in [x, *module.parameters()])


@pytest.mark.parametrize("absorbed", [False, True])
def test_gradients(absorbed):
    module = MultiHeadLatentAttention(
        5, 2, kv_lora_rank=3, qk_nope_head_dim=3, qk_rope_head_dim=2, v_head_dim=2, q_lora_rank=3
    ).double()
    x = torch.randn(1, 3, 5, dtype=torch.float64, requires_grad=True)
    names, weights = zip(*module.named_parameters(), strict=True)

    def run(x, *weights):
        options = dict(causal=True, rope=Rope(rope_frequencies(2), "interleaved"), absorbed=absorbed)
        return torch.func.functional_call(module, dict(zip(names, weights, strict=True)), (x,), options)

    assert torch.autograd.gradcheck(run, (x, *weights), fast_mode=True)
