"""Attention of a saved run: the weights that another program recorded, and with them what else it recorded.

There is no model behind it: what would have to run one is refused in a sentence, as is what the run lacks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from attnviz.equations import Expression, Value
from attnviz.mechanisms.letters import letter
from attnviz.mechanisms.mechanism import Vectors
from attnviz.mechanisms.mixer import ABSORBED, Mixer
from attnviz.phrases import count

RAN_ELSEWHERE = "A saved run holds what a model computed, and not the model"
REFUSALS: Mapping[str, str] = {
    "steps": f"{RAN_ELSEWHERE}: its source cannot be walked through line by line.",
    "decode": f"{RAN_ELSEWHERE}: no token can be generated after its text.",
    "mistakes": f"{RAN_ELSEWHERE}: a mistaken version of the code has nothing to run on.",
    "rope": f"{RAN_ELSEWHERE}: neither its base of RoPE nor its queries and keys before the rotation are known.",
    "linear": f"{RAN_ELSEWHERE}: its maps are attention weights, with no state and no indexer behind them.",
    "cost": f"{RAN_ELSEWHERE}: its parameters cannot be counted.",
    "writes": f"{RAN_ELSEWHERE}: what a head writes needs its W_o.",
    "ablation": f"{RAN_ELSEWHERE}: without it no head can be ablated.",
    "masks": f"{RAN_ELSEWHERE}: it cannot run again under another mask.",
    "second text": f"{RAN_ELSEWHERE}: it cannot read a second text.",
    "cross-attention": f"{RAN_ELSEWHERE}: it cannot read a second text.",
    "probes": f"{RAN_ELSEWHERE}: roles are named on repeated random tokens, which it would have to read.",
    "work": f"{RAN_ELSEWHERE}: the work of a step is not known.",
    "tiles": f"{RAN_ELSEWHERE}: the softmax by tiles needs the model's own scores.",
    "kernel": f"{RAN_ELSEWHERE}: nothing can be computed again for a check.",
    "convert": "a saved run has no projections to convert",
    "partial rotation": f"{RAN_ELSEWHERE}: it cannot run with another rotation.",
    "run": f"{RAN_ELSEWHERE}.",
    ABSORBED: f"{RAN_ELSEWHERE}: no other form of it can be computed.",
}


@dataclass(frozen=True, kw_only=True)
class Recorded(Mixer):
    """The attention of one layer of a saved run.

    n_kv_heads: as many as query heads where `sharing` is not known. head_dim, value_dim: 1 where keys or values were
    not saved. no_scores: why the weights cannot be followed from their scores, "" where they can. causal: no weight
    above the diagonal. two_texts: queries and keys are of two texts. first_row,
    n_rows: which of the n_keys tokens of one text were recorded as queries. least, most: what a row sums to.
    """

    n_heads: int
    n_kv_heads: int
    head_dim: int = 1
    value_dim: int = 1
    sharing: bool = False
    has_keys: bool = False
    has_values: bool = False
    no_scores: str = ""
    causal: bool = True
    two_texts: bool = False
    first_row: int = 0
    n_rows: int = 1
    n_keys: int = 1
    least: float = 1.0
    most: float = 1.0

    called: ClassVar[str] = "attention of a saved run"
    vectors_note: ClassVar[str] = "q and k as this run recorded them, dimension by dimension."
    lowest: ClassVar[Mapping[str, int]] = {"first_row": 0}
    allowed: ClassVar[Mapping[str, tuple]] = {"least": (0, 1e9), "most": (0, 1e9)}
    refusals: ClassVar[Mapping[str, str]] = REFUSALS
    absorbed: ClassVar[bool] = False
    rotated_tensors: ClassVar[tuple[int, ...]] = ()
    rotary_start: ClassVar[int] = 0
    rotary_dim: ClassVar[int] = 0
    work_known: ClassVar[bool] = False
    kind: ClassVar[str] = "recorded"
    scale: ClassVar[None] = None
    softcap: ClassVar[None] = None

    @property
    def names_kv_heads(self) -> bool:
        """Whether sentences name KV heads: the file does, and there is a cache of them or there are fewer of them.

        In an encoder of which each query head has keys and values of its own, a KV head is nothing besides the head.
        """
        return self.sharing and (self.causal or self.n_kv_heads < self.n_heads)

    @property
    def shares_kv_heads(self) -> bool:  # type: ignore[override]
        """The file says which query heads share a KV head."""
        return self.names_kv_heads

    @property
    def keys_known(self) -> bool:  # type: ignore[override]
        return self.names_kv_heads

    @property
    def name(self) -> str:
        if not self.names_kv_heads or self.n_kv_heads == self.n_heads:
            return count(self.n_heads, "head")
        return f"GQA-{self.n_kv_heads}" if self.n_kv_heads > 1 else "MQA"

    def in_layers(self, n: int) -> str:
        return super().in_layers(n) if self.names_kv_heads else f"{count(n, 'layer')} of {self.name}"

    def cannot(self, what: str) -> str:
        if what == "score":
            return self.no_scores
        if what == "rollout" and self.two_texts:
            return "Attention rollout multiplies maps of one text through the layers; these are maps of two texts."
        if what in ("rollout", "stages") and self.partly:
            return f"It needs a row of every token, and {self._which_rows()}"
        if what in ("similar keys", "similar values") and not (self.has_keys if "keys" in what else self.has_values):
            missing = what.removeprefix("similar ")
            return (
                f"This run carries no {missing}: how similar those of its heads are cannot be "
                "computed. attnviz.run(…, qkv=True) records them."
            )
        if what == "cost" and self.has_keys and self.has_values:
            kv = count(self.n_kv_heads, "KV head" if self.names_kv_heads else "head")
            width = self.head_dim + self.value_dim
            numbers = self.n_kv_heads * width
            return (
                f"{REFUSALS['cost']} Its keys and values are {kv} × ({self.head_dim} + {self.value_dim}) = {numbers:,} "
                "numbers per token and layer."
            )
        if what == "sharing" and self.sharing and not self.names_kv_heads:
            return "Each query head of this run has keys and values of its own, which no other head reads."
        if what == "sharing" and not self.sharing:
            return (
                "This run does not say which KV head each query head reads; attnviz.save_run stores it as n_kv_heads."
            )
        if what.startswith("mistake "):
            return REFUSALS["mistakes"]
        return super().cannot(what)

    def summary(self) -> str:
        if not self.names_kv_heads:
            return count(self.n_heads, "head")
        readers = f"{self.n_heads} query heads read" if self.n_heads > 1 else "1 query head reads"
        return f"{self.name}: {readers} {count(self.n_kv_heads, 'KV head')}"

    def maps_finding(self) -> str:
        if not self.names_kv_heads:
            return f"{count(self.n_heads, 'head')}, as recorded"
        return f"{count(self.n_heads, 'query head')} share {count(self.n_kv_heads, 'KV head')}; hue = KV head"

    def why_cached(self) -> str:
        return "What its model caches is not known." if not self.names_kv_heads else "Only the KV heads are cached."

    def keys_read(self, kv_head: int) -> str:
        return f"KV head {kv_head}" if self.names_kv_heads else f"keys of head {kv_head}"

    def read_in_short(self, kv_head: int) -> str:
        return f"KV {kv_head}"

    def read_by(self, head: int) -> str:
        return super().read_by(head) if self.names_kv_heads else ""

    @property
    def maps_note(self) -> str:
        masked = "Grey cells lie above the diagonal, where this run has no weight." if self.causal else ""
        rows = f"Of this text, {self._which_rows()}" if self.partly else ""
        said = f"Each row is a query, each column a key. {self._sums()} {masked} {rows}"
        return " ".join(said.split())

    @property
    def partly(self) -> bool:
        """Some tokens of its one text have no row: they were the prompt of a run that recorded what followed."""
        return not self.two_texts and self.n_rows < self.n_keys

    def _which_rows(self) -> str:
        last = self.first_row + self.n_rows - 1
        if self.n_rows == 1:
            return f"query {last} alone was recorded."
        return f"queries {self.first_row} to {last} were recorded."

    def _sums(self) -> str:
        if self.sums_to_one:
            return "The weights of each row sum to 1."
        return f"The weights of a row sum to {self.least:.3g} to {self.most:.3g}, and are shown as they were recorded."

    @property
    def sums_to_one(self) -> bool:
        return self.least > 0.998 and self.most < 1.002  # float16 rounds a weight by up to 0.05%

    @property
    def summing(self) -> str:
        return "sum to 1" if self.sums_to_one else f"sum to {self.least:.3g} to {self.most:.3g}"

    @property
    def shares_note(self) -> str:
        if self.sums_to_one:
            return ""
        return f"The rows of this run's weights sum to {self.least:.3g} to {self.most:.3g}, not to 1."

    @property
    def rollout_note(self) -> str:
        if self.sums_to_one:
            return ""
        return (
            f"The rows of this run's weights, which sum to {self.least:.3g} to {self.most:.3g}, are scaled to 1 first."
        )

    def map_equation(self, head: int) -> tuple[str, str, str] | None:
        """Return what is known of the map: None, a softmax, where q and k give these weights."""
        if not self.no_scores:
            return None
        return rf"A_{{{head}}}", f"A: the weights of head {head}", "as recorded by the program that saved this run"

    def rotated_projections(self) -> dict[str, tuple[int, int]]:
        return {}

    def axes(self) -> dict[str, int]:
        return {"D": self.head_dim}

    def traced_bytes(self, n_tokens: int) -> int:
        """Return the bytes of its weights in float32; q, k and v are as large at most."""
        return 4 * self.n_heads * n_tokens * n_tokens

    def matrices(self, C: Expression) -> dict[str, Expression]:
        return {}

    def cached(self) -> tuple[Vectors, ...]:
        if not (self.has_keys and self.has_values):
            return ()
        K = letter("K", self.n_kv_heads)
        return Vectors(("k",), letter("D", self.head_dim), K), Vectors(("v",), letter("V", self.value_dim), K)

    def bands(self) -> str:
        return "Each column is a token; bands of a layer: K (above) and V of each KV head, in its hue."

    def assumption(self, d_model: int) -> str:
        return f"{count(self.n_kv_heads, 'KV head')} of {self.head_dim}, as in the saved run"

    def on_each(self, n: int) -> str:
        return f"its share of {count(self.n_kv_heads, 'KV head')}"

    def keys(self, S: Value) -> Expression:
        return S

    def pairs(self, S: Value) -> Expression:
        return S * (S + 1) / 2 if self.causal else S * S

    def flops_per_pair(self, absorbed: bool = False) -> Expression:
        return Value(0)

    def counted_when_decoding(self, n_layers: int) -> str:
        return REFUSALS["work"]

    def flops_note(self, n_layers: int) -> str:
        return REFUSALS["work"]
