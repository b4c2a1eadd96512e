"""MLA to scale: the few numbers that are cached of a token, and every head's key and value that come out of them.

H heads, R kv_lora_rank, N qk_nope_head_dim, P qk_rope_head_dim, V v_head_dim.
"""

from __future__ import annotations

from attnviz.config import ModelConfig
from attnviz.cost import cache_numbers
from attnviz.figures.drawing import Drawing
from attnviz.figures.phrases import count, tex
from attnviz.figures.theme import FAINT, NEUTRAL, base_figure, kv_colour

LATENT, KEY = 1.0, 0.55  # opacity: the latent is the darker of the two things that are cached


def latent_sharing(config: ModelConfig, selected: int) -> dict:
    """What the group diagram draws for MLA: every query head reads keys and values that come out of one latent."""
    cached = f"a latent of {config.kv_lora_rank} numbers and a rotated key of {config.qk_rope_head_dim}"
    says = "Query head {} reads keys and values of its own, expanded from the latent, and the one rotated key."
    return {
        "label": f"{count(config.n_heads, 'query head')} reading one latent",
        "hint": "Every head expands keys and values of its own out of the same latent.",
        "rows": {
            "queries": count(config.n_heads, "query head"),
            "kvs": f"For every token and layer {cached}: all that the cache keeps.",
            "index": "",
        },
        "queries": [{"name": f"Q{h}", "kv": 0, "wrong": False, "says": says.format(h)} for h in range(config.n_heads)],
        "kvs": [{"name": "latent", "colour": NEUTRAL, "says": f"The cache keeps {cached}, read by every head."}],
        "selected": selected,
    }


def latent(config: ModelConfig) -> Drawing:
    """One token in one layer: what is cached on top, below it each head's key and value, all to one scale."""
    c = config
    figure = base_figure(height=110 + 24 * c.n_heads, showlegend=False, barmode="overlay")
    rows = ["cached", *(f"head {h}" for h in range(c.n_heads))]
    figure.add_trace(_bars("latent, cached", ["cached"], 0, c.kv_lora_rank, NEUTRAL, LATENT))
    figure.add_trace(_bars("rotated key, cached", ["cached"], c.kv_lora_rank, c.qk_rope_head_dim, NEUTRAL, KEY))
    hues = [kv_colour(h, c.n_heads) for h in range(c.n_heads)]
    heads, start = rows[1:], 0
    for what, width, colour, opacity in (
        ("key, out of the latent", c.qk_nope_head_dim, hues, 0.9),
        ("key, rotated and shared by all heads", c.qk_rope_head_dim, NEUTRAL, KEY),
        ("value, out of the latent", c.v_head_dim, hues, 0.45),
    ):
        figure.add_trace(_bars(what, heads, start, width, colour, opacity))
        start += width
    expanded = c.n_heads * (c.qk_nope_head_dim + c.qk_rope_head_dim + c.v_head_dim)
    figure.update_yaxes(autorange="reversed", showgrid=False, ticktext=rows)
    figure.update_xaxes(title="numbers of one token in one layer", showgrid=False, zeroline=False)
    title = f"{cache_numbers(c)} cached numbers become {expanded:,}: {count(c.n_heads, 'head')} of keys and values"
    return Drawing(
        figure,
        title=title,
        note=f"Top: what the cache keeps of a token, the latent ({c.kv_lora_rank}) and one rotated key "
        f"({c.qk_rope_head_dim}). Below: each head's key, {c.qk_nope_head_dim} numbers from the latent and the shared "
        f"rotated {c.qk_rope_head_dim}, and its value, {c.v_head_dim} from the latent. To one scale.",
        alt=f"{title}. MLA remembers {cache_numbers(c) / expanded:.1%} of what its heads read.",
        table={
            "what": ["latent", "rotated key", "key from the latent, a head", "value from the latent, a head"],
            "numbers": [c.kv_lora_rank, c.qk_rope_head_dim, c.qk_nope_head_dim, c.v_head_dim],
            "cached": ["yes", "yes", "no", "no"],
        },
        formula=rf"R + P = {cache_numbers(c)}\quad\text{{for}}\quad H\,(N + P + V) = {tex(expanded)}",
    )


def _bars(what: str, rows: list[str], start: int, width: int, colour: str | list[str], opacity: float) -> dict:
    return {
        "type": "bar",
        "orientation": "h",
        "y": rows,
        "base": start,
        "x": [width] * len(rows),
        "width": 0.7,
        "marker": {"color": colour, "opacity": opacity, "line": {"width": 1, "color": FAINT}},
        "hovertemplate": f"%{{y}}: {what}, {width} numbers<extra></extra>",
    }
