"""The attention modules: against torch.nn.MultiheadAttention, torch's fused kernel, loops, and one another."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from attnviz.checks import ConfigError
from attnviz.config import ModelConfig
from attnviz.modules import (
    FusedSelfAttention,
    GroupedQueryAttention,
    KVCache,
    MultiHeadAttention,
    MultiQueryAttention,
    Recording,
    Rope,
    SelfAttention,
    StackedHeads,
    apply_rope,
    rope_frequencies,
)
from attnviz.modules.masks import attention_mask
from tests.oracles import agree, attention_by_hand, padding_mask, torch_layer_like

B, T, S, H, D = 2, 7, 11, 3, 5
C = H * D


def tokens(n: int = T, width: int = C, batch: int = B) -> torch.Tensor:
    return torch.randn(batch, n, width)


def copied(source: nn.Module, target: nn.Module) -> nn.Module:
    target.load_state_dict(source.state_dict())
    return target


def split(x: torch.Tensor, projection: nn.Linear, n_heads: int) -> torch.Tensor:
    """Map (B, T, C) to (B, n_heads, T, D), one head's rows of the weight at a time."""
    biases = [None] * n_heads if projection.bias is None else projection.bias.chunk(n_heads)
    return torch.stack([F.linear(x, w, b) for w, b in zip(projection.weight.chunk(n_heads), biases, strict=True)], 1)


# --- multi-head attention against torch's layer ---------------------------------------------------------------------


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("lengths", [None, (T, 4)])
def test_multi_head_equals_torchs_layer(bias, causal, lengths):
    ours, x, record = MultiHeadAttention(C, H, qkv_bias=bias, out_bias=bias), tokens(), Recording()
    real = None if lengths is None else padding_mask(torch.tensor(lengths), T)
    output, weights = torch_layer_like(ours)(
        x, x, x,
        key_padding_mask=None if real is None else ~real[:, 0, 0],  # in torch's layer, True means masked
        attn_mask=~attention_mask(T, T, causal=True) if causal else None,
        average_attn_weights=False,
    )  # fmt: skip
    assert agree(ours(x, mask=real, causal=causal, record=record), output)
    assert agree(record[0].weights, weights)


def test_cross_attention_equals_torchs_layer():
    ours, x, context, record = MultiHeadAttention(C, H, qkv_bias=True, out_bias=True), tokens(), tokens(S), Recording()
    real = padding_mask(torch.tensor([S, 6]), S)
    output, weights = torch_layer_like(ours)(
        x, context, context, key_padding_mask=~real[:, 0, 0], average_attn_weights=False
    )
    assert agree(ours(x, context=context, mask=real, record=record), output)
    assert agree(record[0].weights, weights) and weights.shape == (B, H, T, S)


# --- grouped queries ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_heads, n_kv_heads", [(6, 6), (6, 3), (6, 2), (6, 1), (1, 1)])
@pytest.mark.parametrize("options", [dict(), dict(causal=True), dict(causal=True, window=3)])
def test_grouped_queries_equal_torchs_kernel(n_heads, n_kv_heads, options):
    layer = GroupedQueryAttention(13, n_heads, n_kv_heads, head_dim=D, qkv_bias=True, out_bias=True)  # 13 is not H · D
    x, mask = tokens(width=13), attention_mask(T, T, **options)
    q, k, v = split(x, layer.q_proj, n_heads), split(x, layer.k_proj, n_kv_heads), split(x, layer.v_proj, n_kv_heads)
    heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)
    expected = F.linear(torch.cat(heads.unbind(1), -1), layer.o_proj.weight, layer.o_proj.bias)
    assert agree(layer(x, mask=mask), expected)
    if "window" not in options:
        assert agree(layer(x, **options), expected)


