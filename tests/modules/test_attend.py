"""attend(): against torch's own kernel, plain loops, and cases solved by hand."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from attnviz.modules import attend
from tests.oracles import LargestTensor, agree, attention_by_hand

B, K, G, T, S, D = 2, 3, 5, 7, 11, 13
H = K * G


def qkv(B=B, H=H, K=K, T=T, S=S, D=D, Dv=D, dtype=torch.float32):
    shapes = (B, H, T, D), (B, K, S, D), (B, K, S, Dv)
    return [torch.randn(shape, dtype=torch.float64).to(dtype) for shape in shapes]


def some_mask(*shape: int) -> torch.Tensor:
    return torch.rand(shape) < 0.6


@pytest.mark.parametrize("n_kv_heads", [1, 3, 5, 15])
@pytest.mark.parametrize("mask", [None, (S,), (T, S), (B, 1, 1, S), (H, 1, 1), (B, H, T, S)])
def test_equals_torchs_own_kernel(n_kv_heads, mask):
    q, k, v = qkv(K=n_kv_heads)
    mask = None if mask is None else some_mask(*mask)
    expected = F.scaled_dot_product_attention(
        q, k, v, attn_mask=None if mask is None else mask.expand(B, H, T, S), enable_gqa=True
    )
    assert agree(attend(q, k, v, mask=mask).output, expected)


@given(*(st.integers(1, 6) for _ in range(7)), st.booleans(), st.integers(0, 2**31))
@settings(max_examples=30, deadline=None)
def test_equals_torchs_own_kernel_for_any_shape(B, K, G, T, S, D, Dv, masked, seed):
    torch.manual_seed(seed)
    q, k, v = qkv(B, K * G, K, T, S, D, Dv, torch.float64)
    mask = some_mask(B, K * G, T, S) if masked else None
    expected = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)
    assert agree(attend(q, k, v, mask=mask).output, expected, 1e-9)


def test_equals_loops_in_weights_and_output():
    q, k, v = qkv(Dv=17, dtype=torch.float64)
    mask = some_mask(B, H, T, S)
    output, weights = attention_by_hand(q, k, v, mask)
    got = attend(q, k, v, mask=mask)
    assert got.output.shape == (B, H, T, 17)
    assert agree(got.weights, weights, 1e-12) and agree(got.output, output, 1e-12)


def test_two_keys_by_hand():
    q = torch.tensor([[[[0.0, math.sqrt(2)]]]])  # scores q·k / sqrt(2) = 0 and 1
    k = torch.eye(2)[None, None]
    got = attend(q, k, torch.tensor([[[[0.0], [1 + math.e]]]]))
    assert agree(got.weights.flatten(), torch.tensor([1.0, math.e]) / (1 + math.e))
    assert agree(got.output.flatten(), torch.tensor([math.e]))


def test_query_head_h_reads_kv_head_h_over_group_size():
    q, k, _ = qkv()
    v = torch.arange(float(K)).view(1, K, 1, 1).expand(B, K, S, D)  # KV head i has value i for every key
    expected = torch.tensor([h // G for h in range(H)], dtype=torch.float32).view(1, H, 1, 1).expand(B, H, T, D)
    assert agree(attend(q, k, v).output, expected)


def test_a_query_of_zeros_averages_what_it_may_see():
    _, k, v = qkv()
    mask = torch.arange(S) < 4
    got = attend(torch.zeros(B, H, T, D), k, v, mask=mask)
    assert agree(got.weights, (mask / 4.0).expand(B, H, T, S))
    assert agree(got.output[:, 0], v[:, 0, :4].mean(1, keepdim=True).expand(B, T, D))


def test_rows_sum_to_one_and_masked_weights_are_exactly_zero():
    q, k, v = qkv()
    mask = some_mask(T, S) | (torch.arange(S) == 0)  # every query may attend to key 0
    weights = attend(q, k, v, mask=mask).weights
    assert agree(weights.sum(-1), torch.ones(B, H, T))
    assert torch.equal(weights > 0, mask.expand_as(weights))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_a_row_that_may_see_nothing_is_zeros_with_finite_gradients(dtype):
    q, k, v = (x.requires_grad_() for x in qkv(dtype=dtype))
    mask = some_mask(T, S)
    mask[4] = False
    got = attend(q, k, v, mask=mask)
    assert (got.output[:, :, 4] == 0).all() and (got.weights[:, :, 4] == 0).all()
    got.output.square().sum().backward()
    assert all(x.grad.isfinite().all() for x in (q, k, v))
    assert (q.grad[:, :, 4] == 0).all() and (q.grad != 0).any()


@pytest.mark.parametrize("dtype, tolerance", [(torch.float16, 5e-3), (torch.bfloat16, 4e-2)])
def test_half_precision_stays_near_full_precision(dtype, tolerance):
    q, k, v = qkv(dtype=dtype)
    got = attend(q, k, v, mask=some_mask(T, S) | (torch.arange(S) == 0))
    full = attend(q.double(), k.double(), v.double(), mask=got.weights[0, 0] > 0)
    assert got.output.dtype == dtype
    assert agree(got.output.double(), full.output, tolerance)


def test_huge_scores_do_not_overflow():
    q, k, v = qkv()
    got = attend(1e4 * q, k, v)
    assert agree(got.output, F.scaled_dot_product_attention(1e4 * q, k, v, enable_gqa=True))
    assert got.output.isfinite().all()


def test_scale_replaces_one_over_the_root_of_head_dim():
    q, k, v = qkv()
    expected = F.scaled_dot_product_attention(q, k, v, scale=0.3, enable_gqa=True)
    assert agree(attend(q, k, v, scale=0.3).output, expected)


def test_dropout_drops_weights_and_scales_the_rest_but_the_recorded_ones_are_whole():
    q, k, v = qkv()
    torch.manual_seed(5)
    got = attend(q, k, v, dropout=0.4)
    torch.manual_seed(5)
    dropout_mask = F.dropout(torch.ones(B, H, T, S), 0.4)  # 0, or 1 / 0.6
    assert sorted(dropout_mask.unique().tolist()) == pytest.approx([0, 1 / 0.6])
    assert agree(got.weights, attend(q, k, v).weights)
    assert agree(got.output, (got.weights * dropout_mask) @ v.repeat_interleave(G, dim=1))


def test_dropout_changes_no_average():
    q, k, _ = qkv(B=1, H=1, K=1, T=4000, S=S)
    dropped = attend(q, k, torch.ones(1, 1, S, 1), dropout=0.4).output  # without dropout: exactly 1 everywhere
    assert dropped.std() > 0.2
    assert abs(dropped.mean() - 1) < 5 * dropped.std() / math.sqrt(4000)


def test_gradients():
    q, k, v = (x.requires_grad_() for x in qkv(1, 6, 2, 3, 5, 2, 3, torch.float64))
    mask = torch.tensor([[1, 0, 1, 1, 0], [0, 0, 0, 0, 0], [1, 1, 1, 1, 1]]).bool()  # the middle row is fully masked
    assert torch.autograd.gradcheck(lambda *x: attend(*x, mask=mask).output, (q, k, v))


def test_query_heads_that_do_not_divide_are_refused():
    with pytest.raises(ValueError, match="15 query heads cannot share 4 KV heads"):
        attend(*qkv(K=4))


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.uint8])
def test_a_mask_of_numbers_is_refused(dtype):
    with pytest.raises(TypeError, match="mask must be boolean"):
        attend(*qkv(), mask=torch.ones(T, S, dtype=dtype))


@pytest.mark.parametrize("shape", [(3, 1, 1, S), (T, T), (S, T), (1, B, H, T, S)])
def test_a_mask_that_does_not_fit_is_refused_with_both_shapes(shape):
    with pytest.raises(ValueError) as refusal:
        attend(*qkv(), mask=torch.ones(shape, dtype=torch.bool))
    assert str(shape) in str(refusal.value) and str((B, H, T, S)) in str(refusal.value)


def test_a_mask_of_another_batch_cannot_widen_a_batch_of_one():
    with pytest.raises(ValueError, match="does not fit"):
        attend(*qkv(B=1), mask=torch.ones(3, 1, 1, S, dtype=torch.bool))


def test_keys_and_values_are_not_copied_out_to_every_query_head():
    q, k, v = qkv(T=1, S=997, D=31)
    with LargestTensor() as ours:
        attend(q, k, v)
    with LargestTensor() as copied_out:
        k.repeat_interleave(G, dim=1)
    assert ours.bytes <= k.nbytes < copied_out.bytes == G * k.nbytes


def test_a_soft_cap_by_hand():
    q, k, v = qkv(dtype=torch.float64)
    mask, cap = some_mask(B, H, T, S), 0.7
    mask[..., 0] = True
    scores = q @ k.repeat_interleave(G, dim=1).mT * 0.3
    capped = (cap * torch.tanh(scores / cap)).masked_fill(~mask, -math.inf)
    found = attend(3 * q, k, v, mask, scale=0.1, softcap=cap)
    assert agree(found.weights, capped.softmax(-1), 1e-9)
    assert not agree(attend(3 * q, k, v, mask, scale=0.1).weights, found.weights, 1e-2)
