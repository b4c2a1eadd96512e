"""Multi-head latent attention (MLA), arXiv 2405.04434: keys and values of all heads come from one latent per token.

Per token it caches the latent (R numbers) and one RoPE key that all heads share (P numbers), without a factor 2. For a
prompt each head's keys (N + P) and values (V) are expanded from the latent; a decode step works on the latent itself,
with W_UK and W_UV absorbed into the query and the output.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from attnviz.checks import ConfigError
from attnviz.equations import Expression, Value, function
from attnviz.mechanisms.letters import letter
from attnviz.mechanisms.mechanism import Mechanism, Vectors, largest_share
from attnviz.mechanisms.mixer import ABSORBED
from attnviz.mechanisms.windowed import Windowed
from attnviz.phrases import count, listed

OWN_FIELDS = ("q_lora_rank", "kv_lora_rank", "qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim")


@dataclass(frozen=True, kw_only=True)
class Latent(Windowed):
    """MLA. q_lora_rank: rank of compressed queries, None if they are not compressed.

    bias: of what makes the latents, and of the output. gate: of the output, one number per head ("head") or for each of
    its numbers ("width").
    """

    kv_lora_rank: int
    qk_nope_head_dim: int
    qk_rope_head_dim: int
    v_head_dim: int
    q_lora_rank: int | None = None
    sink_logits: bool = False
    bias: bool = False
    gate: str | None = None

    called: ClassVar[str] = "latent attention"
    shares_kv_heads: ClassVar[bool] = False
    absorbed: ClassVar[bool] = True
    own_fields: ClassVar[tuple[str, ...]] = OWN_FIELDS
    rotated_tensors: ClassVar[tuple[int, ...]] = (1,)  # latent, RoPE key
    refusals: ClassVar[Mapping[str, str]] = {
        "convert": "latent attention has no KV heads to group or to copy",
        "cross-attention": "Cross-attention is not implemented for MLA. Choose MHA, GQA or MQA in the sidebar.",
        "partial rotation": "MLA rotates a part of each head that is fixed by its weights.",
    }
    source: ClassVar[str] = "latent.py"
    family: ClassVar[str] = "MLA"
    chosen: ClassVar[tuple[str, ...]] = ("kv_lora_rank", "qk_rope_head_dim")
    kind: ClassVar[str] = "mla"
    name: ClassVar[str] = "MLA"

    @classmethod
    def config_fields(cls, head_dim: int, **chosen: Any) -> dict[str, Any]:
        return {"attention": cls.kind, "qk_nope_head_dim": head_dim, "v_head_dim": head_dim, **chosen}

    scale: ClassVar[None] = None
    softcap: ClassVar[None] = None

    @classmethod
    def of(cls, model: Any, windowed: bool) -> Self:
        for name in ("qkv_bias", "o_bias"):
            if getattr(model, name):
                raise ConfigError(f"{name} must be false with attention 'mla', whose projections carry no biases")
        own = {name: getattr(model, name) for name in OWN_FIELDS}
        found = cls(**cls._visible(model, windowed), **own, sink_logits=model.attention_sinks)
        if model.head_dim != found.head_dim:
            raise ConfigError(
                f"head_dim must be qk_nope_head_dim + qk_rope_head_dim = {found.head_dim}, not {model.head_dim}"
            )
        return found

    @classmethod
    def head_dim_of(cls, model: Any) -> int | None:
        parts = model.qk_nope_head_dim, model.qk_rope_head_dim
        return sum(parts) if all(isinstance(n, int) for n in parts) else None

    @property
    def n_kv_heads(self) -> int:
        """Each head has expanded keys and values of its own."""
        return self.n_heads

    @property
    def head_dim(self) -> int:
        """Width of a head's expanded key."""
        return self.qk_nope_head_dim + self.qk_rope_head_dim

    @property
    def rotary_dim(self) -> int:
        return self.qk_rope_head_dim

    @property
    def value_dim(self) -> int:
        return self.v_head_dim

    @property
    def rotary_start(self) -> int:
        return self.qk_nope_head_dim

    def summary(self) -> str:
        cached = f"one {self.kv_lora_rank}-wide latent and one {self.qk_rope_head_dim}-wide RoPE key cached per token"
        return f"MLA: {count(self.n_heads, 'head')}, {cached}"

    def maps_finding(self) -> str:
        return f"{count(self.n_heads, 'head')}, keys and values of each expanded from one latent"

    def why_cached(self) -> str:
        return (
            "The keys and values of all earlier tokens stay in the KV cache while a text is generated. MLA caches one "
            "latent per token in their place, from which all heads expand theirs, and one RoPE key that they share."
        )

    def assumption(self, d_model: int) -> str:
        return f"latent of {self.kv_lora_rank} and RoPE key of {self.qk_rope_head_dim}, no factor 2"

    @property
    def n_caches(self) -> int:
        """All heads read the same latent."""
        return 1

    def on_each(self, n: int) -> str:
        return f"the whole {listed(part for vectors in self.cached() for part in vectors.parts)}"

    def share(self, n: int) -> Mechanism:
        """By heads; the matrices that make the latents, and the indexer of a layer that has one, are whole on each."""
        return replace(self, n_heads=largest_share(self.n_heads, n))

    def own_keys(self) -> str:
        return (
            "each head has keys and values of its own, expanded from "
            f"{count(self.kv_lora_rank, 'number')} per token; all heads share one RoPE key of {self.qk_rope_head_dim}"
        )

    def read_in_short(self, kv_head: int) -> str:
        return "keys and values of its own, expanded from the latent, and the shared RoPE key"

    def keys_read(self, kv_head: int) -> str:
        return f"keys of head {kv_head}"

    def read_by(self, head: int) -> str:
        return "keys of its own, expanded from the latent that all heads share"

    def rotated_projections(self) -> dict[str, tuple[int, int]]:
        queries = self.n_heads, self.qk_nope_head_dim  # in each head the rotated part comes last
        return {"q_proj": queries, "q_b_proj": queries, "kv_a_proj": (1, self.kv_lora_rank)}

    def axes(self) -> dict[str, int]:
        D = self.head_dim
        return {"D": D, "H·D": self.n_heads * D, "P": self.qk_rope_head_dim, "R": self.kv_lora_rank}

    def matrices(self, C: Expression) -> dict[str, Expression]:
        H, R, P = letter("H", self.n_heads), letter("R", self.kv_lora_rank), letter("P", self.qk_rope_head_dim)
        N, V = letter("N", self.qk_nope_head_dim), letter("V", self.v_head_dim)
        queries: dict[str, Expression] = {"q": C * H * (N + P)}
        if self.q_lora_rank is not None:
            Q = letter("Q", self.q_lora_rank)
            queries = {"q down": C * Q, "q up": Q * H * (N + P)}
        gates = {"width": {"output gate": C * H * V}, "head": {"output gate": C * H}}.get(self.gate or "", {})
        return {**queries, "kv down": C * (R + P), "kv up": R * H * (N + V), "o": H * V * C, **gates}

    def added(self, C: Expression) -> dict[str, Expression]:
        R, P = letter("R", self.kv_lora_rank), letter("P", self.qk_rope_head_dim)
        norms: Expression = R
        biases: dict[str, Expression] = {"kv down": R + P, "o": C}
        if self.q_lora_rank is not None:
            Q = letter("Q", self.q_lora_rank)
            norms, biases = norms + Q, biases | {"q down": Q}
        return {
            "latent norms": norms,
            **(biases if self.bias else {}),
            **({"sinks": letter("H", self.n_heads)} if self.sink_logits else {}),
        }

    def cached(self) -> tuple[Vectors, ...]:
        return (
            Vectors(("latent",), letter("R", self.kv_lora_rank)),
            Vectors(("RoPE key",), letter("P", self.qk_rope_head_dim)),
        )

    def bands(self) -> str:
        return "Each column is a token; bands of a layer: latent (above) and RoPE key."

    def counted_when_decoding(self, n_layers: int) -> str:
        R, P = self.kv_lora_rank, self.qk_rope_head_dim
        return (
            f"MLA is counted in its absorbed form (kv_lora_rank {R}, qk_rope_head_dim {P}): each head multiplies its "
            f"query with the cached latent and RoPE key, {R} + {P} numbers per key, and sums latents of {R}. The "
            "products with W_UK (of the query) and W_UV (of the summed latents), "
            f"{n_layers * int(self.absorbed_products().value):,} FLOPs per token, are not included."
        )

    def flops_note(self, n_layers: int) -> str:
        return (
            "MLA is counted in its absorbed form, on the latent itself; its products with W_UK and W_UV, "
            f"{n_layers * int(self.absorbed_products().value):,} FLOPs per token, are not included."
        )

    def absorbed_products(self) -> Expression:
        """Return the FLOPs of q·W_UK and of the weighted latents·W_UV of one token."""
        H, R = letter("H", self.n_heads), letter("R", self.kv_lora_rank)
        return 2 * H * R * (letter("N", self.qk_nope_head_dim) + letter("V", self.v_head_dim))

    def cannot(self, what: str) -> str:
        if what == ABSORBED and self.window is not None:
            return "The two forms of MLA are compared over all earlier tokens, and this layer has a window."
        return super().cannot(what)

    def two_forms(self, S: Value, T: Value) -> dict[str, Expression]:
        """Return the FLOPs of the scores, the weighted sums, and the products with W_UK and W_UV, in each form.

        absorbed: W_UK and W_UV for each new token. expanded: for each of the S tokens, since latents are cached. kept:
        for each new token, if the keys and values of the earlier ones had been cached expanded.
        """
        pairs = T * S - T * (T - 1) / 2
        once = self.absorbed_products()
        return {
            "absorbed": pairs * self.flops_per_pair(absorbed=True) + T * once,
            "expanded": pairs * self.flops_per_pair() + S * once,
            "kept": pairs * self.flops_per_pair() + T * once,
        }

    def equal_at(self, S: Value) -> tuple[Expression, Expression] | None:
        """Return the new tokens of S at which both forms take as many FLOPs: in a long context, and for these S tokens.

        None if the absorbed form takes fewer for any number: its latent is at most as wide as a head's key and value.
        """
        R, N, V = (
            letter("R", self.kv_lora_rank), letter("N", self.qk_nope_head_dim), letter("V", self.v_head_dim),
        )  # fmt: skip
        if 2 * R.number <= N.number + V.number:
            return None
        limit = R * (N + V) / (2 * R - N - V)
        half = S + letter("Tₑ", limit.value) + Value(0.5, digits=1)
        return limit, half - function("√", half**2 - 2 * letter("Tₑ", limit.value) * S)

    def flops_per_pair(self, absorbed: bool = False) -> Expression:
        H, P = letter("H", self.n_heads), letter("P", self.qk_rope_head_dim)
        if absorbed:
            return 2 * H * (2 * letter("R", self.kv_lora_rank) + P)
        return 2 * H * (letter("N", self.qk_nope_head_dim) + P + letter("V", self.v_head_dim))

    def expanded_numbers(self) -> Expression:
        """Return the numbers per token if each head's expanded keys and values were cached."""
        P, V = letter("P", self.qk_rope_head_dim), letter("V", self.v_head_dim)
        return letter("H", self.n_heads) * (letter("N", self.qk_nope_head_dim) + P + V)
