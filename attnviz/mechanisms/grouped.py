"""Grouped-query attention, arXiv 2305.13245: H query heads read K KV heads. MHA has K = H, MQA K = 1.

Per token it caches a key and a value of D numbers for each KV head: 2 · K · D.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from attnviz.equations import Expression, Value
from attnviz.mechanisms.letters import letter
from attnviz.mechanisms.mechanism import Vectors, Windowed
from attnviz.phrases import count

QK_NORMS = ("head", "width")  # a norm of size head_dim for each head, or one over all heads at once


@dataclass(frozen=True, kw_only=True)
class Grouped(Windowed):
    """MHA, GQA or MQA, which differ only in the number of KV heads.

    gate: of the output, "width" one for each of its numbers, "head" one per head. values_are_keys: a projection for
    both. reads_cache: it reads the keys and values of another layer, so that it has no weights for them.
    """

    n_kv_heads: int
    head_dim: int
    qkv_bias: bool = False
    o_bias: bool = False
    qk_norm: str | None = None
    sink_logits: bool = False  # one learned sink logit per query head
    v_head_dim: int | None = None  # None: that of keys
    gate: str | None = None
    gate_bias: bool = False
    values_are_keys: bool = False
    reads_cache: bool = False

    shares_kv_heads: ClassVar[bool] = True
    absorbed: ClassVar[bool] = False
    by_layer: ClassVar[bool] = True
    rotated_tensor: ClassVar[int] = 0  # k, v
    rotary_start: ClassVar[int] = 0
    source: ClassVar[str] = "attention.py"
    family: ClassVar[str] = "MHA, GQA or MQA"
    chosen: ClassVar[tuple[str, ...]] = ("n_kv_heads", "qkv_bias")

    @classmethod
    def variants(cls, n_heads: int) -> tuple[dict[str, int], ...]:
        return tuple({"n_kv_heads": k} for k in range(n_heads, 0, -1) if n_heads % k == 0)

    @property
    def kind(self) -> str:
        if self.n_kv_heads == self.n_heads:
            return "mha"
        return "mqa" if self.n_kv_heads == 1 else "gqa"

    @property
    def name(self) -> str:
        return f"GQA-{self.n_kv_heads}" if self.kind == "gqa" else self.kind.upper()

    @property
    def value_dim(self) -> int:
        return self.v_head_dim or self.head_dim

    def _letters(self) -> tuple[Expression, Expression, Value, Value]:
        D = letter("D", self.head_dim)
        V = D if self.v_head_dim is None else letter("V", self.v_head_dim)
        return letter("H", self.n_heads), letter("K", self.n_kv_heads), D, V

    def summary(self) -> str:
        readers = f"{self.n_heads} query heads read" if self.n_heads > 1 else "1 query head reads"
        return f"{self.kind.upper()}: {readers} {count(self.n_kv_heads, 'KV head')}"

    def maps_finding(self) -> str:
        if self.n_kv_heads == self.n_heads:
            return f"{count(self.n_heads, 'head')}, each with its own keys and values"
        return f"{count(self.n_heads, 'query head')} share {count(self.n_kv_heads, 'KV head')}; hue = KV head"

    def why_cached(self) -> str:
        return (
            "The keys and values of all earlier tokens stay in the KV cache while a text is generated: with half as "
            "many KV heads, the cache is half as large."
        )

    def assumption(self, d_model: int) -> str:
        heads = f"2 × {count(self.n_kv_heads, 'KV head')} of {self.head_dim}"
        if self.n_heads * self.head_dim != d_model:
            heads += f" (not d_model / n_heads = {d_model / self.n_heads:g})"
        return heads

    def under_tensor_parallelism(self, degree: int) -> str:
        if self.n_kv_heads >= degree:
            return ""
        at_least = "at least " if degree % self.n_kv_heads else ""  # some then read two KV heads
        return (
            f"would keep a whole KV head, and this model has {count(self.n_kv_heads, 'KV head')}: "
            f"{at_least}{degree / self.n_kv_heads:.3g} times these caches."
        )

    def keys_read(self, kv_head: int) -> str:
        return f"KV head {kv_head}"

    def rotated_projections(self) -> dict[str, tuple[int, int]]:
        return {"q_proj": (self.n_heads, 0), "k_proj": (self.n_kv_heads, 0)}

    def axes(self) -> dict[str, int]:
        return {"D": self.head_dim, "H·D": self.n_heads * self.head_dim, "K·D": self.n_kv_heads * self.head_dim}

    def matrices(self, C: Expression) -> dict[str, Expression]:
        H, K, D, V = self._letters()
        keys = {} if self.reads_cache else {"k": C * K * D}
        values = {} if self.reads_cache or self.values_are_keys else {"v": C * K * V}
        gates = {"width": {"output gate": C * H * V}, "head": {"output gate": C * H}}
        return {"q": C * H * D, **keys, **values, "o": C * H * V, **gates.get(self.gate or "", {})}

    def added(self, C: Expression) -> dict[str, Expression]:
        H, K, D, V = self._letters()
        biases = {"q": H * D} | ({} if self.reads_cache else {"k": K * D, "v": K * V}) if self.qkv_bias else {}
        if self.gate_bias:
            biases |= {"output gate": H * V if self.gate == "width" else H}
        norms = {"head": D if self.reads_cache else 2 * D, "width": H * D if self.reads_cache else (H + K) * D}
        return {
            **biases,
            **({"o": C} if self.o_bias else {}),
            **({"q and k norms": norms[self.qk_norm]} if self.qk_norm else {}),
            **({"sinks": H} if self.sink_logits else {}),
        }

    def cached(self) -> tuple[Vectors, ...]:
        _, _, D, V = self._letters()
        if self.v_head_dim is None:
            return (Vectors(("k", "v"), D, letter("K", self.n_kv_heads)),)
        return Vectors(("k",), D, letter("K", self.n_kv_heads)), Vectors(("v",), V, letter("K", self.n_kv_heads))

    def bands(self) -> str:
        return (
            "Factor 2: K and V. Each column is a token; bands of a layer: K (above) and V of each KV head, in its hue."
        )

    def counted_when_decoding(self, n_layers: int) -> str:
        return "fewer KV heads make the cache, W_k and W_v smaller."

    def flops_note(self, n_layers: int) -> str:
        return "Query heads that share a key still compute a score each, so fewer KV heads do not lower these FLOPs."

    def flops_per_pair(self, absorbed: bool = False) -> Expression:
        H, _, D, V = self._letters()
        return 4 * H * D if self.v_head_dim is None else 2 * H * (D + V)
