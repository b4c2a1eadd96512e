"""The Cost page."""

from __future__ import annotations

import math
from dataclasses import dataclass

from attnviz.cost import PRECISIONS, load_accelerators
from attnviz.cost.accelerators import TYPED
from attnviz.cost.placed import PARALLEL, TENSOR
from attnviz.cost.variants import KINDS
from attnviz.facts import published_facts
from attnviz.session.kinds import Choice, Flag, Number, Several, Text, setting
from attnviz.session.page import Element, Page, charts

PRESETS = tuple(published_facts())
PASTED, SELECTED = OTHER_MODELS = "pasted", "selected"  # the pasted configuration; the sidebar's model
OWN_MEMORY = TYPED  # an accelerator of which only the memory is typed in
SIZES = {"4": (0, 4e9), "15": (4e9, 15e9), "80": (15e9, 80e9), "more": (80e9, math.inf)}  # parameters, from and below

PAGE = Page(
    "cost", "pages/4_cost.py", "Cost",
    f"Parameters and KV cache of your model, counted from live tensors, and of {len(PRESETS)} published models, by "
    "formula.",
    tabs={
        "published": "Compare models",
        "models": "All models",
        "cards": "All accelerators",
        "memory": "Filling the memory",
        "holders": "Who holds what",
        "speed": "Speed",
        "facts": "Paste a model",
        "measured": "Measured here",
    },
    elements=(
        Element("control-context", "amounts", "The slider of the context", drawing=False),
        Element("answer", "amounts", "Does it fit?"),
        Element("compared", "tabs", "Caches to scale", "published"),
        *charts("tabs", {
            "published": {
                "published": "Published models", "totals": "Cache by context", "alternatives": "Other attention types",
            },
            "memory": {"filling": "What fits in GPU memory"},
            "speed": {
                "speed": "Decode speed", "roof": "Roofline", "first-token": "Time to first token",
                "machines": "Accelerators",
            },
        }),
        Element("figure-forms", "tabs", "MLA: absorbed or expanded", "speed", usual=False),
        Element("figure-tensor", "tabs", "Tensor parallelism", "holders", usual=False),
        Element("figure-data", "tabs", "Data-parallel attention", "holders", usual=False),
        Element("control-facts", "tabs", "The model's configuration", "facts", drawing=False),
        Element("figure-model-pasted", "tabs", "Pasted model's parameters", "facts", usual=False),
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

    context: int = setting(32_768, Number(1, 10 * 2**20))  # tokens of one sequence
    batch: int = setting(1, Number(1, 100_000))  # sequences
    precision: str = setting("bf16", Choice(tuple(PRECISIONS)))  # of the cache
    compare: tuple[str, ...] = setting(
        ("llama-2-7b", "llama-3-8b", "gemma-3-27b", "deepseek-v3"), Several(PRESETS, most=6)
    )
    by: str = setting("parameters", Choice(("parameters", "year")))  # what all models are drawn over
    preset: str = setting("llama-3-8b", Choice((*PRESETS, *OTHER_MODELS)))  # the model that the page answers for
    facts: str = setting("", Text(whole=True))  # configuration of another model, as JSON
    machine: str = setting("h100-sxm", Choice((*load_accelerators(), OWN_MEMORY)))
    own_memory: float = setting(24.0, Number(0.1, 100_000, whole=False))  # GiB of OWN_MEMORY
    own_bandwidth: float = setting(0.0, Number(0, 1_000_000, whole=False))  # GB/s of OWN_MEMORY; 0: not known
    kinds: tuple[str, ...] = setting((), Several(tuple(KINDS), most=len(KINDS)))  # listed; empty: all
    size: str = setting("", Choice(("", *SIZES)))  # of the models listed; "": all
    n_machines: int = setting(1, Number(1, 4096))
    weights: str = setting("bf16", Choice(tuple(PRECISIONS)))  # precision of a published model's weights
    reserve: int = setting(10, Number(0, 90))  # per cent of GPU memory that is not used
    parallel: str = setting(TENSOR, Choice(PARALLEL))  # how several accelerators divide a model
    full_windows: bool = setting(False, Flag())  # windowed layers take memory for all tokens, not for their window
    page_tokens: int = setting(1, Number(1, 1024))  # tokens per page of the cache
