"""What mixers over a sliding window, or chunks, have in common: the keys of a query, and what stays cached."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from attnviz.equations import Expression, Value, function
from attnviz.mechanisms.letters import letter
from attnviz.mechanisms.mechanism import whole_pages
from attnviz.mechanisms.mixer import Mixer


@dataclass(frozen=True)
class Windowed(Mixer):
    """A mixer over all earlier tokens, or over the last `window`, the query's own included, and the first `n_sinks`.

    chunked: over the tokens of its own chunk of `window` tokens, up to itself, instead of the last ones.
    """

    n_heads: int
    window: int | None = None
    n_sinks: int = 0
    chunked: bool = False

    def seen(self) -> str:
        if self.window is None:
            return ""
        return f"chunks of {self.window:,}" if self.chunked else f"window {self.window:,}"

    lowest: ClassVar[Mapping[str, int]] = {"n_sinks": 0}

    @staticmethod
    def _visible(model: Any, windowed: bool) -> dict[str, Any]:
        """Return these fields from a ModelConfig's."""
        window = {"window": model.sliding_window, "n_sinks": model.n_sinks} if windowed else {}
        return {"n_heads": model.n_heads, **window}

    @property
    def unwindowed(self) -> Windowed:
        return replace(self, window=None, n_sinks=0)

    @property
    def most_cached(self) -> int | None:
        """Largest number of tokens cached; None without a window."""
        return None if self.window is None else self.window + self.n_sinks

    def keys(self, S: Value) -> Expression:
        if self.window is None or not self.chunked:
            return self.kept(S)
        W = letter("W", self.window, "tokens of a chunk")
        return S - W * function("floor", (S - 1) / W)

    def kept(self, S: Value) -> Expression:
        if self.window is None:
            return S
        nearest: Expression = letter("W", self.window)
        return function("min", S, nearest + letter("A", self.n_sinks) if self.n_sinks else nearest)

    def in_pages(self, S: Value, page: int) -> Expression:
        """Return the tokens of the pages in which a token of the window lies; it begins anywhere in its first page."""
        if page == 1 or self.most_cached is None or self.most_cached >= S.number:
            return whole_pages(self.kept(S), page)
        p, W = letter("Sₚ", page), letter("W", self.window or 0)
        nearest = p * (function("ceil", S / p) - function("floor", (S - W) / p))
        if not self.n_sinks:
            return nearest
        return function("min", whole_pages(S, page), nearest + whole_pages(letter("A", self.n_sinks), page))

    def pairs(self, S: Value) -> Expression:
        if self.most_cached is None or self.most_cached >= S.number:
            return S * (S + 1) / 2
        if self.chunked:
            W = letter("W", self.window or 0, "tokens of a chunk")
            full = function("floor", S / W)
            rest = S - W * full
            return full * W * (W + 1) / 2 + rest * (rest + 1) / 2
        nearest = self.keys(S)  # 1 + 2 + … + nearest, then nearest for each token after
        return nearest * (2 * S - nearest + 1) / 2
