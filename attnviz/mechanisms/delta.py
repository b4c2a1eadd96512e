"""Gated delta rule (gated DeltaNet, arXiv 2412.06464; Kimi delta attention with a decay per channel, 2510.26692).

Per head a state of D × V numbers is decayed, corrected by what the new key reads from it, and read by the query. Keys,
queries and values pass a convolution over the last w tokens first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from attnviz.equations import Expression
from attnviz.mechanisms.letters import letter
from attnviz.mechanisms.mechanism import State, largest_share
from attnviz.mechanisms.recurrent import Recurrent
from attnviz.phrases import count

GATES = ("full", "low rank")  # how an output gate, and a decay per channel, are projected


IN_ALL_LAYERS = (  # mistakes whose comparison changes heads or rotations in all layers
    "scores_overflow_in_fp16", "scale_by_d_model", "keys_rotated_twice", "left_padding_without_shifted_positions",
    "positions_restart", "rope_on_values", "rope_in_the_other_layout", "fused_qkv_per_head", "tiled_kv_heads",
    "fewer_flops_in_gqa", "groups_mixed_up", "attribute_before_assignment", "attention_across_the_batch",
)  # fmt: skip
REFUSALS = {  # what cannot be done or shown with it, and why
    "score": "A head of this layer has no scores and no softmax: each effective weight follows from all tokens between "
    "its key and its query.",
    "tiles": "This layer has no softmax to compute in tiles: it updates a state, one token after another.",
    "kernel": "PyTorch's kernel computes a softmax, which this layer does not have: the numerical checks are skipped.",
    "convert": "a layer with a state has no KV heads to group or to copy",
    "cross-attention": "Cross-attention is not shown for this model: a layer with a state reads one text in its order.",
    "writes": "This layer normalises and gates what a head reads before W_o, so what a value adds to the residual "
    "stream is not its weight times W_o · value.",
    "rollout": "Attention rollout multiplies maps whose rows sum to 1. The effective weights of a layer with a state "
    "do not, so it is not shown for this model.",
    **{
        f"mistake {name}": "It is compared on models with one attention in all layers: those with a state have neither "
        "its heads nor its rotation."
        for name in IN_ALL_LAYERS
    },
    "masks": "Layers with a state read all earlier tokens in their order: a window, sinks or a bidirectional mask "
    "would change only the other layers, so they are not compared for this model.",
}


@dataclass(frozen=True, kw_only=True)
class GatedDelta(Recurrent):
    """`n_heads` value heads of width head_dim; `n_key_heads` heads of queries and keys, shared by the value heads.

    decay: None for one number per head, or how a decay per channel is projected. gate: how the output gate is.
    """

    n_key_heads: int
    key_dim: int
    taps: int
    decay: str | None = None
    gate: str = "full"

    called: ClassVar[str] = "the gated delta rule"
    maps: ClassVar[str] = "effective weights"
    shares_note: ClassVar[str] = (
        "Effective weights may be negative: shares, distances and entropies are those of their absolute values, "
        "divided by the sum of their row."
    )
    refusals: ClassVar[Mapping[str, str]] = REFUSALS
    source: ClassVar[str] = "delta.py"
    kind: ClassVar[str] = "delta"
    name: ClassVar[str] = "gated delta rule"

    @property
    def n_kv_heads(self) -> int:
        """Key heads: value heads that share one have the same queries and keys."""
        return self.n_key_heads

    @property
    def value_head_of(self) -> tuple[int, ...]:
        return tuple(range(self.n_heads))

    @property
    def value_dim(self) -> int:
        return self.head_dim

    @property
    def score_root(self) -> float:
        return self.key_dim

    def traced_bytes(self, n_tokens: int) -> int:
        """Return the bytes of q and k, twice each, v, decay, β, output and weights per token, and of the state."""
        H, D, V = self.n_heads, self.key_dim, self.head_dim
        per_token = 2 * (H + self.n_key_heads) * D + 2 * H * V + 2 * H + H * n_tokens
        return 4 * (n_tokens * per_token + H * D * V)

    def cannot(self, what: str) -> str:
        if what == "run" and (self.decay is not None or self.gate != "full"):
            return (
                "AttnViz counts the gated delta rule with a decay per channel and does not run it in a model, but with "
                "one decay per head."
            )
        return self.refusals.get(what, "")

    @property
    def maps_note(self) -> str:
        return (
            "Each row is a query, each column a key. The effective weights of a row times the values are the output of "
            "the delta rule, before its norm, its gate and W_o: exactly, though they may be negative (grey) and do not "
            f"sum to 1. A column mixes up to {count(self.taps, 'token')}: keys and values have passed a convolution."
        )

    def map_equation(self, head: int) -> tuple[str, str, str]:
        """Return the effective weight of query i and key j, with the key head and the value head of this head."""
        key_head = self.kv_head_of[head]
        tex = (
            r"W_{ij} = \tfrac{1}{\sqrt D}\, q_i^\top \Big[\textstyle\prod_{l=i}^{j+1} \alpha_l "
            r"(I - \beta_l k_l k_l^\top)\Big] \beta_j k_j"
        )
        text = "W(i, j) = q(i)ᵀ [∏ α(l) (I − β(l) k(l) k(l)ᵀ), l = i … j + 1] β(j) k(j) / √D"
        letters = (
            f"W: the weight; i, j: its query and key; I: the identity; q, k: queries and keys of key head {key_head}, "
            f"of length 1; α: decay of head {head}; β: its write strength; D = {self.key_dim}: width of a key"
        )
        return tex, text, letters

    def maps_finding(self) -> str:
        shared = f"; {count(self.group_size, 'head')} share a key head (hue)" if self.group_size > 1 else ""
        state = f"{self.key_dim} × {self.head_dim}"
        return f"Effective weights of {count(self.n_heads, 'head')} with a state of {state}{shared}"

    def why_cached(self) -> str:
        return (
            f"A state of {self.key_dim} × {self.head_dim} numbers per head stands for all earlier tokens: it does not "
            "grow with the text."
        )

    def keys_read(self, kv_head: int) -> str:
        return f"key head {kv_head}"

    def rotated_projections(self) -> dict[str, tuple[int, int]]:
        return {}

    def axes(self) -> dict[str, int]:
        K, H, D, V = self.n_key_heads, self.n_heads, self.key_dim, self.head_dim
        return {"D": D, "V": V, "K·D": K * D, "H·V": H * V, "N": 2 * K * D + H * V, "w": self.taps}

    def summary(self) -> str:
        kind = "a decay per channel" if self.decay else "a decay per head"
        return (
            f"Gated delta rule: {count(self.n_heads, 'head')} with {kind}, a state of {self.key_dim} × {self.head_dim}"
        )

    def _letters(self) -> tuple[Expression, ...]:
        return (
            letter("Hₖ", self.n_key_heads), letter("H", self.n_heads, "value heads"),
            letter("D", self.key_dim, "width of a key"), letter("V", self.head_dim, "width of a value"),
        )  # fmt: skip

    def _channels(self) -> Expression:
        """Return the channels of queries, keys and values that the convolution passes over."""
        K, H, D, V = self._letters()
        return 2 * K * D + H * V

    def _projected(self, C: Expression, how: str, width: Expression) -> Expression:
        g = letter("g", self.head_dim)
        return C * width if how == "full" else g * (C + width)

    def matrices(self, C: Expression) -> dict[str, Expression]:
        K, H, D, V = self._letters()
        decay = C * H if self.decay is None else self._projected(C, self.decay, H * D)
        return {
            "q": C * K * D, "k": C * K * D, "v": C * H * V, "output gate": self._projected(C, self.gate, H * V),
            "decay": decay, "write strength": C * H, "o": H * V * C,
        }  # fmt: skip

    def added(self, C: Expression) -> dict[str, Expression]:
        K, H, D, V = self._letters()
        rates = 2 * H if self.decay is None else H * D + H
        return {"convolution": letter("w", self.taps) * self._channels(), "decay": rates, "output norm": V}

    def share(self, n: int) -> GatedDelta:
        """By value heads; a key head is copied where there are fewer of them than accelerators."""
        return replace(self, n_heads=largest_share(self.n_heads, n), n_key_heads=largest_share(self.n_key_heads, n))

    def state(self) -> tuple[State, ...]:
        K, H, D, V = self._letters()
        return (
            State("state", H * D * V, 32),
            State("convolution", letter("w", self.taps) * self._channels()),
        )

    def flops_per_token(self) -> Expression:
        """Decay, read by the key, write and read by the query: 1 + 2 + 2 + 2 per number of the state."""
        K, H, D, V = self._letters()
        return 7 * H * D * V + 2 * letter("w", self.taps) * self._channels()
