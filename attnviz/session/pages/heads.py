"""The Heads page."""

from __future__ import annotations

from dataclasses import dataclass

from attnviz.session.kinds import Choice, Flag, Number, Several, Text, setting
from attnviz.session.openable import MAX_HEADS, MAX_LAYERS, ModelName
from attnviz.session.page import Element, Page, charts

MAX_PINNED = 8
HEADS = tuple(f"{layer}.{head}" for layer in range(MAX_LAYERS) for head in range(MAX_HEADS))
SECOND_TEXT = "A girl saw a big red ball. The man was happy and laughed."

PAGE = Page(
    "heads", "pages/1_heads.py", "Heads",
    "Attention maps of all layers and heads on your text: what each head attends to, how a score becomes a weight, "
    "and what the head does.",
    tabs={
        "lines": "Lines between tokens",
        "writes": "What it writes",
        "number": "One weight, step by step",
        "stages": "Score, mask, softmax",
        "side": "Side by side",
        "difference": "Difference of two",
        "does": "What each head does",
        "average": "Average over heads",
        "rollout": "Attention rollout",
        "family": "Compare attention types",
        "off": "Ablate heads",
        "masks": "Masks",
        "cross": "Cross-attention",
        "models": "Compare two models",
    },
    groups={
        "This head": ("lines", "writes", "number", "stages", "side", "difference"),
        "All heads": ("does", "average", "rollout", "family"),
        "Experiments": ("off", "masks", "cross", "models"),
    },
    elements=(
        Element("head-grid", "grid", "All heads"),
        Element("text-view", "text", "Tokens shaded by weight"),
        Element("head-view", "head", "Selected head"),
        Element("head-path", "path", "From score to weight"),
        Element("lines", "tabs", "Lines between tokens", "lines"),
        *charts("tabs", {
            "writes": {
                "norms": "Output norm", "logits": "Effect on logits", "weighted": "Value-weighted map",
            },
            "number": {"number": "One weight, step by step"},
            "stages": {"stages": "Score, mask, softmax"},
            "difference": {"difference": "Difference of two heads"},
            "does": {"statistic-entropy": "Entropy of all heads", "role": "Scores on the probes"},
            "average": {"average": "Average over heads"},
            "rollout": {"rollout": "Attention rollout"},
            "off": {"effects": "Ablation of each head"},
        }),
        Element("family-mha", "tabs", "Layer as MHA", "family"),
        Element("family-mqa", "tabs", "Layer as MQA", "family"),
        Element("masks", "tabs", "Layer under each mask", "masks"),
    ),
    tab_before="heads_part",
)  # fmt: skip


@dataclass(frozen=True)
class HeadsSettings:
    """Settings of the Heads page."""

    colour: str = setting("root", Choice(("root", "linear", "log")))
    sink_aside: bool = setting(False, Flag())  # exclude the first token from the colour scale
    merged: bool = setting(False, Flag())  # one row and column per character in the maps
    pinned: tuple[str, ...] = setting((), Several(HEADS, most=MAX_PINNED))  # heads shown beside the selected one
    padding: int = setting(0, Number(0, 511))  # tokens at the front that are padding
    other_head: str = setting("", Choice(("", *HEADS)))  # compared with the selected one; "": the next in its layer
    other_model: str = setting("mha", ModelName())  # compared with the model
    difference_of: str = setting("heads", Choice(("heads", "texts")))
    average: str = setting("layer", Choice(("layer", "all")))
    mask_window: int = setting(8, Number(1, 128))  # of the masks shown side by side
    mask_sinks: int = setting(1, Number(1, 16))
    second_text: str = setting(SECOND_TEXT, Text())  # its tokens are keys and values in cross-attention
    off: tuple[str, ...] = setting((), Several(HEADS, most=32))  # ablated heads; empty: the selected one
    off_way: str = setting("zero", Choice(("zero", "mean")))
    mask_padding: int = setting(3, Number(1, 127))
