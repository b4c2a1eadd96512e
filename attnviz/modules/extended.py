"""Grouped-query attention with a learned sink logit, with an output gate, or on another layer's keys and values.

Each is added around `attend`, whose file stays what it is:

- a learned sink logit per query head (gpt-oss, arXiv 2508.10925) is one more key, whose value is 0: a row's weights
  then sum to less than 1, and the rest, the sink's share, goes to no token;
- an output gate (arXiv 2505.06708; Qwen3-Next) multiplies what a head read by sigmoid(x · W);
- a layer that shares a cache (arXiv 2405.12981; Gemma 3n) has queries alone, and caches nothing.

B batch, T query tokens, S key tokens, C d_model, H query heads, K KV heads, D head_dim.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnviz.modules.attention import Attended, GroupedQueryAttention, attend
from attnviz.modules.cache import KVCache
from attnviz.modules.rope import Rope, apply_rope

GATES = ("width", "head")  # of the output: one for each of its numbers, or one per head


def attend_with_sink(q: Tensor, k: Tensor, v: Tensor, sinks: Tensor, mask: Tensor | None = None, *,
                     scale: float | None = None, kernel: Callable[..., Attended] = attend,
                     **options: Any) -> Attended:  # fmt: skip
    """Compute attention whose softmax has one more logit per query head, sinks (H,); other arguments as in `attend`.

    The last column of the weights, (B, H, T, S + 1), is the sink's share.
    """
    scale = scale or q.shape[-1] ** -0.5
    logits = (sinks / scale).view(1, -1, 1, 1).expand(*q.shape[:3], 1)  # (B, H, T, 1)
    q = torch.cat((q, logits), dim=-1)  # (B, H, T, D + 1): in the last dimension, 0 in all keys but the sink's
    k, v = F.pad(k, (0, 1, 0, 1)), F.pad(v, (0, 0, 0, 1))  # (B, K, S + 1, D + 1), (B, K, S + 1, V): the value is 0
    k[..., -1, -1] = 1
    if mask is not None:
        mask = F.pad(mask.expand(*mask.shape[:-1], k.shape[-2] - 1), (0, 1), value=True)  # (..., T, S + 1)
    return kernel(q, k, v, mask, scale=scale, **options)


class Passing:
    """One call's cache of a layer, which later layers read; without a cache, what the layer passes on within the call.

    cache: where the layer appends; None within a call without caches.
    """

    def __init__(self, cache: Any = None) -> None:
        self.cache, self.past = cache, 0
        self.tensors: tuple[Tensor, ...] = ()  # (B, K, S, D) each, with gradients if they are not cached

    def append(self, *new: Tensor) -> tuple[Tensor, ...]:
        """Append the layer's tensors to its cache, and return those of all tokens, which the readers get too."""
        self.past = len(self)
        self.tensors = new if self.cache is None else self.cache.append(*new)
        return self.tensors

    def __len__(self) -> int:
        """Return the number of cached tokens."""
        return 0 if self.cache is None else len(self.cache)


class SharedCache(KVCache):
    """The cache of a layer that reads another layer's: nothing is appended to it, and cutting it cuts nothing."""

    def append(self, *new: Tensor) -> tuple[Tensor, ...]:
        """Append nothing. ValueError for tensors."""
        if new:
            raise ValueError("nothing is appended to the cache of a layer that reads another layer's")
        return ()

    def cut(self, length: int) -> None:
        """Do nothing."""


