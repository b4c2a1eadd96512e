"""Differences between how a checkpoint is run and how it was trained, one sentence each. No streamlit, no torch."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from attnviz.characters import Span, graphemes
from attnviz.config import ModelConfig
from attnviz.cost import count_parameters
from attnviz.phrases import count

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
    other_theta = run.position == trained.position == "rope" and _thetas(run) != _thetas(trained)
    reads_ahead = n_tokens > 1 and (run.sliding_window != 1 or run.full_layers != ())
    in_layers = run.full_layers != trained.full_layers
    window, trained_window = _window(run, in_layers), _window(trained, in_layers)
    leaks = f" {LEAKS}" if reads_ahead else ""
    differs = {
        f"The text has {n_tokens} tokens; training rows had {trained.max_context}.": n_tokens
        > (trained.max_context or n_tokens),
        f"The mask is bidirectional; training was causal.{leaks}": trained.causal and not run.causal,
        f"Attention has {window}; training had {trained_window}.": _masked(run, n_tokens) != _masked(trained, n_tokens),
        "RoPE is off; training used it.": run.position != trained.position,
        f"RoPE's base is {_thetas(run)}; training used {_thetas(trained)}.": other_theta,
        **({} if text is None else _about_text(text)),
    }
    return [sentence for sentence, holds in differs.items() if holds]


def _masked(c: ModelConfig, n_tokens: int) -> tuple[object, ...]:
    """Return what decides which keys a window masks in a text; () for none, also with a window that masks nothing."""
    return (c.sliding_window, c.n_sinks, c.full_layers) if c.sliding_window and c.sliding_window < n_tokens else ()


def _window(c: ModelConfig, in_layers: bool) -> str:
    """Return "a window of 5 tokens and 2 attention-sink tokens", and in how many layers; "no window" for none."""
    if c.sliding_window is None:
        return "no window"
    sinks = f" and {count(c.n_sinks, 'attention-sink token')}" if c.n_sinks else ""
    layers = f" in {c.n_layers - len(c.full_layers)} of {count(c.n_layers, 'layer')}" if in_layers else ""
    return f"a window of {count(c.sliding_window, 'token')}{sinks}{layers}"


def _thetas(c: ModelConfig) -> str:
    """Return "10,000", or "1,000,000 (10,000 in layers with a window)"."""
    same = c.rope_theta_windowed in (None, c.rope_theta)
    windowed = "" if same else f" ({c.rope_theta_windowed:,.10g} in layers with a window)"
    return f"{c.rope_theta:,.10g}{windowed}"


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


def split_characters(spans: Sequence[Span]) -> str:
    """Return a notice with ways out if most characters of the text are several tokens each; "" otherwise."""
    written = [span for span in spans if not span.text.isspace()]
    split = sum(span.stop - span.start > 1 for span in written)
    n_characters = sum(len(graphemes(span.text.strip())) for span in written)
    if 2 * split <= n_characters:
        return ""
    return (
        f"{split:,} of {count(n_characters, 'character')} {'is' if split == 1 else 'are'} several tokens each: this "
        "tokenizer has only their bytes. The Heads page can merge the rows and columns of a character; for "
        "characters that are one token, open a model whose tokenizer has them, or choose another text."
    )


def trained_on(trained: ModelConfig) -> str:
    """Return the model card's summary: number of parameters and training text."""
    millions = count_parameters(trained).total / 1e6
    return f"This checkpoint has {millions:.1f} M parameters and was {TRAINED_ON}."


@cache
def model_card() -> str:
    """Return the model card as Markdown, one heading level down and without its image, which the app does not serve."""
    return "#" + re.sub(r"!\[.*?\]\(.*?\)\n", "", CARD.read_text(encoding="utf-8"))
