"""Norms and feed-forwards: against torch's norms, the Llama layers of `transformers`, and by hand."""

import math

import pytest
import torch
from torch import nn
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaMLP, LlamaRMSNorm

from attnviz.modules import GeGLU, GELUFeedForward, LayerNorm, RMSNorm, SwiGLU
from tests.oracles import agree

B, T, C, F = 2, 5, 7, 11


def norm_with_weight(eps: float) -> RMSNorm:
    norm = RMSNorm(C, eps)
    nn.init.normal_(norm.weight)
    return norm


def test_rms_norm_by_hand():
    x = torch.tensor([3.0, 4.0])  # mean of squares 12.5
    assert agree(RMSNorm(2, eps=0.0)(x), x / math.sqrt(12.5))
    assert agree(RMSNorm(2, eps=3.5)(x), torch.tensor([0.75, 1.0]))  # 12.5 + 3.5 = 4²


@pytest.mark.parametrize("eps", [1e-6, 0.5])
def test_rms_norm_equals_torchs_and_llamas(eps):
    ours, x = norm_with_weight(eps), 3 * torch.randn(B, T, C)
    for theirs in (nn.RMSNorm(C, eps), LlamaRMSNorm(C, eps)):
        theirs.load_state_dict(ours.state_dict())
        assert agree(ours(x), theirs(x))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_rms_norm_in_half_precision_equals_llamas_and_does_not_overflow(dtype):
    ours, theirs, x = norm_with_weight(1e-6).to(dtype), LlamaRMSNorm(C).to(dtype), torch.randn(B, T, C).to(dtype)
    theirs.load_state_dict(ours.state_dict())
    assert ours(x).dtype == dtype and torch.equal(ours(x), theirs(x))
    assert agree(RMSNorm(2).to(dtype)(torch.tensor([600.0, 600.0], dtype=dtype)), torch.ones(2, dtype=dtype))


def test_rms_norm_subtracts_no_mean():
    x = torch.full((1, C), 5.0)
    assert agree(RMSNorm(C)(x), torch.ones(1, C))  # layer norm would give zeros


def test_swiglu_by_hand():
    layer = SwiGLU(1, 1)
    for projection, value in ((layer.gate_proj, 2.0), (layer.up_proj, 3.0), (layer.down_proj, 5.0)):
        nn.init.constant_(projection.weight, value)
    silu = 2 / (1 + math.exp(-2))
    assert layer(torch.ones(1, 1)).item() == pytest.approx(5 * silu * 3)


@pytest.mark.parametrize("bias", [False, True])
def test_swiglu_equals_llamas(bias):
    theirs = LlamaMLP(LlamaConfig(hidden_size=C, head_dim=2, num_attention_heads=1, intermediate_size=F, mlp_bias=bias))
    ours, x = SwiGLU(C, F, bias=bias), torch.randn(B, T, C)
    ours.load_state_dict(theirs.state_dict())
    assert agree(ours(x), theirs(x))


@pytest.mark.parametrize("layer", [RMSNorm(C), SwiGLU(C, F)])
def test_gradients(layer):
    x = torch.randn(2, C, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(layer.double(), (x,))


@pytest.mark.parametrize("bias", [False, True])
def test_layer_norm_equals_torchs(bias):
    ours, theirs, x = LayerNorm(C, 0.3, bias), nn.LayerNorm(C, 0.3, bias=bias), 3 * torch.randn(B, T, C) + 5
    for parameter in ours.parameters():
        nn.init.normal_(parameter)
    theirs.load_state_dict(ours.state_dict())
    assert agree(ours(x), theirs(x))
    assert agree(ours.bfloat16()(x.bfloat16()).float(), theirs(x), 0.05)


def test_geglu_and_gelu_by_hand():
    gated, plain = GeGLU(1, 1), GELUFeedForward(1, 1, bias=False)
    for layer in (gated, plain):
        for projection, value in zip(layer.children(), (2.0, 3.0, 5.0), strict=False):
            nn.init.constant_(projection.weight, value)

    def gelu(x: float) -> float:
        return x / 2 * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))

    assert gated(torch.ones(1, 1)).item() == pytest.approx(5 * gelu(2) * 3)
    assert plain(torch.full((1, 1), -0.3)).item() == pytest.approx(3 * gelu(-0.6))
