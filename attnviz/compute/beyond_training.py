"""Differences between how a checkpoint is run and how it was trained, one sentence each. No streamlit, no torch."""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from pathlib import Path

from attnviz.config import ModelConfig
from attnviz.cost import count_parameters
from attnviz.figures.phrases import count

CARD = Path(__file__).parent.parent / "checkpoints" / "README.md"
CODE = re.compile(  # a line that ends in a brace or a call, assigns, compares or has an arrow
    r"[{}]\s*$|\w\(.*\)\s*[:;{]?\s*$|\w\s*[-+*/|&]?=\s*\S|[=!<>]=|[=-]>"
)
LEAKS = (
    "Every position but the last also reads the token that it is to predict, so losses and predicted tokens do not "
    "measure prediction."
)
TRAINED_ON = "trained on children's books from 1812 to 1911"


def beyond_training(trained: ModelConfig, run: ModelConfig, text: str | None, n_tokens: int) -> list[str]:
    """Return one sentence for each difference between this run on n_tokens and the checkpoint's training.

    text: None for a model whose training text is unknown.
    """
    windowed = run.sliding_window is not None and run.sliding_window < n_tokens  # a wider one masks nothing
    window = f"a window of {count(run.sliding_window or 0, 'token')}"
    sinks = f" and {count(run.n_sinks, 'attention-sink token')}" if run.n_sinks else ""
    other_theta = run.position == trained.position == "rope" and run.rope_theta != trained.rope_theta
    reads_ahead = n_tokens > 1 and not (windowed and run.sliding_window == 1)
    leaks = f" {LEAKS}" if reads_ahead else ""
    differs = {
        f"The text has {n_tokens} tokens; training rows had {trained.max_context}.": n_tokens
        > (trained.max_context or n_tokens),
        f"The mask is bidirectional; training was causal.{leaks}": trained.causal and not run.causal,
        f"Attention has {window}{sinks}; training had no window.": windowed and trained.sliding_window is None,
        "RoPE is off; training used it.": run.position != trained.position,
        f"RoPE's base is {run.rope_theta:,.10g}; training used {trained.rope_theta:,.10g}.": other_theta,
        **({} if text is None else _about_text(text)),
    }
    return [sentence for sentence, holds in differs.items() if holds]


def _about_text(text: str) -> dict[str, bool]:
    written = [c for c in text if not c.isspace() and not unicodedata.category(c).startswith("P")]
    foreign = sum(not _is_latin(c) for c in written)
    lines = [line for line in text.splitlines() if line.strip()]
    code = sum(bool(CODE.search(line)) for line in lines)
    looks = "looks" if code == 1 else "look"
    share = 100 * foreign / (len(written) or 1)
    return {
        f"{share:.0f}% of the characters, without punctuation, are not Latin; training text was English.": share > 50,
        f"{code} of {count(len(lines), 'line')} {looks} like code; training text was books.": 2 * code > len(lines),
    }


def _is_latin(c: str) -> bool:
    return c.isascii() or unicodedata.name(c, "").startswith("LATIN ")


def trained_on(trained: ModelConfig) -> str:
    """Return the model card's summary: number of parameters and training text."""
    millions = count_parameters(trained).total / 1e6
    return f"This checkpoint has {millions:.1f} M parameters and was {TRAINED_ON}."


@cache
def model_card() -> str:
    """Return the model card as Markdown, one heading level down and without its image, which the app does not serve."""
    return "#" + re.sub(r"!\[.*?\]\(.*?\)\n", "", CARD.read_text(encoding="utf-8"))
