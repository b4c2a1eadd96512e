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
        Element("implied-maps", "implied", "The map that a linear layer implies"),
        Element("state-player", "tabs", "The state as it is written", "state"),
        *charts("tabs", {
            "remembers": {"recall": "What the state still remembers", "repeated": "A key that is written twice"},
        }),
        Element("indexer-maps", "tabs", "Index scores, and the keys that they keep", "indexer", usual=False),
        Element("figure-kept-by-k", "tabs", "Output error against k", "indexer", usual=False),
        Element("sink-maps", "tabs", "One map with three kinds of sink", "sinks", usual=False),
        Element("figure-sink-shares", "tabs", "Weight that goes to no token", "sinks", usual=False),
        *charts("tabs", {
            "shared": {"sharing-layers": "Whose cache each layer reads", "per-token": "Bytes per token, to scale"},
            "context": {
                "memory-of-context": "Memory against context",
                "flops-of-context": "FLOPs of a decode step against context",
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
