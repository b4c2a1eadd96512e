"""Equivalent formulations of grouped attention, compared numerically on one layer of a live model.

Every comparison runs on the layer's real input, the normed hidden states of the user's tokens. The two sides are
computed in different ways, and the number shown is the largest difference between their outputs.

B batch, T query tokens, S key tokens, H query heads, D head_dim.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from attnviz.config import ModelConfig
from attnviz.experiments.conversion import copy_layer, group_layer
from attnviz.experiments.measurement import counted_cache_bytes
from attnviz.modules import (
    AttentionRecord,
    GroupedQueryAttention,
    MultiHeadLatentAttention,
    Recording,
    StackedHeads,
    Transformer,
)
from attnviz.modules.shallow import changed, with_own_parts
from attnviz.modules.transformer import layer_input
from attnviz.phrases import count

ABSORBED = "Absorbed form = expanded form"
ROUNDING_STEPS = 1000  # tolerance in units of eps · largest output, for the order of summation; far below real errors


@dataclass(frozen=True)
class Comparison:
    """Two computations of one layer's output (T, d_model) and their difference."""

    claim: str
    left: str
    right: str
    difference: float  # largest absolute difference
    tolerance: float  # ROUNDING_STEPS · eps of the dtype · the largest absolute output
    dtype: str

    @property
    def equal(self) -> bool:
        return self.difference <= self.tolerance


@torch.inference_mode()
def equalities_in_both(model: Transformer, token_ids: Sequence[int], layer: int) -> list[tuple[Comparison, Comparison]]:
    """Compare the formulations that exist for this layer on these tokens, in float32 and in float64."""
    x = layer_input(model, token_ids, layer)
    return list(zip(*(_equalities(model, x, layer, dtype) for dtype in ("float32", "float64")), strict=True))


def _equalities(model: Transformer, x: Tensor, layer: int, dtype: str) -> list[Comparison]:
    attn, x, how = _layer(model, x, layer, dtype)
    output, record = _recorded(attn, x, how)
    if isinstance(attn, MultiHeadLatentAttention):
        return [_absorbed_is_expanded(attn, x, how, output), _is_sdpa(attn, output, record)]
    copied = copy_layer(attn)
    by_copies = copied(x, **how)
    return [
        _all_heads_is_multi_head(copied, x, how, by_copies),
        _one_head_is_multi_query(attn, x, how),
        _grouped_is_copied(attn, output, by_copies),
        _is_sdpa(attn, output, record),
    ]


@torch.inference_mode()
def tiling(model: Transformer, token_ids: Sequence[int], layer: int) -> Comparison:
    """Compare the layer with a copy that reads its KV heads in the wrong order: 0 1 0 1 by `repeat`, not 0 0 1 1.

    The orders are the same with a single KV head and with one KV head per query head.
    """
    attn, x, how = _layer(model, layer_input(model, token_ids, layer), layer, "float32")
    return _compare(
        "repeat() = repeat_interleave()",
        ("query head h reads KV head h // group_size", attn(x, **how)),
        ("query head h reads KV head h mod n_kv_heads", copy_layer(attn, "tiled")(x, **how)),
    )


def cached_bytes(config: ModelConfig, n_tokens: int) -> int:
    """Return the cache bytes of n_tokens in float32, counted from the tensors that the live modules fill."""
    return counted_cache_bytes(config, n_tokens, bits=32)


def _layer(model: Transformer, x: Tensor, layer: int, dtype: str) -> tuple[Any, Tensor, dict]:
    """Return the layer's attention, its input x (1, T, C) and its options, in `dtype`; a copy if the dtype differs."""
    attn, precision = model.blocks[layer].attn, getattr(torch, dtype)
    if next(attn.parameters()).dtype != precision:
        attn = copy.deepcopy(attn).to(precision)
    return attn, x.to(precision), model.attention_options(x.shape[1])[layer]


