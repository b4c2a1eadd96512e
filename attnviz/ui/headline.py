"""Sentences that pages share."""

from __future__ import annotations

from attnviz.compute.view import View
from attnviz.figures.drawing import quoted as quoted

KINDS = {"mha": "MHA", "gqa": "GQA", "mqa": "MQA", "mla": "MLA"}


def sharing(view: View) -> str:
    """Which query heads read which KV heads, in words with the numbers."""
    c = view.config
    if c.attention == "mla":
        return f"MLA: {c.n_heads} heads, their keys and values expanded from {c.kv_lora_rank} numbers a token"
    heads = f"{c.n_kv_heads} KV head{'s' * (c.n_kv_heads > 1)}"
    return f"{KINDS[c.attention]}: {c.n_heads} query head{'s' * (c.n_heads > 1)} read {heads}"


def headline(view: View) -> str:
    """One sentence for the top of a page that traced the text."""
    trace = view.trace
    return (
        f"{sharing(view)}, {len(view.ids)} token{'s' * (len(view.ids) > 1)}, {view.origin}, "
        f"traced in {trace.seconds * 1000:.0f} ms."
    )
