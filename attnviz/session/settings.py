"""All settings of the app, as one frozen dataclass that can be written to a link and read from one.

A page's own are in its file in `pages/`, the others in `shared.py`. No streamlit here. `from_link` never fails: an
invalid value is replaced by the nearest valid one, with a notice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any
from urllib.parse import quote_plus

from attnviz.config import divisors
from attnviz.session.kinds import Kind, Number, Text
from attnviz.session.page import Page
from attnviz.session.pages import LINES, TABS_BEFORE
from attnviz.session.pages.cost import CostSettings
from attnviz.session.pages.decode import DecodeSettings
from attnviz.session.pages.heads import HeadsSettings
from attnviz.session.pages.lessons import LessonSettings
from attnviz.session.pages.linear import LinearSettings
from attnviz.session.pages.mistakes import MistakeSettings, hunting
from attnviz.session.pages.practice import PracticeSettings
from attnviz.session.pages.query_groups import GroupingSettings
from attnviz.session.pages.rope import RopeSettings
from attnviz.session.pages.steps import StepsSettings
from attnviz.session.shared import SELECTION, SharedSettings, ShowSettings, widths

MAX_ADDRESS = 7_000  # bytes; servers refuse addresses over 8 kB, and 512 tokens take about 2
MAX_QUOTED_CHARS = 40  # of a link's value in a notice


@dataclass(frozen=True)
class Settings(
    ShowSettings, LessonSettings, HeadsSettings, PracticeSettings, CostSettings, MistakeSettings, DecodeSettings,
    StepsSettings, LinearSettings, GroupingSettings, RopeSettings, SharedSettings,
):  # fmt: skip
    """All settings; in a link, those of the last class come first. The defaults are what a bare address shows."""

    def normalised(self) -> Settings:
        """Return the nearest valid settings: n_kv_heads divides n_heads, head_dim is even."""
        fitting = {name: kind.fit(getattr(self, name)) for name, kind in KINDS.items()}
        fitting["n_kv_heads"] = nearest(self.n_kv_heads, divisors(self.n_heads))
        fitting["d_model"] = nearest(self.d_model, widths(self.n_heads))
        return Settings(**fitting)

    def to_link(self) -> dict[str, str]:
        """Return the settings that differ from the defaults, for a link.

        To fit an address, long texts are cut, and a pasted configuration, useless without its end, is left out.
        """
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        link = {f.name: KINDS[f.name].written(values[f.name]) for f in fields(self) if values[f.name] != f.default}
        if "step" in link and self.tab in LINES:  # without it the link would be read as an old one
            link[LINES[self.tab]] = str(values[LINES[self.tab]])
        room = MAX_ADDRESS
        for name in [name for name in LONG if name in link]:
            cut = _for_address(link[name], room)
            room -= _size(cut)
            if cut != link[name] and (LONG[name].whole or not cut):
                del link[name]
            else:
                link[name] = cut
        return link

    @classmethod
    def from_link(cls, link: Mapping[str, str], page: Page | None = None) -> tuple[Settings, list[str]]:
        """Parse the settings of a link; also return a notice for each value that had to be changed.

        page: the link's page, for old links, which had a separate setting per page for the open tab, and one line for
        the walks of all tabs.
        """
        values: dict[str, Any] = {}
        notices, unread = [], set()
        link = hunting(_with_line(_with_tab(link, page), page))
        for name, written in link.items():
            if name not in KINDS:
                notices.append(f"The link's “{name[:40]}” is not a setting of this app; it was ignored.")
                continue
            try:
                values[name] = KINDS[name].read(written)
            except (ValueError, KeyError, OverflowError):
                unread.add(name)
        settings = cls(**values).normalised()
        for name, written in link.items():
            compared = name in values and name not in SELECTION
            if name in unread or (compared and not KINDS[name].same(getattr(settings, name), written)):
                notices.append(_replacement_notice(name, written, values, settings))
        return settings, notices


KINDS: dict[str, Kind] = {f.name: f.metadata["kind"] for f in fields(Settings)}
# They share a link's room in this order: what may not be cut comes last.
LONG = {
    n: kind
    for whole in (False, True)
    for n, kind in KINDS.items()
    if isinstance(kind, Text) and kind.long and kind.whole == whole
}


def _with_tab(link: Mapping[str, str], page: Page | None) -> dict[str, str]:
    """Return the link with this page's old name of `tab` replaced, and the old names of other pages removed."""
    plain = {name: written for name, written in link.items() if name not in TABS_BEFORE}
    if page and page.tab_before in link:
        plain.setdefault("tab", link[page.tab_before])
    return plain


def _with_line(link: Mapping[str, str], page: Page | None) -> dict[str, str]:
    """Return the link with an old `step` renamed to that of the tab it opens, if the tab has one of its own."""
    tab = link.get("tab", "")
    own = LINES.get(tab) if page is None or tab in page.tabs else None
    if own is None or own in link:
        return dict(link)
    return {own if name == "step" else name: written for name, written in link.items()}


def nearest(value: float, allowed: tuple[int, ...]) -> int:
    """Return the allowed number closest to value."""
    return min(allowed, key=lambda a: abs(a - value))


def _for_address(text: str, room: int) -> str:
    """Cut the text to this many bytes of a URL-encoded address, where one character can take twelve."""
    if _size(text) <= room:
        return text
    for i, character in enumerate(text):
        room -= _size(character)
        if room < 0:
            return text[:i]
    return text


def _size(text: str) -> int:
    return len(quote_plus(text, errors="replace"))


def _replacement_notice(name: str, written: str, values: Mapping[str, object], settings: Settings) -> str:
    """Return the notice for a changed value of a link: the values allowed, the value given, the value used."""
    kind, used = KINDS[name], getattr(settings, name)
    given = f"not “{written[:MAX_QUOTED_CHARS]}{'…' * (len(written) > MAX_QUOTED_CHARS)}”"
    if name in SELECTION:  # the value used depends on the model and the text: see View.link_notices
        return f"The link's {name} must be a whole number, {given}; it was ignored."
    in_range = name in values and kind.same(values[name], written)
    if in_range and isinstance(kind, Number) and kind.even:
        return f"The link's {name} must be even, since RoPE rotates pairs, {given}; it is set to {used}."
    if in_range:  # but not with this n_heads
        return f"The link's {name}, {written}, does not fit {settings.n_heads} query heads; it is set to {used}."
    return kind.notice(name, given, used)
