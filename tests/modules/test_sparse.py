"""Sparse attention: index scores and top-k by loops, the indexer on MLA against transformers' DeepSeek V3.2, caches."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers import DeepseekV32Config, DeepseekV32ForCausalLM

from attnviz.config import ConfigError, ModelConfig
from attnviz.cost import count_parameters, kv_cache_bytes
from attnviz.decode import Sampling, generate
from attnviz.experiments.fused import fused_attend
from attnviz.mechanisms import Dense, IndexedGrouped, IndexedLatent, Layer
from attnviz.modules import GroupedQueryAttention, KVCache, Recording, SparseAttention, Transformer
from attnviz.modules.masks import attention_mask
from attnviz.modules.rope import Rope, rope_frequencies
from attnviz.modules.sparse import index_scores, top_k_mask
from attnviz.trace import predict, trace, trace_bytes
from tests.oracles import agree, padding_mask

B, T, S, INDEX_HEADS, D = 2, 11, 13, 17, 7  # so many that no two scores are 0: transformers would keep either
C, H, K_HEADS, HEAD, K = 15, 6, 3, 8, 3  # K of at most T keys
R, N, P, V, Q, INDEX = 14, 6, 4, 13, 17, 10  # DeepSeek's code needs even R, N and P


def test_index_scores_are_those_of_loops():
    q, k, weights = torch.randn(B, INDEX_HEADS, T, D), torch.randn(B, S, D), torch.randn(B, T, INDEX_HEADS)
    expected = np.zeros((B, T, S))
    for b, t, s in np.ndindex(B, T, S):
        products = [max(0.0, float(q[b, i, t].double() @ k[b, s].double())) for i in range(INDEX_HEADS)]
        expected[b, t, s] = sum(float(w) * p for w, p in zip(weights[b, t], products, strict=True))
    assert agree(index_scores(q, k, weights).double(), torch.tensor(expected))


def test_the_best_keys_are_kept():
    scores, causal = torch.randn(B, T, T), torch.ones(T, T, dtype=torch.bool).tril()
    kept = top_k_mask(scores, K, causal)
    assert kept.shape == (B, 1, T, T) and kept.dtype == torch.bool
    for b, t in np.ndindex(B, T):  # a query with K keys or fewer keeps all of them
        best = sorted(range(t + 1), key=lambda s: -float(scores[b, t, s]))[:K]
        assert kept[b, 0, t].nonzero()[:, 0].tolist() == sorted(best)
    assert top_k_mask(scores, T + 2).all() and torch.equal(top_k_mask(scores, T, causal)[0, 0], causal)


def test_masked_keys_take_no_places():
    """The best scores are those of later tokens: ranked before the mask, nothing would be left of the k."""
    scores, causal = torch.arange(T).float().expand(B, T, T), torch.ones(T, T, dtype=torch.bool).tril()
    kept = top_k_mask(scores, K, causal)
    assert kept.sum(-1)[0, 0].tolist() == [min(t + 1, K) for t in range(T)]
    nothing = top_k_mask(scores, K, torch.zeros(T, T, dtype=torch.bool))
    assert not nothing.any()


def test_of_equal_scores_the_earlier_keys_are_kept_however_many_follow():
    flat = torch.zeros(1, 1, S)
    for n in (K, K + 1, S):
        assert top_k_mask(flat[..., :n], K)[0, 0, 0].nonzero()[:, 0].tolist() == list(range(K))
    with pytest.raises(ValueError, match="k must be at least 1, not 0"):
        top_k_mask(flat, 0)


def test_padding_masks_of_a_batch_are_ranked_too():
    scores = torch.randn(B, T, S)
    padding = padding_mask(torch.tensor([4, 9]), S)  # (B, 1, 1, S)
    assert top_k_mask(scores, 7, padding[:, 0]).sum(-1)[:, 0].tolist() == [[4] * T, [7] * T]


# --- on grouped-query attention ---------------------------------------------------------------------------------------


def layer(top_k: int = K) -> SparseAttention:
    return SparseAttention(C, H, K_HEADS, head_dim=HEAD, top_k=top_k, n_index_heads=INDEX_HEADS, index_dim=INDEX)


def test_with_as_many_keys_as_tokens_it_is_grouped_query_attention():
    ours, x, rope = layer(T), torch.randn(B, T, C), Rope(rope_frequencies(HEAD))
    dense = GroupedQueryAttention(C, H, K_HEADS, head_dim=HEAD)
    dense.load_state_dict({name: p for name, p in ours.state_dict().items() if "indexer" not in name})
    mask = attention_mask(T, T, causal=True, window=5)
    assert agree(ours(x, mask=mask, rope=rope), dense(x, mask=mask, rope=rope))


def test_each_query_attends_to_its_best_keys_alone():
    ours, x, rope, record = layer(), torch.randn(B, T, C), Rope(rope_frequencies(HEAD)), Recording()
    output = ours(x, causal=True, rope=rope, record=record)
    (one,) = record
    kept = one.allowed
    assert kept.shape == (B, 1, T, T) and kept.sum(-1)[0, 0].tolist() == [min(t + 1, K) for t in range(T)]
    assert torch.equal(kept, top_k_mask(one.own["index_scores"], K, torch.ones(T, T, dtype=torch.bool).tril()))
    by_kernel = torch.nn.functional.scaled_dot_product_attention(one.q, one.k, one.v, kept, enable_gqa=True)
    assert agree(output, ours.o_proj(by_kernel.transpose(1, 2).flatten(2)))
    assert agree(ours(x, causal=True, rope=rope, kernel=fused_attend), output)
    assert agree(one.weights.sum(-1), torch.ones(B, H, T)) and not one.weights[~kept.expand_as(one.weights)].any()


def test_decoding_with_the_index_key_cache_equals_recomputing():
    ours, x, rope = layer(), torch.randn(B, T, C), Rope(rope_frequencies(HEAD))
    expected, cache = ours(x, causal=True, rope=rope), KVCache()
    pieces = [ours(x[:, a:b], causal=True, rope=rope, cache=cache) for a, b in ((0, 4), (4, 5), (5, 6), (6, T))]
    assert agree(torch.cat(pieces, 1), expected)
    assert [t.shape for t in cache.tensors] == [(B, K_HEADS, T, HEAD)] * 2 + [(B, T, INDEX)]
    with pytest.raises(ValueError, match="takes no context"):
        ours(x, context=x)


GROUPED = IndexedGrouped(
    n_heads=H, n_kv_heads=K_HEADS, head_dim=HEAD, top_k=K, n_index_heads=INDEX_HEADS, index_dim=INDEX
)
MODEL = ModelConfig(
    2, C, H, K_HEADS, HEAD, 23, 31, mixed_layers=(Layer((GROUPED, Dense(23)), rope_theta=53.0),) * 2
)  # fmt: skip
IDS = torch.randint(31, (T,), generator=torch.Generator().manual_seed(7)).tolist()


def test_a_model_is_traced_counted_and_decoded():
    model = Transformer.random(MODEL, 3)
    traced = trace(model, IDS)
    assert traced.nbytes == trace_bytes(MODEL, T)
    for one in traced.layers:
        assert one.allowed.sum(-1).tolist() == [min(t + 1, K) for t in range(T)]
        masked = np.where(one.allowed, one.scores, -np.inf)
        np.testing.assert_allclose(torch.tensor(masked).softmax(-1), one.weights, atol=1e-6)
    assert count_parameters(MODEL).total == sum(p.numel() for p in model.parameters())
    cache = model.new_cache()
    model(torch.tensor([IDS]), cache=cache)
    assert sum(layer.nbytes for layer in cache) == kv_cache_bytes(MODEL, T, bits=32)
    steps = list(generate(model, IDS[:5], 6, Sampling()))
    ids = IDS[:5] + [step.id for step in steps]
    for n, step in enumerate(steps, 5):
        np.testing.assert_allclose(step.logits.numpy(), predict(model, ids[:n])[-1], atol=1e-4)
    assert ModelConfig.from_dict(MODEL.to_dict()) == MODEL


def test_an_index_key_narrower_than_the_rotation_is_refused():
    narrow = replace(GROUPED, index_dim=HEAD - 2)
    with pytest.raises(ConfigError, match=f"index_dim must be at least {HEAD}, .* not {HEAD - 2}"):
        Transformer(replace(MODEL, mixed_layers=(Layer((narrow, Dense(23)), rope_theta=53.0),) * 2))


# --- on latent attention, as in DeepSeek V3.2 -------------------------------------------------------------------------

NAMES = {  # ours: theirs
    "kv_a_proj": "kv_a_proj_with_mqa", "kv_a_norm": "kv_a_layernorm", "q_a_norm": "q_a_layernorm",
    "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm", "attn": "self_attn", "ffn": "mlp",
    "blocks": "model.layers", "embed": "model.embed_tokens", "norm": "model.norm",
}  # fmt: skip


def deepseek() -> tuple[DeepseekV32ForCausalLM, Transformer]:
    """Return transformers' model of two layers with plain feed-forwards, and ours with the same weights."""
    sizes = dict(kv_lora_rank=R, qk_nope_head_dim=N, qk_rope_head_dim=P, v_head_dim=V, q_lora_rank=Q)
    config = DeepseekV32Config(
        vocab_size=31, hidden_size=C, intermediate_size=23, num_hidden_layers=2, num_attention_heads=H,
        num_key_value_heads=H, first_k_dense_replace=2, index_topk=K, index_n_heads=INDEX_HEADS, index_head_dim=INDEX,
        attn_implementation="eager", rope_parameters={"rope_type": "default", "rope_theta": 53.0}, **sizes,
    )  # fmt: skip
    theirs = DeepseekV32ForCausalLM(config).eval()
    for parameter in theirs.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    mixer = IndexedLatent(n_heads=H, top_k=K, n_index_heads=INDEX_HEADS, index_dim=INDEX, **sizes)
    ours = Transformer.random(
        ModelConfig(
            2, C, H, vocab_size=31, head_dim=N + P, tie_embeddings=False, rope_layout="interleaved",
            mixed_layers=(Layer((mixer, Dense(23)), rope_theta=53.0),) * 2,
        ), 0,
    )  # fmt: skip
    weights = theirs.state_dict()
    ours.load_state_dict({name: weights[their_name(name)] for name, _ in ours.named_parameters()})
    return theirs, ours


