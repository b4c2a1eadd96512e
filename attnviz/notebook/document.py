"""The HTML document of a run: the app's components and their host in one script, the weights compressed beside it."""

from __future__ import annotations

import base64
import html
import json
import math
import re
import zlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from attnviz.assets import bundled, markup_of, style_of
from attnviz.characters import PART, marks
from attnviz.figures import theme
from attnviz.notebook.codes import codes_of, exponent_of, planes
from attnviz.phrases import count
from attnviz.runs.arrays import RunError
from attnviz.runs.kinds import AttentionKind
from attnviz.runs.labels import are_spaced, label_of
from attnviz.runs.run import AttentionRun

HERE = Path(__file__).parent
COMPONENTS = ("head_grid", "head_view", "patch_view", "text_view", "line_view")
MAX_WEIGHTS = 64_000_000  # of all kinds: 128 MB as codes
MOST_HEADS = 1_200  # that the grid shows at once
MOST_LINE_TOKENS = 256  # per side of the line view
LEVEL = 6  # of compression
MAX_PIXELS = 1_000_000  # of a picture
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
    picture = _picture(run)
    body = zlib.compress(
        b"".join([*(part for _, part in parts), *([picture.tobytes()] if picture is not None else [])]), LEVEL
    )
    header = {
        "title": run.title,
        "notes": run.sentences,
        "kinds": [_described(kind, run) | added for kind, (added, _) in zip(run.kinds, parts, strict=True)],
        "picture": None if picture is None else _cut(picture, run),
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


def _picture(run: AttentionRun) -> np.ndarray | None:
    """Return the picture (height, width, 3) in at most MAX_PIXELS, if its patches are known."""
    if run.picture is None or run.patches is None:
        return None
    step = math.ceil(math.sqrt(run.picture.shape[0] * run.picture.shape[1] / MAX_PIXELS))
    return run.picture[::step, ::step]


def _cut(picture: np.ndarray, run: AttentionRun) -> dict[str, Any]:
    return {"height": len(picture), "width": picture.shape[1], "patches": run.patches, "before": run.n_before}


def _has_patches(kind: AttentionKind, run: AttentionRun) -> bool:
    return (
        run.picture is not None
        and run.patches is not None
        and len(kind.key_tokens) == (run.n_before + run.patches[0] * run.patches[1])
    )


def _described(kind: AttentionKind, run: AttentionRun) -> dict[str, Any]:
    tokens, keys = ([label_of(token) for token in each] for each in (kind.tokens, kind.key_tokens))
    positions, key_positions = run.positions(kind)
    rows = list(run.names) if run.names else [f"Layer {i}" for i in range(kind.n_layers)]
    return {
        "name": kind.name,
        "title": kind.title,
        "tokens": tokens,
        "keys": keys,
        "positions": positions,
        "keyPositions": key_positions,
        "characters": _characters(keys),
        "spaced": are_spaced(keys),
        "queriesSpaced": are_spaced(tokens),
        "marks": marks([*tokens, *keys]),
        "first": kind.first_row,
        "cross": kind.cross,
        "patches": _has_patches(kind, run),
        "causal": kind.causal and len(keys) > kind.first_row + 1,  # there are later keys
        "sumsToOne": not kind.sums_note,
        "heads": kind.n_heads,
        "kv": kind.named_kv_heads,
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
    hue = "Heads of one hue read the same KV head"
    if None in kind.n_kv_heads:
        hue = "A hue per head: the number of KV heads was not given"
    elif None in kind.named_kv_heads:
        hue = "A hue per head: each has keys and values of its own"
    title = kind.title[0].upper() + kind.title[1:]
    return f"{title}: {count(kind.n_layers, 'layer')} × {n_heads}, {tokens}. {hue}."


def _characters(labels: Sequence[str]) -> list[list[Any]]:
    """Return [first, after the last, character] of the tokens that together are one: "床 1/3", "床 2/3", "床 3/3"."""
    found = []
    for i, label in enumerate(labels):
        part = PART.fullmatch(label)
        if part and part["number"] == "1":
            stop = i + int(part["part"].partition("/")[2])
            expected = [f"{part['character']} {n + 1}/{stop - i}" for n in range(stop - i)]
            found += [[i, stop, part["character"]]] if list(labels[i:stop]) == expected else []
    return found
