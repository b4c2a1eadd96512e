"""The Linear and sparse page."""

from __future__ import annotations

from dataclasses import dataclass

from attnviz.session.kinds import Choice, Number, setting
from attnviz.session.page import Element, Page, charts
from attnviz.session.pages.heads import HEADS

PAGE = Page(
    "linear", "pages/10_linear.py", "Linear and sparse",
    "What newer models mix in: a state in place of the cache, top-k keys of an indexer, learned sinks, and layers that "
    "share a cache.",
    tabs={
        "state": "State",
        "remembers": "What it remembers",
        "indexer": "What the indexer keeps",
        "sinks": "Sinks",
        "shared": "Shared caches",
        "context": "Cost against context",
    },
    elements=(
        Element("implied-maps", "implied", "Effective weights"),
        Element("state-player", "tabs", "State, token by token", "state"),
        *charts("tabs", {
            "remembers": {"recall": "What the state remembers", "repeated": "Key written twice"},
        }),
        Element("indexer-maps", "tabs", "Index scores, top-k keys", "indexer", usual=False),
        Element("figure-kept-by-k", "tabs", "Output error against k", "indexer", usual=False),
        Element("sink-maps", "tabs", "Three kinds of sink", "sinks", usual=False),
        Element("figure-sink-shares", "tabs", "Weight on no token", "sinks", usual=False),
        *charts("tabs", {
            "shared": {"sharing-layers": "Shared caches", "per-token": "Bytes per token"},
            "context": {
                "memory-of-context": "Memory against context",
                "flops-of-context": "FLOPs against context",
            },
        }),
    ),
    asks="linear",
)  # fmt: skip


@dataclass(frozen=True)
class LinearSettings:
    """Settings of the Linear and sparse page."""

    linear_head: str = setting("", Choice(("", *HEADS)))  # whose state is drawn; "": the selected one, if it has one
    softmax_head: str = setting("", Choice(("", *HEADS)))  # drawn beside it; "": likewise
    after: int = setting(-1, Number(-1, 511))  # the token after which a state is read; -1: the last
    keep: int = setting(0, Number(0, 512))  # keys that an indexer keeps; 0: as many as the layer keeps
