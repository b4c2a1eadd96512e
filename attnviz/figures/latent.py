"""MLA to scale: the numbers cached per token, and each head's key and value expanded from them.

H heads, R kv_lora_rank, N qk_nope_head_dim, P qk_rope_head_dim, V v_head_dim.
"""

from __future__ import annotations

from typing import cast

from attnviz.config import ModelConfig
from attnviz.cost.cached import cached_in_layer
from attnviz.equations import Equation, Steps, tex_lines
from attnviz.figures.chart import rows_height
from attnviz.figures.drawing import Drawing
from attnviz.figures.markup import meanings
from attnviz.figures.theme import FAINT, NEUTRAL, base_figure, kv_colour
from attnviz.mechanisms import Latent, letter
from attnviz.phrases import count

LATENT, KEY = 1.0, 0.55  # opacity of the two cached parts


def latent_sharing(config: ModelConfig, selected: int) -> dict:
    """Return the payload of the group diagram for MLA: each query head's keys and values come from one latent."""
    cached = f"a latent of {count(config.kv_lora_rank, 'number')} and a shared RoPE key of {config.qk_rope_head_dim}"
    reading = "Query head {} reads its own keys and values, expanded from the latent, and the shared RoPE key."
    R, P = (count(n, "number") for n in (config.kv_lora_rank, config.qk_rope_head_dim))
    return {
        "label": f"{count(config.n_heads, 'query head')} reading one latent and one RoPE key",
        "hint": "Each head has its own keys and values, expanded from the latent; all share one RoPE key.",
        "rows": {
            "queries": count(config.n_heads, "query head"),
            "kvs": f"Only these are cached, per token and layer: {cached}.",
            "reads": "",
            "index": "",
        },
        "queries": [
            {"name": f"Q{h}", "kv": 0, "also": [1], "wrong": False, "description": reading.format(h)}
            for h in range(config.n_heads)
        ],
        "kvs": [
            {
                "name": f"latent ({config.kv_lora_rank})",
                "colour": NEUTRAL,
                "description": f"The latent, {R}: cached. Each head expands its own keys and values from it.",
            },
            {
                "name": f"RoPE key ({config.qk_rope_head_dim})",
                "colour": NEUTRAL,
                "description": f"The RoPE key, {P}: cached beside the latent, rotated by position, read by all heads.",
            },
        ],
        "selected": selected,
    }


def shape(c: ModelConfig) -> str:
    """Return MLA's widths under their configuration names: "kv_lora_rank 96, qk_nope_head_dim 24, …"."""
    names = ("kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")
    return ", ".join(f"{name} {getattr(c, name)}" for name in names)


def latent(config: ModelConfig) -> Drawing:
    """Draw one token in one layer to scale: the cached numbers on top, each head's key and value below."""
    c = config
    figure = base_figure(height=110 + rows_height(c.n_heads, 24), showlegend=False, barmode="overlay")
    rows = ["cached", *(f"head {h}" for h in range(c.n_heads))]
    figure.add_trace(_bars("latent, cached", ["cached"], 0, c.kv_lora_rank, NEUTRAL, LATENT))
    figure.add_trace(_bars("shared RoPE key, cached", ["cached"], c.kv_lora_rank, c.qk_rope_head_dim, NEUTRAL, KEY))
    hues = [kv_colour(h, c.n_heads) for h in range(c.n_heads)]
    heads, start = rows[1:], 0
    for what, width, colour, opacity in (
        ("key, expanded from the latent", c.qk_nope_head_dim, hues, 0.9),
        ("RoPE key, shared by all heads", c.qk_rope_head_dim, NEUTRAL, KEY),
        ("value, expanded from the latent", c.v_head_dim, hues, 0.45),
    ):
        figure.add_trace(_bars(what, heads, start, width, colour, opacity))
        start += width
    cached, expanded = sizes(c)
    figure.update_yaxes(autorange="reversed", showgrid=False, ticktext=rows)
    figure.update_xaxes(title="numbers of one token in one layer", showgrid=False, zeroline=False)
    title = f"{cached.value:,} cached numbers become {expanded.value:,}: keys and values of {count(c.n_heads, 'head')}"
    return Drawing(
        figure,
        title=title,
        note=f"Per token and layer, to one scale. Top: the cache holds the latent ({c.kv_lora_rank}) and one shared "
        f"RoPE key ({c.qk_rope_head_dim}). Below: each head's key has {count(c.qk_nope_head_dim, 'number')} expanded "
        f"from the latent and the shared {c.qk_rope_head_dim}; its value has {c.v_head_dim} from the latent.",
        alt=f"{title}. The cache holds {cached.value / expanded.value:.1%} as many numbers as the heads read.",
        table={
            "what": ["latent", "shared RoPE key", "key from the latent, per head", "value from the latent, per head"],
            "numbers": [c.kv_lora_rank, c.qk_rope_head_dim, c.qk_nope_head_dim, c.v_head_dim],
            "cached": ["yes", "yes", "no", "no"],
        },
        formula=tex_lines(cached, expanded),
        legend=meanings(cached, expanded),
    )


