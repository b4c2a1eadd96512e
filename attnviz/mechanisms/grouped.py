"""Grouped-query attention, arXiv 2305.13245: H query heads read K KV heads. MHA has K = H, MQA K = 1.

Per token it caches a key and a value of D numbers for each KV head: 2 · K · D.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self

from attnviz.checks import ConfigError
from attnviz.equations import Expression, Value
from attnviz.mechanisms.letters import letter
from attnviz.mechanisms.mechanism import Mechanism, Vectors, largest_share
from attnviz.mechanisms.mixer import ABSORBED
from attnviz.mechanisms.windowed import Windowed
from attnviz.phrases import count

GATES = ("width", "head")  # of the output: one for each of its numbers, or one per head
CAPPED = {  # what is not done or shown with capped scores, and why
    "score": "The steps from score to weight are not drawn for it.",
    "tiles": "The tiles are computed without the cap, so they are not shown for it.",
    "kernel": "PyTorch's kernel has no such cap, so the numerical checks are skipped.",
}
SUNK = {  # what is not done or shown with a learned sink logit, and why
    "mistake fully_masked_row": "With a learned sink logit no row of scores is masked as a whole: a query that may "
    "attend to no key gives all its weight to the sink, so nothing is divided by 0.",
    "mistake mask_after_softmax": "The rows of a head with a learned sink do not sum to 1 in the right version either, "
    "so their sum does not show this mistake.",
    "mistake softmax_over_queries": "The rows of a head with a learned sink do not sum to 1 in the right version "
    "either, so their sum does not show this mistake.",
    "mistake scale_by_d_model": "A learned sink logit is divided by the scale, so that it is not scaled itself: these "
    "layers give the scale to `attend`, and the default is not computed.",
    "tiles": "Each head of this layer has a learned sink logit in its softmax. The tiles are computed without one, so "
    "they are not shown for it.",
    "kernel": "Each head of this layer has a learned sink logit, which PyTorch's kernel does not have, so the "
    "numerical checks are skipped.",
}
GATED_OUTPUT = (
    "This layer multiplies its output by a gate, which the equal forms do not, so the numerical checks are skipped."
)
BORROWED = {  # what is not done or shown with a layer that reads another layer's keys and values
    "convert": "a layer that reads another layer's keys and values has no KV heads of its own to group or to copy",
    "kernel": "This layer has no keys and values of its own: it reads those of another layer, and the checks need its "
    "own projections.",
    "mistake fused_qkv_per_head": "A layer that reads another layer's keys and values has no qkv projection to split.",
    "cross-attention": "A layer of this model has no keys and values of its own, so it has none for a second text.",
}
QK_NORMS = ("head", "width")  # a norm of size head_dim for each head, or one over all heads at once


def divisors(n: int) -> tuple[int, ...]:
    """Return the divisors of n, largest first: the numbers of KV heads that n query heads can share."""
    return tuple(d for d in range(n, 0, -1) if n % d == 0)


def attention_kind(n_heads: int, n_kv_heads: int) -> str:
    """Return "mha", "gqa" or "mqa" for these numbers of heads. A single head is MHA."""
    if n_kv_heads == n_heads:
        return "mha"
    return "mqa" if n_kv_heads == 1 else "gqa"


def check_sharing(n_heads: int, n_kv_heads: int) -> None:
    """Raise ConfigError unless the query heads can share the KV heads evenly."""
    if n_heads % n_kv_heads:
        raise ConfigError(
            f"n_kv_heads must divide n_heads: {n_heads} query heads can share "
            f"{', '.join(map(str, divisors(n_heads)))} KV heads, not {n_kv_heads}"
        )


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
    scale: float | None = None
    softcap: float | None = None
    rotary_fraction: float = 1.0  # share of a head's dimensions that RoPE rotates, the first ones

    allowed: ClassVar[Mapping[str, tuple]] = {"qk_norm": QK_NORMS, "rotary_fraction": (0, 1), "gate": GATES}
    called: ClassVar[str] = "grouped-query attention"
    refusals: ClassVar[Mapping[str, str]] = {
        ABSORBED: "The keys and values themselves are cached: without a latent to expand there is no absorbed form.",
    }
    shares_kv_heads: ClassVar[bool] = True
    absorbed: ClassVar[bool] = False
    rotated_tensors: ClassVar[tuple[int, ...]] = (0,)  # k, v
    rotary_start: ClassVar[int] = 0
    family: ClassVar[str] = "MHA, GQA or MQA"
    chosen: ClassVar[tuple[str, ...]] = ("n_kv_heads", "qkv_bias")

    @classmethod
    def variants(cls, n_heads: int) -> tuple[dict[str, int], ...]:
        return tuple({"n_kv_heads": k} for k in range(n_heads, 0, -1) if n_heads % k == 0)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_sharing(self.n_heads, self.n_kv_heads)

    @classmethod
    def of(cls, model: Any, windowed: bool) -> Self:
        fraction = 1.0 if model.rotary_fraction is None else model.rotary_fraction
        return cls(
            **cls._visible(model, windowed), n_kv_heads=model.n_kv_heads, head_dim=model.head_dim,
            qkv_bias=model.qkv_bias, o_bias=model.o_bias, qk_norm=model.qk_norm, sink_logits=model.attention_sinks,
            scale=model.attention_scale, softcap=model.attention_softcap, rotary_fraction=fraction,
        )  # fmt: skip

    @property
    def source(self) -> str:
        """The file of attnviz/modules/ that computes it."""
        return "extended.py" if self.sink_logits or self.gate or self.reads_cache else "attention.py"

    @property
    def kind(self) -> str:
        return attention_kind(self.n_heads, self.n_kv_heads)

    @property
    def name(self) -> str:
        return f"GQA-{self.n_kv_heads}" if self.kind == "gqa" else self.kind.upper()

    @property
    def value_dim(self) -> int:
        return self.v_head_dim or self.head_dim

    def _letters(self) -> tuple[Value, Value, Value, Value]:
        D = letter("D", self.head_dim)
        V = D if self.v_head_dim is None else letter("V", self.v_head_dim)
        return letter("H", self.n_heads), letter("K", self.n_kv_heads), D, V

    @property
    def costed(self) -> Grouped:
        return replace(self, scale=None, softcap=None, rotary_fraction=1.0)

    @property
    def alone(self) -> Grouped:
        return replace(self, window=None, n_sinks=0, reads_cache=False)

    @property
    def rotary_dim(self) -> int:
        return int(self.head_dim * self.rotary_fraction) // 2 * 2

    def summary(self) -> str:
        sinks = " with a learned sink logit each" if self.sink_logits else ""
        readers = f"{self.n_heads} query heads{sinks} read" if self.n_heads > 1 else "1 query head reads"
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

    def on_each(self, n: int) -> str:
        if self.n_kv_heads == 1:
            return "the one KV head"
        numbers = {len(heads) for heads in self.held_by(n)}
        held = f"{min(numbers)} to {max(numbers)}" if len(numbers) > 1 else f"{max(numbers)}"
        return f"{held} of {count(self.n_kv_heads, 'KV head')}"

    def share(self, n: int) -> Mechanism:
        given = {f.name: getattr(self, f.name) for f in fields(self)}
        most = max(map(len, self.held_by(n)))
        return self._share_class()(**given | {"n_heads": largest_share(self.n_heads, n), "n_kv_heads": most})

    def _share_class(self) -> type[Grouped]:
        return GroupedShare

    def keys_read(self, kv_head: int) -> str:
        return f"KV head {kv_head}"

    @property
    def score_note(self) -> str:
        cap = self.softcap
        return "" if cap is None else f"This model caps its scores: {cap:g} · tanh(score / {cap:g}) (Gemma 2)."

    def scored(self, product: str, tex: bool = False) -> str:
        if self.softcap is None:
            return product
        return rf"c \tanh\left(\tfrac{{1}}{{c}} {product}\right)" if tex else f"c · tanh({product} / c)"

    @property
    def summing(self) -> str:
        return "sum to 1 with the share of the head's learned sink" if self.sink_logits else super().summing

    @property
    def shares_note(self) -> str:
        if not self.sink_logits:
            return ""
        return (
            "A weight is a share of all that the head gives, its learned sink's part included; entropy and distance "
            "are those of the keys' weights over their sum."
        )

    @property
    def rollout_note(self) -> str:
        if not self.sink_logits:
            return ""
        return (
            "What a learned sink takes goes to no token: the rest of the row is scaled up together with the residual "
            "stream's share, which is then larger than α."
        )

    def score_letters(self) -> str:
        if self.sink_logits:
            return "the softmax is also over the head's learned sink logit"
        return "" if self.softcap is None else f"c = {self.softcap:g}: soft cap"

    def cannot(self, what: str) -> str:
        if self.softcap is not None and what in CAPPED:
            return f"{self.score_note} {CAPPED[what]}"
        if self.sink_logits and what in SUNK:
            return SUNK[what]
        if self.reads_cache and what in BORROWED:
            return BORROWED[what]
        if self.gate and what == "kernel":
            return GATED_OUTPUT
        return super().cannot(what)

    def rotated_projections(self) -> dict[str, tuple[int, int]]:
        keys = {} if self.reads_cache else {"k_proj": (self.n_kv_heads, 0)}
        return {"q_proj": (self.n_heads, 0), **keys}

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

    def traced_bytes(self, n_tokens: int) -> int:
        gates = {"width": self.n_heads * self.value_dim, "head": self.n_heads}.get(self.gate or "", 0)
        sinks = self.n_heads * (n_tokens + 1) if self.sink_logits else 0
        return super().traced_bytes(n_tokens) + 4 * (n_tokens * gates + sinks)

    def flops_per_pair(self, absorbed: bool = False) -> Expression:
        H, _, D, V = self._letters()
        return 4 * H * D if self.v_head_dim is None else 2 * H * (D + V)


@dataclass(frozen=True, kw_only=True)
class GroupedShare(Grouped):
    """What one accelerator holds of it: query heads, and the KV heads that they read, not as many by each."""

    def __post_init__(self) -> None:
        Mechanism.__post_init__(self)  # the query heads need not share these KV heads evenly

    def _letters(self) -> tuple[Value, Value, Value, Value]:
        _, _, D, V = super()._letters()
        H = letter("H", self.n_heads, "query heads of one accelerator")
        return H, letter("K", self.n_kv_heads, "KV heads of one accelerator"), D, V

    def cached(self) -> tuple[Vectors, ...]:
        return tuple(replace(vectors, count=self._letters()[1]) for vectors in super().cached())
