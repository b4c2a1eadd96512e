"""Registry of the pages, used by the sidebar, the overview, the warm start and links."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from attnviz.facts import published_facts

# To be continued: after the default text, which repeats a phrase, the checkpoints repeat it again and again.
STORY = "There was once a poor woodcutter who lived with his daughter at the edge of a great forest. One winter evening"


@dataclass(frozen=True)
class Page:
    """One page. `path` is the last part of its address, `module` draws it (in a function `show()`).

    tabs: {value in links: name}; one is open at a time, by default the first.
    groups: groups of tabs where there are many, {name: tabs}.
    tab_before: the setting that held the open tab in links older than `tab`.
    text: what it shows to a visitor who has chosen no text, instead of the default text.
    """

    path: str
    file: str
    name: str
    sentence: str
    module: str
    tabs: Mapping[str, str] = field(default_factory=dict)
    tab_before: str = ""
    needs_text: bool = True
    text: str = ""
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def open_tab(self, tab: str) -> str:
        """Return the open tab: the selected one, or the first if this page does not have it."""
        return tab if tab in self.tabs else next(iter(self.tabs), "")


ALL = (
    Page(
        "", "app.py", "Overview",
        "Type a text and choose a model to see what its attention computes, and what it costs.",
        "attnviz.ui.pages.overview",
    ),
    Page(
        "lessons", "pages/9_lessons.py", "Lessons",
        "Guided tours of the pages in six to ten steps, with what to look at and this model's numbers.",
        "attnviz.ui.pages.lessons",
        needs_text=False,
    ),
    Page(
        "heads", "pages/1_heads.py", "Heads",
        "Attention maps of all layers and heads on your text: what each head attends to, how a score becomes a weight, "
        "and what the head does.",
        "attnviz.ui.pages.heads",
        {
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
        "heads_part",
        groups={
            "This head": ("lines", "writes", "number", "stages", "side", "difference"),
            "All heads": ("does", "average", "rollout", "family"),
            "Experiments": ("off", "masks", "cross", "models"),
        },
    ),
    Page(
        "query_groups", "pages/2_query_groups.py", "Query grouping",
        "Which KV head each query head reads in MHA, GQA and MQA, and what MLA reads instead: maps, cache size, "
        "parameters.",
        "attnviz.ui.pages.query_groups",
        {
            "equal": "Numerical checks",
            "work": "Compute and memory",
            "cost": "Loss with fewer KV heads",
            "maps": "Maps before and after merging",
            "alike": "Similarity of heads",
            "latent": "Multi-head latent attention",
        },
        "closer",
    ),
    Page(
        "rope", "pages/3_rope.py", "RoPE",
        "Pairs of dimensions rotate by position. See it on your own queries and keys, and what context extension "
        "changes.",
        "attnviz.ui.pages.rope",
        {
            "distance": "Only distance counts",
            "without": "No RoPE / partial RoPE",
            "longer": "Context extension",
            "layouts": "Two layouts",
            "latent": "Decoupled RoPE (MLA)",
            "values": "Why values aren't rotated",
            "equal": "Numerical checks",
        },
        "turning",
    ),
    Page(
        "steps", "pages/5_steps.py", "Step by step",
        "The source code that ran on your text, line by line, with the tensors each line computed, up to the next "
        "token.",
        "attnviz.ui.pages.steps",
        {
            "walk": "Line by line",
            "step": "One decode step",
            "lens": "Prediction",
            "residual": "Residual stream",
            "tiles": "Softmax in tiles",
        },
    ),
    Page(
        "decode", "pages/6_decode.py", "Decode",
        "Generate text token by token: what each step computes, caches and reads, and how the next token is sampled.",
        "attnviz.ui.pages.decode",
        {
            "with": "With and without a cache",
            "models": "Attention types compared",
            "bounded": "Limited cache size",
            "paged": "Paged cache",
            "speculate": "Speculative decoding",
            "roofline": "Prefill and decode",
        },
        text=STORY,
    ),
    Page(
        "cost", "pages/4_cost.py", "Cost",
        f"Parameters and KV cache of your model, counted from live tensors, and of {len(published_facts())} published "
        "models, by formula.",
        "attnviz.ui.pages.cost",
        {
            "published": "Published models",
            "facts": "Another model",
            "memory": "What fits in GPU memory",
            "speed": "Prefill and decode speed",
            "measured": "Measured here",
        },
        "part",
        needs_text=False,
    ),
    Page(
        "mistakes", "pages/7_mistakes.py", "Mistakes",
        "Mistakes in attention code, run on your text: predict the effect, then see it and the test that catches it.",
        "attnviz.ui.pages.mistakes",
    ),
    Page(
        "practice", "pages/8_practice.py", "Practice",
        "Questions from live tensors and published models, graded by computation, and code to write yourself.",
        "attnviz.ui.pages.practice",
        {"drills": "Drills", "interview": "Mock interview", "write": "Write it yourself"},
        needs_text=False,
    ),
)  # fmt: skip
PAGES = {page.path: page for page in ALL}
OVERVIEW_GROUPS = {  # by purpose: what each offers, and the paths of its pages; the others are in "Look around"
    "Understand it": ("Lessons in six to ten steps each, on a trained model and a text of their own.", ("lessons",)),
    "Look around": ("Each head's map, shared KV heads, RoPE's rotations, the source as it ran, decoding.", ()),
    "Prepare": (
        "Before an interview: questions, a mock interview, mistakes to find in code, code to write.",
        ("mistakes", "practice"),
    ),
    "Work out a cost": ("Parameters and KV cache of these settings and of published models.", ("cost",)),
}
TABS = tuple(dict.fromkeys(tab for page in ALL for tab in page.tabs))
TABS_BEFORE = {page.tab_before: page for page in ALL if page.tab_before}


def overview_groups() -> dict[str, list[Page]]:
    """Return the overview's non-empty groups, each with its pages."""
    named = {path: group for group, (_, paths) in OVERVIEW_GROUPS.items() for path in paths}
    found: dict[str, list[Page]] = {group: [] for group in OVERVIEW_GROUPS}
    for page in ALL:
        if page.path:
            found[named.get(page.path, "Look around")].append(page)
    return {group: pages for group, pages in found.items() if pages}
