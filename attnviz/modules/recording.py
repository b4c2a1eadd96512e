"""Records of the intermediate tensors of attention layers.

B batch, T query tokens, S key tokens, H query heads, K KV heads, D head_dim, V width of a value: v_head_dim in MLA,
else D.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from torch import Tensor

from attnviz.mechanisms import Mixer


def shares_of(weights: Any, mixer: Mixer) -> Any:
    """Return what statistics of maps (…, T, S) are computed from: positive, and each row sums to at most 1.

    They are the weights, or the shares of effective weights' absolute values. weights: of numpy or of torch.
    """
    if mixer.attends:
        return weights
    sizes = abs(weights)
    return sizes / (sizes.sum(-1, keepdims=True) + 1e-30)  # a row of padding has no weights


class AttentionRecord(NamedTuple):
    """The tensors of one run of one attention layer."""

    q: Tensor  # (B, H, T, D), rotated by RoPE
    k: Tensor  # (B, K, S, D), rotated by RoPE
    v: Tensor  # (B, K, S, V)
    q_pre_rope: Tensor  # (B, H, T, D), after qk_norm, before RoPE
    k_pre_rope: Tensor  # (B, K, T, D), after qk_norm, before RoPE, of the tokens of this call
    weights: Tensor  # (B, H, T, S)
    allowed: Tensor | None  # bool, broadcastable to (B, H, T, S); None: every key
    scale: float  # factor on q·k before the softmax
    own: Mapping[str, Tensor] = MappingProxyType({})  # what only this mechanism records, with B first


class Recording(list[AttentionRecord]):
    """One `AttentionRecord` per attention layer, in the order they ran. Pass it to forward() as `record`."""

    def __call__(self, **computed: Any) -> None:
        own = {name: computed.pop(name) for name in computed.keys() - set(AttentionRecord._fields)}
        self.append(AttentionRecord(**computed, own=own))
