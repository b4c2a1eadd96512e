"""Grouped-query attention with linear biases, arXiv 2108.12409: a score falls by a slope per token of distance.

Head h of H has the slope 2^(-8 · (h + 1) / H). Nothing is rotated, and no weights or cached numbers are added.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from attnviz.mechanisms.grouped import Grouped
from attnviz.phrases import count

NOTE = "This model subtracts m · (i − j) from the score of query i and key j, with a slope m per head (ALiBi)."


@dataclass(frozen=True, kw_only=True)
class Alibi(Grouped):
    """MHA, GQA or MQA with biases in place of RoPE."""

    called: ClassVar[str] = "attention with linear biases"
    source: ClassVar[str] = "alibi.py"
    family: ClassVar[str] = "ALiBi"
    kind: ClassVar[str] = "alibi"
    rotary_dim: ClassVar[int] = 0
    refusals: ClassVar[Mapping[str, str]] = {
        "cross-attention": "Tokens of two texts have no distance, which ALiBi's biases need. Choose another attention.",
        "convert": "a trained model's heads would have other slopes",
        "score": f"{NOTE} The steps from score to weight are not drawn for it.",
        "tiles": f"{NOTE} The tiles are computed without the bias, so they are not shown for it.",
        "kernel": f"{NOTE} The other formulations have no such bias, so the numerical checks are skipped.",
    }
    score_note: ClassVar[str] = NOTE

    @classmethod
    def config_fields(cls, head_dim: int, **chosen: Any) -> dict[str, Any]:
        return {"attention": cls.kind, "head_dim": head_dim, **chosen}

    @property
    def name(self) -> str:
        return f"ALiBi-{self.n_kv_heads}"

    def summary(self) -> str:
        return f"ALiBi: {count(self.n_heads, 'query head')} read {count(self.n_kv_heads, 'KV head')}, without RoPE"

    def slope(self, head: int) -> float:
        """Return what a head's scores fall by per token of distance."""
        return 2.0 ** (-8 * (head + 1) / self.n_heads)

    def scored(self, product: str, tex: bool = False) -> str:
        return f"{product} - m (i - j)" if tex else f"{product} − m · (i − j)"

    def score_letters(self) -> str:
        return "m: the head's slope; i, j: positions of query and key"
