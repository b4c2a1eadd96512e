"""The pages, each registered once: the sidebar, the overview, the warm start and the link all read this list."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Page:
    """One page. `path` is the last part of its address, `module` what draws it (a function `show()`).

    tabs: the parts of which one is open at a time, {value in links: name}; the first is open by default.
    groups: where there are many, the groups they are offered in, {name: tabs}.
    tab_before: the setting that said so in links made before there was `tab`.
    """

    path: str
    file: str
    name: str
    sentence: str
    module: str
    tabs: Mapping[str, str] = field(default_factory=dict)
    tab_before: str = ""
    needs_text: bool = True
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def open_tab(self, tab: str) -> str:
        """Return the part that is open: the one that was chosen, or the first where that is a part of another page."""
        return tab if tab in self.tabs else next(iter(self.tabs), "")


ALL = (
    Page(
        "", "app.py", "Overview",
        "The real attention modules, run on the text you type and the model you choose.",
        "attnviz.ui.pages.overview",
    ),
    Page(
        "lessons", "pages/9_lessons.py", "Lessons",
        "Ways through the pages in five to ten steps, each with what to look at and this model's numbers.",
        "attnviz.ui.pages.lessons",
        needs_text=False,
    ),
    Page(
        "heads", "pages/1_heads.py", "Heads",
        "Attention maps of all layers and heads on your text: what a head attends to, how a score becomes a weight, "
        "and what each head does.",
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
        "Which query head reads which KV head, from MHA over GQA to MQA, with the maps, the cache and the parameters "
        "of each.",
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
        "The source that ran on your text, line by line, with the tensors that each line made, up to the next token.",
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
        "Let the model write, token by token: what is computed, cached and read at each step, and how the next token "
        "is drawn.",
        "attnviz.ui.pages.decode",
        {
            "with": "With and without a cache",
            "models": "Attention types compared",
            "bounded": "When memory ends",
            "paged": "Many at once",
            "speculate": "Speculative decoding",
            "roofline": "Prefill and decode",
        },
    ),
    Page(
        "cost", "pages/4_cost.py", "Cost",
        "Parameters and KV cache of your settings, counted from live tensors, and of 58 published models, by formula.",
        "attnviz.ui.pages.cost",
        {
            "published": "Published models",
            "facts": "Another model",
            "memory": "What fits in GPU memory",
            "speed": "Decode speed",
            "measured": "Measured here",
        },
        "part",
        needs_text=False,
    ),
    Page(
        "mistakes", "pages/7_mistakes.py", "Mistakes",
        "Mistakes found in published attention code, run on your text: predict what happens, then see it, and the test "
        "that finds it.",
        "attnviz.ui.pages.mistakes",
    ),
    Page(
        "practice", "pages/8_practice.py", "Practice",
        "Questions made from live tensors and published models, graded by computing, and tasks to write yourself.",
        "attnviz.ui.pages.practice",
        {"drills": "Drills", "interview": "Mock interview", "write": "Write it yourself"},
        needs_text=False,
    ),
)  # fmt: skip
PAGES = {page.path: page for page in ALL}
WAYS = {  # from the overview: what somebody wants, and the pages for it; any other page is to look around in
    "Understand it": ("lessons",),
    "Look around": (),
    "Prepare": ("mistakes", "practice"),
    "Work out a cost": ("cost",),
}
TABS = tuple(dict.fromkeys(tab for page in ALL for tab in page.tabs))
TABS_BEFORE = {page.tab_before: page for page in ALL if page.tab_before}


def ways() -> dict[str, list[Page]]:
    """The ways that lead on from the overview, each with its pages; none without a page."""
    named = {path: way for way, paths in WAYS.items() for path in paths}
    found: dict[str, list[Page]] = {way: [] for way in WAYS}
    for page in ALL:
        if page.path:
            found[named.get(page.path, "Look around")].append(page)
    return {way: pages for way, pages in found.items() if pages}
