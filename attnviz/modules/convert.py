"""A trained model with fewer KV heads than it was trained with, and the same model with its heads in another order.

Grouping is the conversion of the GQA paper (Ainslie et al., arXiv 2305.13245, section 2.1): the key and value
projections of neighbouring KV heads become one, by averaging them or by keeping the first of each group. The paper
trains on afterwards; here nothing is trained. Both functions return a new model that shares no memory with the old one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from attnviz.config import ConfigError, ModelConfig, divisors
from attnviz.modules.transformer import Transformer

METHODS = ("mean", "first")
KV_PARAMETERS = ("k_proj.weight", "k_proj.bias", "v_proj.weight", "v_proj.bias")
HEAD_ROWS = ("q_proj.weight", "q_proj.bias", *KV_PARAMETERS)  # o_proj holds its heads as columns instead


def group_kv_heads(model: Transformer, n_kv_heads: int, method: str = "mean") -> Transformer:
    """`model` with `n_kv_heads` KV heads, a divisor of the number it has; ConfigError says so where it is not.

    New KV head j stands for the old heads j · s to (j + 1) · s - 1, where s is how many become one, so every query
    head reads the head that its own was merged into. RoPE turns all heads alike, so it commutes with the average.
    """
    c = model.config
    _check(c, n_kv_heads, method)

    def merge(name: str, p: Tensor) -> Tensor:
        if not name.endswith(KV_PARAMETERS):
            return p
        heads = p.unflatten(0, (n_kv_heads, c.n_kv_heads // n_kv_heads, c.head_dim))  # (K, s, D, ...)
        return (heads.mean(1) if method == "mean" else heads[:, 0]).flatten(0, 1)  # (K·D, ...)

    return _rebuilt(model, c.with_kv_heads(n_kv_heads), merge)


def reorder_heads(model: Transformer, orders: Sequence[Sequence[int]]) -> Transformer:
    """A multi-head model with each layer's heads put in the order given: other neighbours, the same function.

    orders: one permutation of the H heads for every layer; position i gets what was head orders[layer][i].
    """
    c = model.config
    if c.attention != "mha":
        raise ConfigError(f"only heads with keys of their own can be put in another order, not {c.attention!r}")
    if len(orders) != c.n_layers or any(sorted(order) != list(range(c.n_heads)) for order in orders):
        raise ConfigError(f"orders must hold {c.n_layers} permutations of 0 to {c.n_heads - 1}, not {orders!r}")

    def permute(name: str, p: Tensor) -> Tensor:
        if not name.endswith((*HEAD_ROWS, "o_proj.weight")):
            return p
        order = torch.as_tensor(orders[int(name.split(".")[1])])  # "blocks.<layer>.attn..."
        dim = 1 if name.endswith("o_proj.weight") else 0
        return p.unflatten(dim, (c.n_heads, c.head_dim)).index_select(dim, order).flatten(dim, dim + 1)

    return _rebuilt(model, c, permute)


def _check(c: ModelConfig, n_kv_heads: int, method: str) -> None:
    if c.attention == "mla":
        raise ConfigError("latent attention has no KV heads to group")
    if n_kv_heads not in divisors(c.n_kv_heads):
        allowed = ", ".join(map(str, divisors(c.n_kv_heads)))
        raise ConfigError(f"{c.n_kv_heads} KV heads can become {allowed}, not {n_kv_heads!r}")
    if method not in METHODS:
        raise ConfigError(f"method must be one of {', '.join(METHODS)}, not {method!r}")


def _rebuilt(model: Transformer, config: ModelConfig, change: Callable[[str, Tensor], Tensor]) -> Transformer:
    """A model of this config from the changed parameters; cloned, so that training it does not reach the old one."""
    with torch.device("meta"):
        other = Transformer(config)
    parameters = {name: change(name, p).clone() for name, p in model.state_dict().items()}
    other.load_state_dict(parameters, assign=True)
    return other.train(model.training)
