"""The HTML document of a run: the app's components and their host in one script, the weights compressed beside it."""

from __future__ import annotations

import base64
import html
import json
import re
import zlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from attnviz.assets import bundled, markup_of, style_of
from attnviz.figures import theme
from attnviz.notebook.codes import codes_of, exponent_of, planes
from attnviz.phrases import count
from attnviz.runs.arrays import RunError
from attnviz.runs.kinds import AttentionKind
from attnviz.runs.run import AttentionRun

HERE = Path(__file__).parent
COMPONENTS = ("head_grid", "head_view", "text_view", "line_view")
MAX_WEIGHTS = 64_000_000  # of all kinds: 128 MB as codes
MOST_HEADS = 1_200  # that the grid shows at once
MOST_LINE_TOKENS = 256  # per side of the line view
LEVEL = 6  # of compression
MARKS = str.maketrans({"Ġ": "·", "▁": "·", "Ċ": "⏎"})  # of tokenizers, at the start of a token, and as they are shown
LEADING = re.compile("^[Ġ▁Ċ]+")
HUES = len(theme.HUES)


def refuse_large(run: AttentionRun) -> None:
    """Raise RunError if a page with all these weights would be too large for a browser."""
    n = sum(layer.size for kind in run.kinds for layer in kind.layers)
    if n > MAX_WEIGHTS:
        raise RunError(f"{n:,} weights are more than one page can hold, {MAX_WEIGHTS:,}: show some of the layers, such "
                       "as attention[:4], or save all by attnviz.save_run and open them in the app")  # fmt: skip


def document(run: AttentionRun) -> str:
    """Return the page of a run."""
    parts = [_packed(kind) for kind in run.kinds]
    body = zlib.compress(b"".join(part for _, part in parts), LEVEL)
    header = {
        "title": run.title,
        "notes": run.sentences,
        "kinds": [_described(kind, run) | added for kind, (added, _) in zip(run.kinds, parts, strict=True)],
        "ramps": theme.ramps(range(HUES), HUES),
        "marks": theme.kv_palette(HUES),
        "masked": theme.MASKED_RGBA,
        "neutral": theme.NEUTRAL,
        "mostHeads": MOST_HEADS,
        "mostLineTokens": MOST_LINE_TOKENS,
    }
    return _page().substitute(
        title=html.escape(run.title or "Attention weights"),
        templates="".join(map(_template, COMPONENTS)),
        header=_in_html(header),
        weights=base64.b64encode(body).decode(),
    )


@cache
def _page() -> Template:
    """Return the page with its style and script; the fields title, templates, header and weights are to be filled."""
    script = bundled("notebook/host.js", {"server/page.js": "notebook/page.js"})
    if re.search(r"</script|<!--", script, re.IGNORECASE):
        raise ValueError("the script would end the element that it is in")
    style = (HERE / "page.css").read_text(encoding="utf-8") + (
        f":root {{ --neutral: {theme.NEUTRAL}; --faint: {theme.FAINT}; }}\n"
    )
    text = (HERE / "page.html").read_text(encoding="utf-8")
    fixed = {"style": style, "script": script}
    return Template(Template(text).safe_substitute({name: each.replace("$", "$$") for name, each in fixed.items()}))


@cache
def _template(component: str) -> str:
    return f'<template id="{component}"><style>{style_of(component)}</style>{markup_of(component)}</template>\n'


def _in_html(value: Any) -> str:
    """Return JSON in which nothing ends the script element that it is in; lone surrogates stay escaped."""
    return json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")


def _packed(kind: AttentionKind) -> tuple[dict[str, Any], bytes]:
    """Return what is needed to read a kind's weights, and their codes, layer after layer."""
    largest = max(float(layer.max()) for layer in kind.layers)
    top = exponent_of(largest)
    codes = np.concatenate([codes_of(layer, top).reshape(-1) for layer in kind.layers])
    return {"top": top, "unit": max(1.0, float(f"{largest:.3g}")), "size": codes.size}, planes(codes)


def _described(kind: AttentionKind, run: AttentionRun) -> dict[str, Any]:
    tokens, keys = ([shown(token) for token in each] for each in (kind.tokens, kind.key_tokens))
    rows = list(run.names) if run.names else [f"Layer {i}" for i in range(kind.n_layers)]
    return {
        "name": kind.name,
        "title": kind.title,
        "tokens": tokens,
        "keys": keys,
        "marks": marks_in([*tokens, *keys]),
        "first": kind.first_row,
        "cross": kind.cross,
        "causal": kind.causal,
        "sumsToOne": not kind.sums_note,
        "heads": kind.n_heads,
        "kv": kind.n_kv_heads,
        "rows": rows,
        "about": about(kind),
    }


def about(kind: AttentionKind) -> str:
    """Return a sentence on the sizes of a kind of attention, and on what its colours mean."""
    heads, queries, keys = sorted(set(kind.n_heads)), len(kind.tokens), len(kind.key_tokens)
    n_heads = count(heads[0], "head") if len(heads) == 1 else f"{heads[0]} to {heads[-1]} heads"
    tokens = (
        f"{count(queries, 'query token')} and {count(keys, 'key token')}" if queries != keys else count(keys, "token")
    )
    known = None not in kind.n_kv_heads
    hue = "Heads of one hue read the same KV head" if known else "A hue per head: the number of KV heads was not given"
    title = kind.title[0].upper() + kind.title[1:]
    return f"{title}: {count(kind.n_layers, 'layer')} × {n_heads}, {tokens}. {hue}."


def shown(token: str) -> str:
    """Return a token with the marks of its tokenizer as the app shows them: "·the" for "Ġthe" and for "▁the"."""
    return LEADING.sub(lambda marks: marks[0].translate(MARKS), token)


def marks_in(labels: Sequence[str]) -> str:
    """Explain the marks that occur in labels; "" if there are none."""
    said = [
        text for mark, text in (("·", "“·” is a space"), ("⏎", "“⏎” ends a line")) if any(mark in x for x in labels)
    ]
    return f"{', '.join(said)}." if said else ""
