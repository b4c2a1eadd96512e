"""The Decode page."""

from __future__ import annotations

from dataclasses import dataclass

from attnviz.config import FAMILY
from attnviz.session.kinds import Choice, Ids, Number, setting
from attnviz.session.page import Element, Page, charts

# To be continued: after the default text, which repeats a phrase, the checkpoints repeat it again and again.
STORY = "There was once a poor woodcutter who lived with his daughter at the edge of a great forest. One winter evening"

PAGE = Page(
    "decode", "pages/6_decode.py", "Decode",
    "Generate text token by token: what each step computes, caches and reads, and how the next token is sampled.",
    tabs={
        "with": "With and without a cache",
        "models": "Attention types compared",
        "bounded": "Limited cache size",
        "paged": "Paged cache",
        "speculate": "Speculative decoding",
        "roofline": "Prefill and decode",
    },
    elements=(
        Element("decode-player", "player", "Generated text"),
        *charts("tabs", {
            "with": {"step-work": "Work per step", "times": "Time per step"},
            "models": {"growth": "Five caches that grow", "family-times": "Step time by type"},
            "bounded": {
                "bounded-losses": "Loss with limited caches", "held": "What each cache holds",
                "kept": "int8 and int4",
            },
            "paged": {"blocks": "Blocks that texts share", "waste": "Unused slots"},
            "speculate": {"rounds": "Accepted and rejected", "acceptance": "Acceptance probabilities"},
            "roofline": {"roofline": "Roofline"},
        }),
    ),
    text=STORY,
    asks="decode",
)  # fmt: skip


@dataclass(frozen=True)
class DecodeSettings:
    """Settings of the Decode page."""

    written: tuple[int, ...] = setting((), Ids(512))  # the tokens that continue the text
    shown: int = setting(-1, Number(-1, 512))  # how many of them are shown by the player; -1: all
    temperature: float = setting(0.8, Number(0, 5, whole=False))  # 0: greedy
    top_k: int = setting(0, Number(0, 1000))  # 0: off
    top_p: float = setting(0.95, Number(0, 1, whole=False))  # 1: off
    min_p: float = setting(0.0, Number(0, 1, whole=False))  # 0: off
    penalty: float = setting(1.0, Number(0.1, 5, whole=False))  # repetition penalty; 1: none
    draw_seed: int = setting(0, Number(0, 2**31 - 1))
    bound: int = setting(48, Number(8, 128))  # tokens that a cache of limited size holds
    kept_first: int = setting(4, Number(1, 7))  # attention-sink tokens among them
    n_texts: int = setting(3, Number(2, 8))  # continuations that share the text's cache blocks
    block_size: int = setting(8, Number(1, 64))  # tokens per block
    drafter: str = setting("mqa", Choice((*FAMILY, "n-grams")))
    proposed: int = setting(4, Number(1, 8))  # tokens that the drafter proposes at a time
