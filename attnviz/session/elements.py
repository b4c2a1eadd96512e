"""Registry of page elements: each drawing, and a few controls, under its Streamlit key.

Lessons highlight them, `only` in a link shows a single one, and presentation mode goes through them in this order.
"""

from __future__ import annotations

from dataclasses import dataclass

from attnviz.session.pages import PAGES


@dataclass(frozen=True)
class Element:
    """One element of a page. key: its Streamlit key, which is also a CSS class of its element in the browser.

    part: the fragment that draws it. tab: the tab in which it is drawn; "" for any.
    """

    key: str
    page: str
    part: str
    name: str
    tab: str = ""
    drawing: bool = True

    @property
    def css_class(self) -> str:
        """CSS class of its element in the browser."""
        return f"st-key-{self.key}"


def _charts(page: str, part: str, **tabs: dict[str, str]) -> tuple[Element, ...]:
    """Return the elements of charts, given per tab as {the chart's key: its name}."""
    return tuple(
        Element(f"figure-{key}", page, part, name, tab)
        for tab, charts in tabs.items()
        for key, name in charts.items()
    )  # fmt: skip


ALL = (
    Element("front-grid", "", "maps", "All heads on the text"),
    Element("head-grid", "heads", "grid", "All heads"),
    Element("text-view", "heads", "text", "The text shaded by weight"),
    Element("head-view", "heads", "head", "The selected head"),
    Element("head-path", "heads", "path", "One query from score to weight"),
    Element("lines", "heads", "closer", "Lines between tokens", "lines"),
    *_charts(
        "heads", "closer",
        writes={"norms": "Norm of the head's output", "logits": "Effect on logits", "weighted": "Value-weighted map"},
        number={"number": "One weight, step by step"},
        stages={"stages": "Score, mask, softmax"},
        difference={"difference": "Difference of two heads"},
        does={"statistic-entropy": "Entropy of all heads", "role": "Scores on the probes"},
        average={"average": "Average over heads"},
        rollout={"rollout": "Attention rollout"},
        off={"effects": "Ablation of each head"},
    ),
    Element("family-mha", "heads", "closer", "The layer as MHA", "family"),
    Element("family-mqa", "heads", "closer", "The layer as MQA", "family"),
    Element("masks", "heads", "closer", "The same layer under each mask", "masks"),
    Element("kv-heads", "query_groups", "kv-heads", "The choice of attention", drawing=False),
    Element("diagram", "query_groups", "sharing", "Which KV head or latent each query head reads"),
    Element("cached", "query_groups", "cached", "Cache per token, to scale"),
    Element("stored", "query_groups", "scale", "Parameters and a decode step, to scale"),
    Element("figure-latent-scale", "query_groups", "scale", "The latent, to scale", drawing=False),
    Element("layer-maps", "query_groups", "maps", "The maps of one layer"),
    *_charts(
        "query_groups", "closer",
        work={"work": "Compute and memory of a decode step"},
        cost={"losses": "Loss with fewer KV heads", "quality": "Held-out quality", "this-text": "Loss on this text"},
        alike={"similarity": "Similarity of heads"},
        latent={"latent": "The latent of MLA", "absorbing": "Absorbed and expanded: FLOPs of one token"},
    ),
    Element("latent-checks", "query_groups", "closer", "Absorbed form = expanded form", "latent", drawing=False),
    Element("rope-pair", "rope", "rotation", "One pair of q and k"),
    Element("rope-clocks", "rope", "pairs", "Each pair as a clock"),
    Element("control-theta", "rope", "pairs", "The slider of the base", drawing=False),
    Element("figure-wavelengths", "rope", "pairs", "Wavelength of each pair"),
    Element("figure-rotations", "rope", "pairs", "cos and sin of each pair"),
    Element("control-factor", "rope", "closer", "The slider of the scaling factor", "longer", drawing=False),
    *_charts(
        "rope", "closer",
        distance={"apart": "One score against distance", "decay": "The decay bound", "by-distance": "Mean score"},
        longer={"slowed": "How much each method slows the pairs", "loss": "Loss by position"},
        equal={"shifts": "A score under shifts"},
        values={"values": "Rotated values"},
        layouts={"layout-pairs": "Two layouts"},
        latent={
            "mla-content": "Content part of the scores", "mla-position": "RoPE part of the scores",
            "mla-sum": "Their sum",
        },
        without={"map-without-0": "With RoPE", "map-without-1": "Without RoPE"},
    ),
    Element("source-walk", "steps", "parts", "The source, line by line", "walk"),
    Element("decode-walk", "steps", "parts", "A decode step, line by line", "step"),
    *_charts(
        "steps", "parts",
        lens={"candidates": "Next tokens", "attribution": "What made the logit", "lens": "Logit lens"},
        residual={"stream": "Norm of the residual stream", "written": "What each part writes"},
        tiles={"tile-row": "Softmax in tiles", "traffic": "Memory traffic"},
    ),
    Element("decode-player", "decode", "player", "The text as it is written"),
    *_charts(
        "decode", "closer",
        **{"with": {"step-work": "Work with and without a cache", "times": "Time with and without a cache"}},
        models={"growth": "Five caches that grow", "family-times": "Time of a step"},
        bounded={
            "bounded-losses": "Loss with caches of limited size", "held": "What each cache holds",
            "kept": "int8 and int4",
        },
        paged={"blocks": "Blocks that texts share", "waste": "Unused slots"},
        speculate={"rounds": "Accepted and rejected", "acceptance": "Acceptance probabilities"},
        roofline={"roofline": "Prefill and decode on the roofline"},
    ),
    Element("control-context", "cost", "amounts", "The slider of the context", drawing=False),
    Element("compared", "cost", "closer", "Caches of a few models, to scale", "published"),
    *_charts(
        "cost", "closer",
        published={"published": "Published models", "totals": "Cache by context", "alternatives": "Another attention"},
        memory={"filling": "What fits in GPU memory"},
        speed={
            "speed": "Decode speed", "roof": "Roofline", "first-token": "Time to first token",
            "machines": "Accelerators",
        },
    ),
    Element("control-facts", "cost", "closer", "The model's configuration", "facts", drawing=False),
    Element("figure-model-pasted", "cost", "closer", "Parameters of the pasted model", "facts", drawing=False),
    Element("figure-attention", "cost", "own", "Attention parameters", "published"),
    Element("figure-model", "cost", "own", "Parameters", "published"),
    Element("figure-cache", "cost", "own", "KV cache", "published"),
    Element("figure-precisions", "cost", "own", "Cache by precision", "published"),
    Element("mistake-code", "mistakes", "mistake-question", "The mistaken lines", drawing=False),
    Element("mistake-answers", "mistakes", "mistake-question", "The question: what these lines do", drawing=False),
    Element("practice-drills", "practice", "parts", "The drills", "drills", drawing=False),
    Element("practice-interview", "practice", "parts", "The mock interview", "interview", drawing=False),
    Element("practice-write", "practice", "parts", "A task to write yourself", "write", drawing=False),
)  # fmt: skip
ELEMENTS = {element.key: element for element in ALL}


def on_page(path: str, tab: str) -> tuple[Element, ...]:
    """Return the elements that a page shows with this tab open, from top to bottom."""
    shown = PAGES[path].open_tab(tab)
    return tuple(element for element in ALL if element.page == path and element.tab in ("", shown))


def drawings(path: str, tab: str) -> tuple[Element, ...]:
    """Return the drawings among them, which can be shown alone."""
    return tuple(element for element in on_page(path, tab) if element.drawing)
