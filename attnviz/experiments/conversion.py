"""Conversion of a trained model to another number of KV heads, or with its heads reordered, without training.

Fewer KV heads: the conversion of the GQA paper (Ainslie et al., arXiv 2305.13245, section 2.1) merges the key and value
projections of neighbouring KV heads, by averaging them or by keeping the first of each group. More KV heads: each query
head gets a copy of the KV head it read, which computes the same function. Converted layers are new; all other modules
are shared with the given model, which is not changed.

K KV heads, D head_dim.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from attnviz.config import ConfigError, divisors
from attnviz.modules import GroupedQueryAttention, Transformer
from attnviz.modules.shallow import changed, with_own_parts

METHODS = ("mean", "first")
PATTERNS = ("interleaved", "tiled")


def group_kv_heads(model: Transformer, n_kv_heads: int, method: str = "mean") -> Transformer:
    """Return `model` with `n_kv_heads` KV heads, a divisor of its number; ConfigError otherwise.

    New KV head j replaces the old heads j · s to (j + 1) · s - 1, where s of them are merged into one, so each query
    head reads the head into which its old one was merged. RoPE rotates all heads by the same angles, so it commutes
    with averaging.
    """
    _refuse(model)
    if n_kv_heads not in divisors(model.config.n_kv_heads):
        allowed = ", ".join(map(str, divisors(model.config.n_kv_heads)))
        raise ConfigError(f"{model.config.n_kv_heads} KV heads can become {allowed}, not {n_kv_heads!r}")
    return _with_layers(model, n_kv_heads, [group_layer(b.attn, n_kv_heads, method) for b in model.blocks])


def copy_kv_heads(model: Transformer, pattern: str = "interleaved") -> Transformer:
    """Return `model` as multi-head attention, its KV heads copied to each query head; see `copy_layer`."""
    _refuse(model)
    return _with_layers(model, model.config.n_heads, [copy_layer(b.attn, pattern) for b in model.blocks])


def reorder_heads(model: Transformer, orders: Sequence[Sequence[int]]) -> Transformer:
    """Return a multi-head model with each layer's heads reordered: other neighbours, the same function.

    orders: one permutation of the H heads per layer; head orders[layer][i] moves to position i.
    """
    c = model.config
    if not c.mixer.shares_kv_heads or c.n_kv_heads != c.n_heads:
        raise ConfigError(f"only the heads of MHA can be reordered, not those of {c.mixer.kind!r}")
    if len(orders) != c.n_layers or any(sorted(order) != list(range(c.n_heads)) for order in orders):
        raise ConfigError(f"orders must hold {c.n_layers} permutations of 0 to {c.n_heads - 1}, not {orders!r}")
    layers = [_reorder_layer(b.attn, order) for b, order in zip(model.blocks, orders, strict=True)]
    return _with_layers(model, c.n_heads, layers)


def group_layer(attn: GroupedQueryAttention, n_kv_heads: int, method: str = "mean") -> GroupedQueryAttention:
    """Merge one layer's KV heads into `n_kv_heads`, by the "mean" or the "first" of each group."""
    if method not in METHODS:
        raise ConfigError(f"method must be one of {', '.join(METHODS)}, not {method!r}")

    def merge(heads: Tensor) -> Tensor:
        grouped = heads.unflatten(0, (n_kv_heads, -1))  # (K', s, D, ...)
        return grouped.mean(1) if method == "mean" else grouped[:, 0]

    return _rebuild(attn, n_kv_heads, merge)


def copy_layer(attn: GroupedQueryAttention, pattern: str = "interleaved") -> GroupedQueryAttention:
    """Convert one layer to multi-head attention: KV heads 0 0 1 1 ("interleaved", same function) or 0 1 0 1 ("tiled").

    "tiled" is the result of `repeat` instead of `repeat_interleave`: the shapes are right, the KV heads read are not.
    """
    if pattern not in PATTERNS:
        raise ConfigError(f"pattern must be one of {', '.join(PATTERNS)}, not {pattern!r}")
    H, K = attn.n_heads, attn.n_kv_heads
    kv_head = torch.arange(H)
    kv_head = kv_head // (H // K) if pattern == "interleaved" else kv_head % K
    return _rebuild(attn, H, lambda heads: heads[kv_head])


def _reorder_layer(attn: GroupedQueryAttention, order: Sequence[int]) -> GroupedQueryAttention:
    H, heads_in_order = attn.n_heads, torch.as_tensor(order)
    new = _rebuild(attn, attn.n_kv_heads, lambda heads: heads[heads_in_order])
    new.q_proj = changed(attn.q_proj, lambda p: p.unflatten(0, (H, -1))[heads_in_order].flatten(0, 1))
    new.o_proj = changed(attn.o_proj, lambda p: _reorder_columns(p, H, heads_in_order))
    return new


def _reorder_columns(p: Tensor, n_heads: int, order: Tensor) -> Tensor:
    """Reorder the heads' columns in o_proj's weight; its bias has no columns."""
    return p.unflatten(1, (n_heads, -1))[:, order].flatten(1) if p.ndim == 2 else p


def _rebuild(attn: GroupedQueryAttention, n_kv_heads: int, change: Callable[[Tensor], Tensor]) -> GroupedQueryAttention:
    """Return the layer with `change` applied to its key and value heads, (K, D, d_model) or, as biases, (K, D)."""
    new, K = with_own_parts(attn), attn.n_kv_heads
    new.n_kv_heads = n_kv_heads
    for name in ("k_proj", "v_proj"):
        rows = changed(getattr(attn, name), lambda p: change(p.unflatten(0, (K, -1))).flatten(0, 1))
        setattr(new, name, rows)
    return new


def _with_layers(model: Transformer, n_kv_heads: int, layers: list[GroupedQueryAttention]) -> Transformer:
    other = model.with_attentions(dict(enumerate(layers)))
    other.config = model.config.with_kv_heads(n_kv_heads)
    return other


def _refuse(model: Transformer) -> None:
    if why := model.config.mixer.cannot("convert"):
        raise ConfigError(why)
