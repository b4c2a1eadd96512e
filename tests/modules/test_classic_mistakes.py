"""Build the classic mistakes of attention code on purpose: our version agrees with an independent implementation and
the mistaken version does not, so the comparison would catch it."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from attnviz.config import AttentionConfig, ConfigError, ModelConfig, divisors
from attnviz.modules import (
    Block,
    FusedSelfAttention,
    GroupedQueryAttention,
    KVCache,
    MultiHeadAttention,
    MultiHeadLatentAttention,
    MultiQueryAttention,
    Recording,
    RMSNorm,
    Rope,
    SelfAttention,
    StackedHeads,
    SwiGLU,
    Transformer,
    apply_rope,
    attend,
    rope_frequencies,
)
from attnviz.modules.masks import attention_mask
from attnviz.modules.rope import rope_angles
from tests.oracles import agree, attention_by_hand, padding_mask, torch_layer_like

B, T, K, G, D = 2, 7, 3, 5, 11
H, C = K * G, K * G * D


def qkv(n_kv_heads: int = K) -> tuple[Tensor, Tensor, Tensor]:
    return torch.randn(B, H, T, D), torch.randn(B, n_kv_heads, T, D), torch.randn(B, n_kv_heads, T, D)


def oracle(q: Tensor, k: Tensor, v: Tensor, **options) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, enable_gqa=True, **options)


def entropy(weights: Tensor) -> Tensor:
    return -(weights * weights.log()).sum(-1)


def test_1_scaling_by_the_root_of_d_model():
    """Scores are divided by sqrt(head_dim); with sqrt(d_model) every row is too flat."""
    q, k, v = qkv()
    mistaken = attend(q, k, v, scale=C**-0.5)
    assert agree(attend(q, k, v).output, oracle(q, k, v)) and not agree(mistaken.output, oracle(q, k, v), 1e-2)
    assert (entropy(mistaken.weights) > entropy(attend(q, k, v).weights)).all()


def test_2_tiling_the_kv_heads_instead_of_interleaving_them():
    """Tiling (0,1,2,0,1,2 …) has the shape of repeating (0,0,…,1,1,…), but most query heads read the wrong KV head."""

    def tiled(x: Tensor) -> Tensor:
        return x.transpose(1, 2).unsqueeze(2).expand(B, T, G, K, D).flatten(2, 3).transpose(1, 2)

    q, k, v = qkv()
    expected, mistaken = oracle(q, k, v), attend(q, tiled(k), tiled(v)).output
    same = [agree(mistaken[:, h], expected[:, h]) for h in range(H)]
    assert agree(attend(q, k, v).output, expected) and mistaken.shape == expected.shape
    assert same == [h % K == h // G for h in range(H)] and sum(same) < H / 2


def test_3_a_mask_that_is_never_used():
    """Ignoring a mask raises no error, but the future leaks."""

    class Mistaken(MultiHeadAttention):
        def forward(self, x, mask=None):
            return super().forward(x)

    ours, x = MultiHeadAttention(C, H), torch.randn(B, T, C)
    mistaken = Mistaken(C, H)
    mistaken.load_state_dict(ours.state_dict())
    changed = x.clone()
    changed[:, -1] += 1

    def leaks(layer) -> bool:
        mask = attention_mask(T, T, causal=True)
        return not agree(layer(x, mask=mask)[:, :-1], layer(changed, mask=mask)[:, :-1])

    assert leaks(mistaken) and not leaks(ours)


def test_3_no_module_ignores_its_mask():
    x, sizes = torch.randn(B, T, 12), dict(kv_lora_rank=5, qk_nope_head_dim=3, qk_rope_head_dim=2, v_head_dim=7)
    layers = [
        SelfAttention(12), FusedSelfAttention(12), StackedHeads(12, 3), MultiHeadAttention(12, 6),
        GroupedQueryAttention(12, 6, 2), MultiQueryAttention(12, 6), MultiHeadLatentAttention(12, 3, **sizes),
    ]  # fmt: skip
    changed = x.clone()
    changed[1, -1] += 1
    mask = padding_mask(torch.tensor([T, T - 1]), T)
    for layer in layers:
        assert agree(layer(x, mask=mask)[1, :-1], layer(changed, mask=mask)[1, :-1]), type(layer).__name__
        assert not agree(layer(x)[1, :-1], layer(changed)[1, :-1]), type(layer).__name__


def test_4_a_fully_masked_row():
    """For a fully masked row, minus infinity gives NaN and -1e20 the average of the masked values; ours gives zeros."""
    q, k, v = qkv(H)
    mask = attention_mask(T, T, causal=True).clone()
    mask[2] = False
    ours = attend(q, k, v, mask=mask)
    scores = q @ k.mT / math.sqrt(D)
    infinite = scores.masked_fill(~mask, -math.inf).softmax(-1) @ v
    large = scores.masked_fill(~mask, -1e20).softmax(-1) @ v
    expected, _ = attention_by_hand(q, k, v, mask)
    assert agree(ours.output.double(), expected) and (ours.output[:, :, 2] == 0).all()
    assert infinite[:, :, 2].isnan().all()
    assert agree(large[:, :, 2], v.mean(2))


def test_5_masking_after_the_softmax():
    """The rows no longer sum to 1."""
    q, k, v = qkv()
    mask = attention_mask(T, T, causal=True)
    mistaken = attend(q, k, v).weights * mask
    ours = attend(q, k, v, mask=mask)
    assert agree(ours.weights.sum(-1), torch.ones(B, H, T)) and agree(ours.output, oracle(q, k, v, attn_mask=mask))
    assert (mistaken.sum(-1)[..., :-1] < 0.999).all()


@pytest.mark.parametrize("causal", [False, True])
def test_6_a_mask_with_another_batch_size(causal):
    """A mask for three texts silently broadcasts the scores of one text to three."""
    layer, x, mask = MultiHeadAttention(C, H), torch.randn(1, T, C), padding_mask(torch.tensor([T, 3, 5]), T)
    q = torch.randn(1, H, T, D)
    mistaken = (q @ q.mT).masked_fill(~mask, -1e20).softmax(-1)
    assert mistaken.shape == (3, H, T, T)
    with pytest.raises(ValueError, match="does not fit"):
        layer(x, mask=mask, causal=causal)


def test_7_swiglu_with_a_sigmoid_gate():
    """A sigmoid instead of SiLU makes it GLU."""
    layer, x = SwiGLU(5, 13), torch.randn(B, T, 5)
    mistaken = layer.down_proj(torch.sigmoid(layer.gate_proj(x)) * layer.up_proj(x))
    gate = layer.gate_proj(x)
    expected = layer.down_proj(gate / (1 + torch.exp(-gate)) * layer.up_proj(x))
    assert agree(layer(x), expected) and not agree(mistaken, expected, 1e-2)


def test_8_a_rope_table_has_half_the_head_and_one_layouts_weights_fail_in_the_other():
    """The other layout has right shapes but wrong scores, and equals ours on permuted dimensions; angles (T, D / 2)."""
    D, positions = 22, torch.arange(T)
    frequencies = rope_frequencies(D)
    assert rope_angles(positions, frequencies).shape == (T, D // 2)
    q, k = torch.randn(B, H, T, D), torch.randn(B, H, T, D)

    def scores(layout: str, order: Tensor) -> Tensor:
        return (
            apply_rope(q[..., order], positions, frequencies, layout)
            @ apply_rope(k[..., order], positions, frequencies, layout).mT
        )

    pairs = torch.view_as_complex(torch.stack((q, k)).unflatten(-1, (-1, 2)).contiguous())
    turned = torch.view_as_real(pairs * torch.polar(torch.ones(T, D // 2), positions[:, None] * frequencies.float()))
    expected = turned[0].flatten(-2) @ turned[1].flatten(-2).mT
    as_they_are = torch.arange(D)
    assert agree(scores("interleaved", as_they_are), expected, 1e-4)
    assert not agree(scores("half", as_they_are), expected, 1e-2)
    assert agree(scores("half", torch.cat((as_they_are[0::2], as_they_are[1::2]))), expected, 1e-4)


def test_9_attending_across_the_batch():
    """torch.nn.MultiheadAttention without batch_first=True reads (B, T, C) as (T, B, C)."""
    ours, x = MultiHeadAttention(C, H), torch.randn(B, T, C)
    mistaken = nn.MultiheadAttention(C, H, bias=False)
    mistaken.load_state_dict(torch_layer_like(ours).state_dict())
    changed = x.clone()
    changed[1] += 1
    assert agree(ours(x), torch_layer_like(ours)(x, x, x)[0])
    assert torch.equal(ours(x)[0], ours(changed)[0])
    assert not agree(mistaken(x, x, x)[0][0], mistaken(changed, changed, changed)[0][0])


def test_10_groups_meaning_two_things():
    """With 32 query heads, "4 groups" can mean 4 or 8 KV heads: our parameter is n_kv_heads, not group_size."""
    by_count, by_size = AttentionConfig(64, 32, n_kv_heads=4), AttentionConfig(64, 32, n_kv_heads=32 // 4)
    assert (by_count.n_kv_heads, by_count.group_size) == (4, 8)
    assert (by_size.n_kv_heads, by_size.group_size) == (8, 4)
    shapes = [GroupedQueryAttention(64, 32, c.n_kv_heads).k_proj.weight.shape for c in (by_count, by_size)]
    assert shapes == [(4 * 2, 64), (8 * 2, 64)]


def test_11_an_attribute_read_before_it_is_assigned():
    """Such a class cannot be instantiated. All of ours can, and reject an invalid number with a readable error."""

    class Mistaken(nn.Module):
        def __init__(self, d_model: int, n_heads: int) -> None:
            super().__init__()
            assert self.d_model % n_heads == 0
            self.d_model = d_model

    with pytest.raises(AttributeError):
        Mistaken(12, 3)
    model = ModelConfig(1, 12, 6, 2, vocab_size=17)
    latent = dict(kv_lora_rank=5, qk_nope_head_dim=3, qk_rope_head_dim=2, v_head_dim=7)
    for build in (
        lambda: GroupedQueryAttention(12, 6, 2), lambda: MultiHeadAttention(12, 6), lambda: MultiQueryAttention(12, 6),
        lambda: SelfAttention(12), lambda: FusedSelfAttention(12), lambda: StackedHeads(12, 3),
        lambda: MultiHeadLatentAttention(12, 3, **latent), lambda: RMSNorm(12), lambda: SwiGLU(12, 32),
        lambda: Block(model),
    ):  # fmt: skip
        assert build()(torch.randn(B, T, 12)).shape == (B, T, 12)
    assert Transformer(model)(torch.zeros(B, T, dtype=torch.long)).shape == (B, T, 17)
    for refuse, error in ((GroupedQueryAttention, ValueError), (AttentionConfig, ConfigError)):
        with pytest.raises(error, match="n_kv_heads must divide n_heads"):
            refuse(12, 6, 4)


def test_12_view_after_transpose_and_reshape_without_it():
    """view() raises; reshape() runs and mixes tokens with heads."""
    q, k, v = qkv()
    heads = oracle(q, k, v)  # (B, H, T, D)
    with pytest.raises(RuntimeError, match="view"):
        heads.transpose(1, 2).view(B, T, C)
    ours, x, record = GroupedQueryAttention(C, H, K), torch.randn(B, T, C), Recording()
    output = ours(x, record=record)
    heads = oracle(record[0].q, record[0].k, record[0].v)
    mistaken = ours.o_proj(heads.reshape(B, T, C))
    expected = ours.o_proj(torch.cat([heads[:, h] for h in range(H)], dim=-1))
    assert mistaken.shape == expected.shape and not agree(mistaken, expected, 1e-2)
    assert agree(output, expected)


@pytest.mark.parametrize("n_kv_heads", divisors(H))
def test_13_a_cache_sized_with_n_heads(n_kv_heads):
    """The mistaken size is H / K times too large; ours equals the live tensors."""
    layer, cache = GroupedQueryAttention(13, H, n_kv_heads, head_dim=D), KVCache()
    layer(torch.randn(B, T, 13), cache=cache)
    k, v = layer.k_proj(torch.randn(B, T, 13)), layer.v_proj(torch.randn(B, T, 13))
    assert cache.nbytes == k.nbytes + v.nbytes == B * T * 2 * n_kv_heads * D * 4
    assert cache.nbytes * (H // n_kv_heads) == B * T * 2 * H * D * 4


def test_13_a_latent_cache_with_a_factor_two_or_without_its_rotated_key():
    rank, rotary = 13, 4
    layer = MultiHeadLatentAttention(
        17, 3, kv_lora_rank=rank, qk_nope_head_dim=5, qk_rope_head_dim=rotary, v_head_dim=7
    )
    cache, options = KVCache(), dict(causal=True, rope=Rope(rope_frequencies(rotary)))
    x = torch.randn(B, T, 17)
    layer(x[:, :-1], cache=cache, **options)
    assert cache.nbytes == B * (T - 1) * (rank + rotary) * 4
    without_key = KVCache()
    without_key.append(cache.tensors[0], torch.zeros_like(cache.tensors[1]))
    expected = layer(x, **options)[:, -1:]
    assert agree(layer(x[:, -1:], cache=cache, **options), expected)
    assert not agree(layer(x[:, -1:], cache=without_key, **options), expected)  # the key is needed


def test_14_grouped_queries_compute_as_much_and_remember_less():
    """The matrix products of attention cost the same for any K; only the cache shrinks, by H / K."""
    flops, remembered = set(), []
    for n_kv_heads in divisors(H):
        q, k, v = qkv(n_kv_heads)
        with FlopCounterMode(display=False) as counter:
            attend(q, k, v)
        flops.add(counter.get_total_flops())
        cache = KVCache()
        cache.append(k, v)
        remembered.append(cache.nbytes)
    assert flops == {2 * 2 * B * H * T * T * D}  # a multiplication and an addition, for scores and for values
    assert [remembered[0] / r for r in remembered] == [H / n for n in divisors(H)]