def passed_separately(options: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Copy the options of a run's layers with what they pass on, so that runs of later layers do not share it."""
    passing = {id(own): own for option in options if isinstance(own := option.get("cache"), Passing)}
    copies = {key: copy(own) for key, own in passing.items()}
    return [{**option, "cache": copies[id(option["cache"])]} if id(option.get("cache")) in copies else dict(option)
            for option in options]  # fmt: skip


class ExtendedAttention(GroupedQueryAttention):
    """Grouped-query attention with a learned sink logit per query head, an output gate, or both."""

    def __init__(self, d_model: int, n_heads: int, n_kv_heads: int, *, sink_logits: bool = False,
                 gate: str | None = None, gate_bias: bool = False, **options: Any) -> None:  # fmt: skip
        super().__init__(d_model, n_heads, n_kv_heads, **options)
        if gate is not None and gate not in GATES:
            raise ValueError(f"gate must be one of {', '.join(GATES)} or None, not {gate!r}")
        self.sinks = nn.Parameter(torch.zeros(n_heads)) if sink_logits else None
        width = self.head_dim if gate == "width" else 1
        self.gate_proj = nn.Linear(d_model, n_heads * width, bias=gate_bias) if gate else None

    def forward(self, x: Tensor, *, kernel: Callable[..., Attended] | None = None,
                record: Callable[..., None] | None = None, **options: Any) -> Tensor:  # fmt: skip
        """Map x (B, T, C) to (B, T, C); arguments as in `GroupedQueryAttention.forward`."""
        around = Around(self, x, kernel or attend, record)
        return super().forward(x, kernel=around.attend, record=None if record is None else around.recorded, **options)


class Around:
    """What one call of a layer does around its kernel: the sink before it, the gate after it."""

    def __init__(self, layer: ExtendedAttention, x: Tensor, kernel: Callable[..., Attended],
                 record: Callable[..., None] | None) -> None:  # fmt: skip
        self.sinks, self.kernel, self.record = layer.sinks, kernel, record
        self.gate = None
        if layer.gate_proj is not None:
            gate = layer.gate_proj(x).sigmoid()  # (B, T, C) -> (B, T, H · D) or (B, T, H)
            self.gate = gate.unflatten(-1, (layer.n_heads, -1)).transpose(1, 2)  # -> (B, H, T, D) or (B, H, T, 1)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, **options: Any) -> Attended:
        """Attend with the sink, and multiply the output by the gate."""
        if self.sinks is None:
            output, weights = self.kernel(q, k, v, mask, **options)
        else:
            output, weights = attend_with_sink(q, k, v, self.sinks, mask, kernel=self.kernel, **options)
        return Attended(output if self.gate is None else output * self.gate, weights)

    def recorded(self, weights: Tensor, **computed: Any) -> None:
        """Record the keys' weights (B, H, T, S), and beside them the sink's share (B, H, T), its logit and the gate."""
        assert self.record is not None
        own = {} if self.gate is None else {"gate": self.gate}
        if self.sinks is not None:
            weights, own["sink"] = weights[..., :-1], weights[..., -1]
            own["sink_logits"] = self.sinks.expand(len(weights), -1)  # (B, H)
        self.record(weights=weights, **computed, **own)


class CacheReadingAttention(ExtendedAttention):
    """Grouped-query attention on the keys and values of another layer: it projects queries alone."""

    def __init__(self, d_model: int, n_heads: int, n_kv_heads: int, **options: Any) -> None:
        super().__init__(d_model, n_heads, n_kv_heads, **options)
        del self.k_proj, self.v_proj, self.k_norm

    def forward(  # type: ignore[override]  # what ExtendedAttention hands on, by name
        self, x: Tensor, *, cache: Any = None, mask: Tensor | None = None, causal: bool = False, rope: Any = None,
        record: Callable[..., None] | None = None, kernel: Callable[..., Attended] | None = None,
        context: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        """Map x (B, T, C) to (B, T, C); arguments as in `GroupedQueryAttention.forward`.

        cache: a `Passing`, to which the layer that it reads has appended in this call. Nothing is appended here.
        """
        if cache is None or context is not None:
            raise ValueError("a layer without keys and values needs the cache of the layer that it reads, no context")
        k, v = (t.expand(len(x), -1, -1, -1) for t in cache.tensors)  # (B, K, S, D) each
        past = cache.past  # tokens before x
        q = q_pre_rope = self.q_norm(self.q_proj(x).unflatten(-1, (self.n_heads, -1)).transpose(1, 2))  # (B, H, T, D)
        if rope is not None:
            q = rope(q, past)  # the keys were rotated before they were cached
        if causal:
            earlier = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=x.device).tril(past)  # (T, S)
            mask = earlier if mask is None else mask & earlier
        around = Around(self, x, kernel or attend, record)
        output, weights = around.attend(q, k, v, mask, dropout=self.dropout if self.training else 0.0, **self.scoring)
        if record is not None:
            k_pre_rope = (k if rope is None else unrotated(k, rope))[:, :, -x.shape[1] :]
            around.recorded(q=q, k=k, v=v, q_pre_rope=q_pre_rope, k_pre_rope=k_pre_rope, weights=weights,
                            allowed=mask, scale=self.scoring.get("scale", self.head_dim**-0.5))  # fmt: skip
        return self.o_proj(output.transpose(1, 2).flatten(2))  # (B, H, T, D) -> (B, T, H · D) -> (B, T, C)


def unrotated(k: Tensor, rope: Rope) -> Tensor:
    """Rotate keys (B, K, S, D) of the positions 0, 1, … back, to what they were before RoPE."""
    width = 2 * len(rope.frequencies)
    positions = -torch.arange(k.shape[2], device=k.device)
    turned = apply_rope(k[..., :width] / rope.attention_factor, positions, rope.frequencies, rope.layout)
    return torch.cat((turned, k[..., width:]), dim=-1)