def merged_beside(config: ModelConfig, merged: ModelConfig) -> str:
    """Say that MHA's heads are merged in place of MLA's, and into how many."""
    numbers = Equation(cached_in_layer(merged.mixer), steps=Steps.NUMBERS)
    return (
        "MLA merges no heads: each expands its own keys and values from the latent. Below, MHA's heads are merged "
        f"into {count(merged.n_kv_heads, 'KV head')}, whose cache is nearest in size to MLA's: "
        f"{numbers.text()} numbers per token and layer beside {cached_in_layer(config.mixer).value}."
    )


def absorbing(config: ModelConfig, n_tokens: int) -> Drawing:
    """Draw the FLOPs of one new token's attention in one layer, absorbed and expanded; n_tokens include the new one."""
    equations = absorbed_flops(config, n_tokens), expanded_flops(config, n_tokens)
    absorbed, expanded = (int(each.value) for each in equations)
    rows = ["absorbed", "expanded"]
    figure = base_figure(height=170, showlegend=False)
    figure.add_trace({
        "type": "bar", "orientation": "h", "y": rows, "x": [absorbed, expanded], "marker": {"color": NEUTRAL},
        "text": [f"{absorbed:,}", f"{expanded:,}"], "textposition": "auto", "hoverinfo": "skip",
    })  # fmt: skip
    figure.update_yaxes(autorange="reversed", showgrid=False)
    figure.update_xaxes(title="FLOPs of one new token in one layer", showgrid=False, rangemode="tozero")
    few, many = sorted((absorbed, expanded))
    order = "fewer" if absorbed <= expanded else "more"
    title = f"Absorbed: {many / few:.1f} times {order} FLOPs than expanding {count(n_tokens, 'latent')}"
    if f"{many / few:.1f}" == "1.0":
        title = f"Absorbed and expanded take about as many FLOPs at {count(n_tokens, 'token')}"
    return Drawing(
        figure,
        title=title,
        note="The cache holds latents. Expanded, a decode step computes the keys and values of all heads from each of "
        "them again; absorbed, W_UK is applied once to the new query and W_UV once to the weighted sum.",
        more="Counted are these products, the scores and the weighted sums, without the projections of the new token, "
        "which are the same in both forms.",
        alt=f"{title}. Two bars: absorbed {absorbed:,}, expanded {expanded:,}.",
        table={"form": rows, "FLOPs": [absorbed, expanded]},
        formula=tex_lines(*equations),
        legend=meanings(*equations),
    )


def absorbed_flops(c: ModelConfig, n_tokens: int) -> Equation:
    """Return the FLOPs of W_UK and W_UV for one token, and of scores and sums over the latents."""
    mixer, S = _latent(c), letter("S", n_tokens, "tokens, including the new one")
    return Equation(mixer.absorbed_products() + S * mixer.flops_per_pair(absorbed=True), unit="absorbed")


def expanded_flops(c: ModelConfig, n_tokens: int) -> Equation:
    """Return the FLOPs of expanding each latent, and of scores and sums over the heads' keys and values."""
    mixer, S = _latent(c), letter("S", n_tokens, "tokens, including the new one")
    return Equation(S * mixer.absorbed_products() + S * mixer.flops_per_pair(), unit="expanded")


def sizes(c: ModelConfig) -> tuple[Equation, Equation]:
    """Return the equations of the numbers cached per token and layer, and of those of its heads' keys and values."""
    mixer = _latent(c)
    return Equation(cached_in_layer(mixer), unit="cached"), Equation(mixer.expanded_numbers(), unit="expanded")


def _latent(c: ModelConfig) -> Latent:
    return cast(Latent, c.mixer)  # the figures of this file are those of its absorbed form


def _bars(what: str, rows: list[str], start: int, width: int, colour: str | list[str], opacity: float) -> dict:
    return {
        "type": "bar",
        "orientation": "h",
        "y": rows,
        "base": start,
        "x": [width] * len(rows),
        "width": 0.7,
        "marker": {"color": colour, "opacity": opacity, "line": {"width": 1, "color": FAINT}},
        "hovertemplate": f"%{{y}}: {what}, {count(width, 'number')}<extra></extra>",
    }
