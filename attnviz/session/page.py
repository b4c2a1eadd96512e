"""A page: its address, its tabs, and its elements, which lessons highlight and links show alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

LOOK_AROUND = "Look around"  # the purpose of a page that has no other


@dataclass(frozen=True)
class Element:
    """One element of a page: a drawing, or a control. key: its Streamlit key, also a CSS class in the browser.

    part: the fragment that draws it. tab: the tab in which it is drawn; "" for any. drawing: it can be shown alone.
    usual: every model has it, so that presentation mode goes through it; a lesson presents others too.
    """

    key: str
    part: str
    name: str
    tab: str = ""
    drawing: bool = True
    usual: bool = True

    @property
    def css_class(self) -> str:
        """CSS class of its element in the browser."""
        return f"st-key-{self.key}"


def charts(part: str, tabs: Mapping[str, Mapping[str, str]]) -> tuple[Element, ...]:
    """Return the elements of charts, given per tab as {the chart's key: its name}."""
    return tuple(
        Element(f"figure-{key}", part, name, tab)
        for tab, named in tabs.items()
        for key, name in named.items()
    )  # fmt: skip


@dataclass(frozen=True)
class Page:
    """One page. `path` is the last part of its address.

    tabs: {value in links: name}; one is open at a time, by default the first.
    groups: groups of tabs where there are many, {name: tabs}.
    elements: from top to bottom; presentation mode goes through the drawings in this order.
    tab_before: the setting that held the open tab in links older than `tab`.
    lines: tabs whose walk has a setting of its own for its line; in older links all tabs had `step`.
    text: what it shows to a visitor who has chosen no text, instead of the default text.
    purpose: its group on the overview.
    asks: what a mechanism is asked whether it can show, before the page is drawn; "" if any can.
    """

    path: str
    file: str
    name: str
    sentence: str
    tabs: Mapping[str, str] = field(default_factory=dict)
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    elements: tuple[Element, ...] = ()
    tab_before: str = ""
    lines: Mapping[str, str] = field(default_factory=dict)
    needs_text: bool = True
    text: str = ""
    purpose: str = LOOK_AROUND
    asks: str = ""

    @property
    def module(self) -> str:
        """The module that draws it, in a function `show()`."""
        return f"attnviz.ui.pages.{self.path or 'overview'}"

    @cached_property
    def keys(self) -> frozenset[str]:
        """The keys of its elements, in whichever tab."""
        return frozenset(element.key for element in self.elements)

    def open_tab(self, tab: str) -> str:
        """Return the open tab: the selected one, or the first if this page does not have it."""
        return tab if tab in self.tabs else next(iter(self.tabs), "")

    def shown(self, tab: str) -> tuple[Element, ...]:
        """Return the elements that are shown with this tab selected."""
        return tuple(element for element in self.elements if element.tab in ("", self.open_tab(tab)))

    def drawings(self, tab: str) -> tuple[Element, ...]:
        """Return the drawings among them that every model has."""
        return tuple(element for element in self.shown(tab) if element.drawing and element.usual)