def test_the_record_is_what_was_computed():
    layer, x, record = GroupedQueryAttention(13, 6, 2, head_dim=4), tokens(width=13), Recording()
    frequencies = rope_frequencies(4)
    output = layer(x, causal=True, rope=Rope(frequencies), record=record)
    (r,), q, k = record, split(x, layer.q_proj, 6), split(x, layer.k_proj, 2)
    assert agree(r.q_pre_rope, q) and agree(r.q, apply_rope(q, torch.arange(T), frequencies))
    assert agree(r.k_pre_rope, k) and agree(r.k, apply_rope(k, torch.arange(T), frequencies))
    assert agree(r.v, split(x, layer.v_proj, 2))  # never rotated
    heads, weights = attention_by_hand(r.q, r.k, r.v, attention_mask(T, T, causal=True))
    assert agree(r.weights.double(), weights) and agree(layer.o_proj(torch.cat(heads.float().unbind(1), -1)), output)
    assert torch.equal(r.allowed.expand(T, T), attention_mask(T, T, causal=True))


@pytest.mark.parametrize("n_kv_heads", [6, 3, 2, 1])
def test_sharing_equals_giving_every_query_head_a_copy(n_kv_heads):
    shared, x = GroupedQueryAttention(13, 6, n_kv_heads, head_dim=D), tokens(width=13)
    own = MultiHeadAttention(13, 6, head_dim=D)
    weights = shared.state_dict()
    for name in ("k_proj.weight", "v_proj.weight"):
        one_a_head = weights[name].view(n_kv_heads, D, 13)
        weights[name] = one_a_head.repeat_interleave(6 // n_kv_heads, dim=0).flatten(0, 1)
    own.load_state_dict(weights)
    assert agree(own(x, causal=True), shared(x, causal=True))


def test_as_many_kv_heads_as_heads_is_multi_head_and_one_is_multi_query():
    x = tokens()
    for named, k in ((MultiHeadAttention, H), (MultiQueryAttention, 1)):
        grouped = GroupedQueryAttention(C, H, k)
        assert torch.equal(copied(grouped, named(C, H))(x), grouped(x))


@pytest.mark.parametrize("n_kv_heads", [0, 5, 24])
def test_an_impossible_number_of_kv_heads_is_refused(n_kv_heads):
    with pytest.raises(ValueError, match=f"n_kv_heads must divide n_heads = 12, and {n_kv_heads} does not"):
        GroupedQueryAttention(12, 12, n_kv_heads)
    with pytest.raises(ConfigError, match="n_kv_heads"):
        ModelConfig(1, 12, 12, n_kv_heads)


def test_a_width_that_is_no_multiple_of_the_heads_needs_a_head_dim():
    with pytest.raises(ValueError, match="d_model = 13 must be a multiple of n_heads = 6"):
        GroupedQueryAttention(13, 6, 2)
    assert GroupedQueryAttention(13, 6, 2, head_dim=4).q_proj.out_features == 24
    with pytest.raises(ConfigError, match="multiple of n_heads"):
        StackedHeads(13, 6)


# --- one head, alone and in a stack ---------------------------------------------------------------------------------


@pytest.mark.parametrize("bias", [False, True])
def test_one_head_by_loops(bias):
    layer, x = SelfAttention(13, 5, qkv_bias=bias).double(), tokens(width=13).double()
    q, k, v = (p(x)[:, None] for p in (layer.q_proj, layer.k_proj, layer.v_proj))
    expected, _ = attention_by_hand(q, k, v, attention_mask(T, T, causal=True))
    assert agree(layer(x, causal=True), expected[:, 0], 1e-12)


def test_one_head_has_an_output_projection_only_when_asked():
    assert not list(SelfAttention(13, 5).o_proj.parameters())
    plain, projected, x = SelfAttention(13, 5), SelfAttention(13, 5, out_proj=True), tokens(width=13)
    projected.load_state_dict({**plain.state_dict(), "o_proj.weight": 2 * torch.eye(5)})
    assert agree(projected(x), 2 * plain(x)) and SelfAttention(13)(x).shape == x.shape


@pytest.mark.parametrize("bias", [False, True])
def test_one_fused_projection_equals_three(bias):
    separate, x = SelfAttention(13, 5, qkv_bias=bias), tokens(width=13)
    fused, real = FusedSelfAttention(13, 5, qkv_bias=bias), padding_mask(torch.tensor([T, 3]), T)
    parts = [separate.q_proj, separate.k_proj, separate.v_proj]
    with torch.no_grad():
        for name, p in fused.qkv_proj.named_parameters():
            p.copy_(torch.cat([part.get_parameter(name) for part in parts]))
    assert [p.shape[0] for p in fused.parameters()] == [15] * (1 + bias)
    causal = attention_mask(T, T, causal=True)
    assert agree(fused(x, mask=real & causal), separate(x, causal=True, mask=real))


@pytest.mark.parametrize("bias", [False, True])
def test_a_stack_of_heads_equals_multi_head_with_the_weights_side_by_side(bias):
    stack, x = StackedHeads(13, H, head_dim=D, qkv_bias=bias), tokens(width=13)
    whole = MultiHeadAttention(13, H, head_dim=D, qkv_bias=bias)
    with torch.no_grad():
        for name, parameter in whole.named_parameters():
            parts = [stack.o_proj.weight] if "o_proj" in name else [h.get_parameter(name) for h in stack.heads]
            parameter.copy_(torch.cat(parts))
    rope = Rope(rope_frequencies(4))  # partial: four of the five dimensions
    assert agree(stack(x, causal=True, rope=rope), whole(x, causal=True, rope=rope))


# --- masks, contexts, widths ----------------------------------------------------------------------------------------


def test_the_future_cannot_be_seen_and_the_past_can():
    layer, x = GroupedQueryAttention(13, 6, 2, head_dim=4), tokens(width=13)
    changed = x.clone()
    changed[:, 4] += 1
    before, after = layer(x, causal=True), layer(changed, causal=True)
    assert torch.equal(before[:, :4], after[:, :4])
    assert (before[:, 4:] - after[:, 4:]).abs().amin(dim=-1).gt(0).all()


@pytest.mark.parametrize("causal", [False, True])
def test_padding_does_not_touch_the_real_tokens(causal):
    layer, x = GroupedQueryAttention(13, 6, 2, head_dim=4), tokens(width=13)
    padded = layer(x, mask=padding_mask(torch.tensor([T, 4]), T), causal=causal)
    assert agree(padded[1:, :4], layer(x[1:, :4], causal=causal))
    assert not agree(padded[1:, :4], layer(x, causal=False)[1:, :4])


def test_a_window_reaches_just_so_far():
    layer, x = GroupedQueryAttention(13, 6, 2, head_dim=4), tokens(width=13)
    changed = x.clone()
    changed[:, 1] += 1
    mask = attention_mask(T, T, causal=True, window=3)
    seen = (layer(x, mask=mask) - layer(changed, mask=mask)).abs().sum((0, 2)) > 0
    assert seen.tolist() == [False, True, True, True, False, False, False]


def test_masks_of_all_kinds_are_joined():
    layer, x, record = MultiHeadAttention(C, H), tokens(), Recording()
    real, own = padding_mask(torch.tensor([T, 5]), T), torch.rand(B, H, T, T) < 0.8
    layer(x, mask=real & own, causal=True, record=record)
    allowed = real & own & attention_mask(T, T, causal=True)
    assert torch.equal(record[0].allowed, allowed)
    assert torch.equal(record[0].weights > 0, allowed)


def test_a_query_that_may_see_nothing_gives_zeros_and_finite_gradients():
    layer, x = GroupedQueryAttention(13, 6, 2, head_dim=4), tokens(width=13).requires_grad_()
    output = layer(x, mask=padding_mask(torch.tensor([T, 0]), T), causal=True)
    assert (output[1] == 0).all() and (output[0] != 0).any()
    output.square().sum().backward()
    assert all(p.grad.isfinite().all() for p in [x, *layer.parameters()])


@pytest.mark.parametrize("causal", [False, True])
def test_masks_that_do_not_fit_are_refused(causal):
    layer, x = MultiHeadAttention(C, H), tokens()
    with pytest.raises(ValueError, match=r"\(5, 1, 7, 7\) does not fit|\(5, 1, 1, 7\) does not fit"):
        layer(x, mask=torch.ones(5, 1, 1, T, dtype=torch.bool), causal=causal)
    with pytest.raises(NotImplementedError if causal else TypeError):  # torch itself does not combine float masks
        layer(x, mask=torch.zeros(T, T), causal=causal)


def test_a_cache_and_a_context_exclude_each_other():
    with pytest.raises(ValueError, match="context"):
        MultiHeadAttention(C, H)(tokens(), context=tokens(S), cache=KVCache())


def test_the_output_may_have_another_width():
    layer, x = GroupedQueryAttention(13, 6, 2, head_dim=4, d_out=17, out_bias=True), tokens(width=13)
    narrow = GroupedQueryAttention(13, 6, 2, head_dim=4)
    weights = {n: p for n, p in layer.state_dict().items() if not n.startswith("o_proj")}
    narrow.load_state_dict({**weights, "o_proj.weight": layer.o_proj.weight[:13]})
    assert layer(x).shape == (B, T, 17)
    assert agree(layer(x)[..., :13], narrow(x) + layer.o_proj.bias[:13])


def test_without_positions_and_masks_order_means_nothing():
    layer, x = GroupedQueryAttention(13, 6, 2, head_dim=4), tokens(width=13)
    order = torch.randperm(T)
    assert agree(layer(x[:, order]), layer(x)[:, order])
    rope = Rope(rope_frequencies(4))
    assert not agree(layer(x[:, order], rope=rope), layer(x, rope=rope)[:, order])


def test_the_layout_of_rope_changes_the_output():
    layer, x, f = MultiHeadAttention(12, 3), tokens(width=12), rope_frequencies(4)
    assert not agree(layer(x, rope=Rope(f)), layer(x, rope=Rope(f, "interleaved")))


# --- dropout, gradients, state --------------------------------------------------------------------------------------


def test_dropout_falls_on_the_weights_and_only_in_training():
    layer, x, record = MultiHeadAttention(C, H, dropout=0.3), tokens(), Recording()
    torch.manual_seed(3)
    dropped = layer(x, causal=True, record=record)
    torch.manual_seed(3)
    dropout_mask = F.dropout(torch.ones(B, H, T, T), 0.3)
    heads = (record[0].weights * dropout_mask) @ record[0].v
    assert agree(dropped, layer.o_proj(torch.cat(heads.unbind(1), -1)))
    whole = copied(layer, MultiHeadAttention(C, H))(x, causal=True)
    assert not agree(dropped, whole) and torch.equal(layer.eval()(x, causal=True), whole)


def test_gradients_of_inputs_and_weights():
    layer = GroupedQueryAttention(5, 4, 2, head_dim=4, qkv_bias=True, out_bias=True).double()
    x, context = (torch.randn(1, n, 5, dtype=torch.float64, requires_grad=True) for n in (3, 4))
    names, weights = zip(*layer.named_parameters(), strict=True)

    def run(x, context, *weights):
        options = dict(context=context, causal=True, rope=Rope(rope_frequencies(4)))
        return torch.func.functional_call(layer, dict(zip(names, weights, strict=True)), (x,), options)

    assert torch.autograd.gradcheck(run, (x, context, *weights), fast_mode=True)


def test_nothing_stays_on_a_module():
    layer, x = GroupedQueryAttention(13, 6, 2, head_dim=4), tokens(width=13)
    before = set(vars(layer)), {n: p.clone() for n, p in layer.state_dict().items()}
    layer(x, causal=True, cache=KVCache(), record=Recording())
    assert set(vars(layer)) == before[0]
    assert all(torch.equal(p, before[1][n]) for n, p in layer.state_dict().items())


def test_a_single_head_without_an_output_projection_refuses_its_bias():
    with pytest.raises(ConfigError, match="out_bias = True needs out_proj = True"):
        SelfAttention(5, out_bias=True)
    assert SelfAttention(5, out_bias=True, out_proj=True).o_proj.bias is not None
