"""Sentences shared by several pages."""

from __future__ import annotations

from typing import Any

from attnviz.compute.view import View
from attnviz.config import ModelConfig
from attnviz.phrases import count


def sharing(view: View) -> str:
    """Return a phrase on how many query heads read how many KV heads; for MLA on what it caches, in either form."""
    return view.config.mixer.summary()


def mla_grid_options(config: ModelConfig, n_rows: int = 1) -> dict[str, Any]:
    """Return `head_grid`'s kv_names and reads for MLA, which has no KV heads; {} for the other types of attention."""
    if config.mixer.shares_kv_heads:
        return {}
    own = "keys and values of its own, expanded from the latent, and the shared RoPE key"
    return {"kv_names": [f"K{h}, V{h}" for h in range(config.n_heads)], "reads": n_rows * [[own] * config.n_heads]}


def run_title(view: View) -> str:
    """Return the title of a picture of the whole run: the heads, the text's length, the weights."""
    return f"{sharing(view)}, {count(len(view.ids), 'token')}, {view.origin}"


def headline(view: View) -> str:
    """Return the sentence on the run for the top of a page."""
    return f"{run_title(view)}, traced in {view.trace.seconds * 1000:.0f} ms."


def split_text(view: View) -> str:
    """Return a phrase on the characters that are several tokens: "the 12 characters that are several tokens each"."""
    n = view.n_split
    return f"the {n} characters that are several tokens each" if n > 1 else "the character that is several tokens"


def soft_capped(view: View) -> str:
    """Return a sentence on the soft cap that this model applies to its scores."""
    cap = view.config.attention_softcap
    return f"This model caps its scores: {cap:g} · tanh(score / {cap:g}) (Gemma 2)."
