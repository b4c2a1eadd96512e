"""The pages, one file each: address, tabs, elements, and the settings that only this page has."""

from __future__ import annotations

from attnviz.session.page import LOOK_AROUND, Page
from attnviz.session.pages import (
    cost,
    decode,
    heads,
    lessons,
    linear,
    mistakes,
    overview,
    practice,
    query_groups,
    rope,
    steps,
)

ALL = tuple(
    file.PAGE
    for file in (overview, lessons, heads, query_groups, linear, rope, steps, decode, cost, mistakes, practice)
)  # within each purpose in the order of the sidebar
PAGES = {page.path: page for page in ALL}
PURPOSES = {  # the groups of the overview: what each offers
    "Understand it": "Lessons in six to ten steps each, on a trained model and a text of their own.",
    LOOK_AROUND: "Each head's map, shared KV heads, states and top-k keys, RoPE's rotations, the source, decoding.",
    "Prepare": "Before an interview: questions, a mock interview, mistakes to find in code, code to write.",
    "Work out a cost": "Parameters and KV cache of these settings and of published models.",
}
TABS = tuple(dict.fromkeys(tab for page in ALL for tab in page.tabs))
TABS_BEFORE = {page.tab_before: page for page in ALL if page.tab_before}
LINES = {tab: line for page in ALL for tab, line in page.lines.items()}
ELEMENTS = {element.key: element for page in ALL for element in page.elements}


def by_purpose() -> dict[str, list[Page]]:
    """Return the overview's non-empty groups, each with its pages."""
    groups = {purpose: [page for page in ALL if page.path and page.purpose == purpose] for purpose in PURPOSES}
    return {purpose: pages for purpose, pages in groups.items() if pages}