def their_name(name: str) -> str:
    theirs = ".".join(NAMES.get(part, part) for part in name.split("."))
    return theirs.replace("indexer.q_proj", "indexer.wq_b").replace("indexer.k_proj", "indexer.wk")


def test_equals_deepseek_v32_in_logits_and_every_layers_weights():
    theirs, ours = deepseek()
    ids, record = torch.randint(31, (B, T)), Recording()
    expected = theirs(ids, output_attentions=True)
    assert agree(ours(ids, record=record), expected.logits, 1e-4)
    for one, weights in zip(record, expected.attentions, strict=True):
        assert agree(one.weights, weights) and (weights > 0).sum(-1).max() == K < T


def test_decodes_as_deepseek_v32_expanded_and_absorbed():
    theirs, ours = deepseek()
    ids = torch.randint(31, (B, T))
    expected = theirs(ids[:, :5], use_cache=True)
    caches = ours.new_cache(), ours.new_cache()
    for cache in caches:
        assert agree(ours(ids[:, :5], cache=cache), expected.logits, 1e-4)
    for t in range(5, T):
        expected = theirs(ids[:, t : t + 1], past_key_values=expected.past_key_values, use_cache=True)
        for cache, absorbed in zip(caches, (False, True), strict=True):
            assert agree(ours(ids[:, t : t + 1], cache=cache, absorbed=absorbed), expected.logits, 1e-4)
    assert [t.shape[-1] for t in caches[0][0].tensors] == [R, P, INDEX]
    assert sum(layer.nbytes for layer in caches[0]) == B * kv_cache_bytes(ours.config, T, bits=32)
