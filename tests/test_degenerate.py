"""Sentences where there is only one of something: a window of 1, one token, head, layer, KV head, block or number.

Each tab is opened with these settings, and no sentence may count "1 tokens" or give a range from a number to itself.
"""

from __future__ import annotations

import re
from dataclasses import fields

import pytest

from attnviz.figures.drawing import Caption
from attnviz.session.settings import Settings
from tests.pages import COST
from tests.walk import TABS, Visit, walking

ONE = {"model": "own", "n_heads": 1, "n_kv_heads": 1, "n_layers": 1, "d_model": 8}
CASES = {
    "a window of 1": {"window": 1},
    "one token": {"text": "a", "window": 1, "n_sinks": 1},
    "one head": ONE | {"window": 1},
    "one number": ONE | {"attention": "mla", "kv_lora_rank": 1, "qk_rope_head_dim": 2, "head_dim": 2},
    "the least of all": {"block": 1, "context": 1, "proposed": 1, "block_size": 1, "top_k": 1, "mask_window": 1,
                         "mask_sinks": 1, "mask_padding": 1, "padding": 1, "kept_first": 1, "n_texts": 2, "bound": 8},
}  # fmt: skip
THINGS = (
    "tokens|positions|heads|layers|queries|pairs|dimensions|rows|columns|tiles|blocks|sequences|parameters|numbers|"
    "bytes|words|characters|steps|machines|accelerators|experts|texts|cells|scores|copies|terms|shifts|groups|models|"
    "questions|checks|candidates|tables"
)
WRONG = (
    re.compile(rf"(?<![\d.,·/^−+-])(?<![−+] )\b1 (?:KV |query |attention-sink |free )?(?:{THINGS})\b"),
    re.compile(r"between (\d[\d,.]*\d|\d) and \1(?![\d.,])"),
    re.compile(r"(?:from|:) (−?\d[\d,.]*\d|\d) to \1(?![\d.,]\d|\d)"),
    re.compile(r"\b1 of \d+ \w+ (?:complete|pass|are|have)\b"),
    re.compile(r"\b(?:first|last) 1 (?:token|tokens)\b"),
    re.compile(r"\ball 1\b"),
)


def wrong_in(text: str) -> list[str]:
    return [text[max(0, found.start() - 40) : found.end() + 20] for each in WRONG for found in each.finditer(text)]


@pytest.mark.parametrize(
    "text",
    ["your text has 1 tokens", "2 × 1 KV heads of 64", "rows sum to between 1 and 1", "scores from 0.50 to 0.50;",
     "1 of 4 pairs complete a turn", "The first 1 token of"],
)  # fmt: skip
def test_what_reads_wrong_is_found(text):
    assert wrong_in(text)


@pytest.mark.parametrize(
    "text", ["k + 1 tokens", "w − 1 tokens", "11 tokens", "1 token", "0.1 tokens", "from 1 to 10", "from 1 to 1.5"]
)
def test_what_reads_right_is_not(text):
    assert not wrong_in(text)


@pytest.mark.slow
@pytest.mark.parametrize("path", TABS)
def test_one_of_something_is_said_as_one(path):
    found: dict[str, str] = {}
    with walking() as opened:
        for name, changes in CASES.items():
            for tab in TABS[path] or [""]:
                seen = opened(Visit(path, Settings(**changes, tab=tab)))
                captions = [str(part) for _, caption in seen.captions for part in texts_of(caption)]
                for text in (*(said.text for said in seen.said), *captions):
                    found |= dict.fromkeys(wrong_in(text), f"{name}, {tab}")
    if path == COST:  # the tick of an axis
        found = {wrong: where for wrong, where in found.items() if wrong.strip() != "1 K tokens"}
    assert found == {}, "\n".join(f"{where}: {wrong}" for wrong, where in found.items())


def texts_of(caption: Caption) -> list[str]:
    return [getattr(caption, each.name) for each in fields(caption) if isinstance(getattr(caption, each.name), str)]