def _all_heads_is_multi_head(copied: GroupedQueryAttention, x: Tensor, how: dict, output: Tensor) -> Comparison:
    return _compare(
        "K = H equals multi-head attention",
        (f"one module with {count(copied.n_heads, 'KV head')}, one per query head", output),
        ("one single-head module per head, outputs concatenated", _split_heads(copied)(x, **how)),
    )


def _one_head_is_multi_query(attn: GroupedQueryAttention, x: Tensor, how: dict) -> Comparison:
    attn = group_layer(attn, 1)
    output, r = _recorded(attn, x, how)
    key, value = r.k[:, 0], r.v[:, 0]  # (B, S, D), no head axis at all, as in arXiv 1911.02150
    scores = torch.einsum("bhtd,bsd->bhts", r.q, key) * r.scale
    if r.allowed is not None:
        scores = scores.masked_fill(~r.allowed, float("-inf"))
    read = torch.einsum("bhts,bsd->bthd", scores.softmax(-1), value)
    return _compare(
        "K = 1 equals multi-query attention",
        ("the module with one KV head, the mean of this layer's KV heads", output),
        ("one key and one value without a head axis, by einsum", attn.o_proj(read.flatten(2))),
    )


def _grouped_is_copied(attn: GroupedQueryAttention, output: Tensor, by_copies: Tensor) -> Comparison:
    group_size = attn.n_heads // attn.n_kv_heads
    return _compare(
        "Grouped form = repeat_interleave form",
        (f"K = {attn.n_kv_heads}, keys and values not copied", output),
        (f"each key and value copied to {count(group_size, 'query head')}", by_copies),
    )


def _is_sdpa(attn: GroupedQueryAttention | MultiHeadLatentAttention, output: Tensor, r: AttentionRecord) -> Comparison:
    read = F.scaled_dot_product_attention(
        r.q, r.k, r.v, attn_mask=r.allowed, scale=r.scale, enable_gqa=True
    )  # (B, H, T, Dv)
    return _compare(
        "Matches PyTorch's kernel",
        ("this module, with explicit scores and softmax", output),
        ("scaled_dot_product_attention(enable_gqa=True)", attn.o_proj(read.transpose(1, 2).flatten(2))),
    )


def _absorbed_is_expanded(attn: MultiHeadLatentAttention, x: Tensor, how: dict, output: Tensor) -> Comparison:
    return _compare(
        ABSORBED,
        (f"keys and values of {count(attn.n_heads, 'head')} expanded from the latent", output),
        ("the heads attend to the latent, with W_UK and W_UV absorbed", attn(x, absorbed=True, **how)),
    )


def _recorded(attn: torch.nn.Module, x: Tensor, how: dict) -> tuple[Tensor, AttentionRecord]:
    record = Recording()
    return attn(x, record=record, **how), record[0]


def _split_heads(attn: GroupedQueryAttention) -> StackedHeads:
    """Split a multi-head layer into separate single-head modules with the same weights."""
    D, bias = attn.head_dim, attn.q_proj.bias is not None
    with torch.device("meta"):
        stacked = StackedHeads(attn.q_proj.in_features, 1, head_dim=D, qkv_bias=bias)
    heads = [with_own_parts(stacked.heads[0]) for _ in range(attn.n_heads)]
    for h, head in enumerate(heads):
        own = itemgetter(slice(h * D, (h + 1) * D))
        for name in ("q_proj", "k_proj", "v_proj"):
            setattr(head, name, changed(getattr(attn, name), own))
    stacked.heads, stacked.o_proj = torch.nn.ModuleList(heads), attn.o_proj
    return stacked


def _compare(claim: str, left: tuple[str, Tensor], right: tuple[str, Tensor]) -> Comparison:
    (left_name, a), (right_name, b) = left, right
    largest = max(a.abs().max().item(), b.abs().max().item())
    tolerance = ROUNDING_STEPS * torch.finfo(a.dtype).eps * largest
    dtype = str(a.dtype).removeprefix("torch.")
    return Comparison(claim, left_name, right_name, (a - b).abs().max().item(), tolerance, dtype)
