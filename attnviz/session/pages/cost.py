"""The Cost page."""

from __future__ import annotations

from dataclasses import dataclass

from attnviz.cost import PRECISIONS, load_accelerators
from attnviz.facts import published_facts
from attnviz.session.kinds import Choice, Number, Several, Text, setting
from attnviz.session.page import Element, Page, charts

PRESETS = tuple(published_facts())

PAGE = Page(
    "cost", "pages/4_cost.py", "Cost",
    f"Parameters and KV cache of your model, counted from live tensors, and of {len(PRESETS)} published models, by "
    "formula.",
    tabs={
        "published": "Published models",
        "facts": "Another model",
        "memory": "What fits in GPU memory",
        "speed": "Prefill and decode speed",
        "measured": "Measured here",
    },
    elements=(
        Element("control-context", "amounts", "The slider of the context", drawing=False),
        Element("compared", "tabs", "Caches of a few models, to scale", "published"),
        *charts("tabs", {
            "published": {
                "published": "Published models", "totals": "Cache by context", "alternatives": "Another attention",
            },
            "memory": {"filling": "What fits in GPU memory"},
            "speed": {
                "speed": "Decode speed", "roof": "Roofline", "first-token": "Time to first token",
                "machines": "Accelerators",
            },
        }),
        Element("control-facts", "tabs", "The model's configuration", "facts", drawing=False),
        Element("figure-model-pasted", "tabs", "Parameters of the pasted model", "facts", usual=False),
        Element("figure-attention", "own", "Attention parameters", "published"),
        Element("figure-model", "own", "Parameters", "published"),
        Element("figure-cache", "own", "KV cache", "published"),
        Element("figure-precisions", "own", "Cache by precision", "published"),
    ),
    tab_before="part",
    needs_text=False,
    purpose="Work out a cost",
)  # fmt: skip


@dataclass(frozen=True)
class CostSettings:
    """Settings of the Cost page."""

    context: int = setting(32_768, Number(1, 2**20))  # tokens of one sequence
    batch: int = setting(1, Number(1, 1024))  # sequences
    precision: str = setting("bf16", Choice(tuple(PRECISIONS)))  # of the cache
    compare: tuple[str, ...] = setting(
        ("llama-2-7b", "llama-3-8b", "gemma-3-27b", "deepseek-v3"), Several(PRESETS, most=6)
    )
    preset: str = setting("llama-3-8b", Choice(PRESETS))
    facts: str = setting("", Text(whole=True))  # configuration of another model, as JSON
    machine: str = setting("h100-sxm", Choice(tuple(load_accelerators())))
    n_machines: int = setting(1, Number(1, 64))
    weights: str = setting("bf16", Choice(tuple(PRECISIONS)))  # precision of a published model's weights
    reserve: int = setting(10, Number(0, 90))  # per cent of GPU memory that is not used
