"""The Mistakes page. The ids of the mistakes are the names of their files, since their registry imports torch.

An id names the mistake, which is to be found on the page; so addresses have a code, a part of the id's digest, which
stays the same when mistakes are added. Addresses with ids are older, or from a place that names the mistake anyway.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from attnviz.session.kinds import Choice, setting
from attnviz.session.page import Element, Page

CATALOGUE = Path(__file__).parents[2] / "mistakes" / "catalogue"
MISTAKES = tuple(sorted(path.stem for path in CATALOGUE.glob("[a-z]*.py")))
CODES = {name: sha256(name.encode()).hexdigest()[:5] for name in MISTAKES}
_IDS = {code: name for name, code in CODES.items()}

PAGE = Page(
    "mistakes", "pages/7_mistakes.py", "Mistakes",
    "Mistakes in attention code, run on your text: predict the effect, then see it and the test that catches it.",
    elements=(
        Element("mistake-code", "mistake-question", "The mistaken lines", drawing=False),
        Element("mistake-answers", "mistake-question", "The question: what these lines do", drawing=False),
    ),
    purpose="Prepare",
    asks="mistakes",
)  # fmt: skip


@dataclass(frozen=True)
class _Mistake(Choice):
    """A mistake, by its code or its id."""

    def read(self, written: str) -> object:
        return super().read(_IDS.get(written, written))

    def written(self, value: str) -> str:
        return CODES[value]

    def same(self, value: str, written: str) -> bool:
        return written in (value, CODES[value])

    def notice(self, name: str, given: str, used: str) -> str:
        return f"The link's {name} must be {self.range()}, {given}; the first one is shown."


def hunting(link: Mapping[str, str]) -> dict[str, str]:
    """Return a link with `hunt` as it was meant.

    A link with an id and without it was made when titles and repairs were shown by default; so they are.
    """
    return {"hunt": "0", **link} if link.get("mistake") in MISTAKES else dict(link)


@dataclass(frozen=True)
class MistakeSettings:
    """Settings of the Mistakes page."""

    mistake: str = setting("mask_after_softmax", _Mistake(MISTAKES))
    hunt: str = setting("auto", Choice(("auto", "1", "0")))  # find the mistaken line before title and repair are shown
    version: str = setting("", Choice(("", "right", "mistaken")))  # walked on Step by step; "": no mistake is offered

    @property
    def hunts(self) -> bool:
        """True if the mistaken line is to be found first."""
        return self.hunt != "0"
