"""The Query grouping page."""

from dataclasses import dataclass

from attnviz.session.kinds import Choice, Flag, setting
from attnviz.session.page import Element, Page, charts

PAGE = Page(
    "query_groups", "pages/2_query_groups.py", "Query grouping",
    "Which KV head each query head reads in MHA, GQA and MQA, and what MLA reads instead: maps, cache size, "
    "parameters.",
    tabs={
        "equal": "Numerical checks",
        "work": "Compute and memory",
        "cost": "Loss with fewer KV heads",
        "maps": "Maps before and after merging",
        "alike": "Similarity of heads",
        "latent": "Multi-head latent attention",
    },
    elements=(
        Element("kv-heads", "kv-heads", "The choice of attention", drawing=False),
        Element("diagram", "sharing", "What query heads read"),
        Element("cached", "cached", "Cache per token"),
        Element("stored", "scale", "Parameters and decode step"),
        Element("figure-latent-scale", "scale", "Latent, to scale", usual=False),
        Element("layer-maps", "maps", "Maps of one layer"),
        *charts("tabs", {
            "work": {"work": "Compute and memory"},
            "cost": {
                "losses": "Loss with fewer KV heads", "quality": "Held-out quality", "this-text": "Loss on this text",
            },
            "alike": {"similarity": "Similarity of heads"},
            "latent": {"latent": "MLA's latent", "absorbing": "FLOPs, absorbed or expanded"},
        }),
        Element("latent-checks", "tabs", "Absorbed = expanded", "latent"),
    ),
    tab_before="closer",
)  # fmt: skip


@dataclass(frozen=True)
class GroupingSettings:
    """Settings of the Query grouping page."""

    tiled: bool = setting(False, Flag())  # wrong order of KV heads: repeat() instead of repeat_interleave()
    alike: str = setting("keys", Choice(("keys", "values")))
