"""Figures of what fewer KV heads cost: similarity of heads, loss by conversion, held-out quality, divergence.

H heads, K KV heads, T tokens, N = T - 1 predicted tokens.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attnviz.analysis.groups import Difference, paired_difference
from attnviz.equations import Equation, Value
from attnviz.figures.chart import Chart
from attnviz.figures.drawing import Drawing
from attnviz.figures.markup import bold, meanings
from attnviz.figures.theme import BROWN, DIVERGING, FAINT, NEUTRAL, ON_STRONG, PETROL, TEXT, base_figure, kind_style
from attnviz.figures.token_maps import MAX_X_TICKS, few_ticks
from attnviz.phrases import count

Groups = Sequence[Sequence[int]]
SPREAD = "Error bars: one standard error of the difference; a difference within two does not tell the models apart."
INDEPENDENT = "The standard error is over the tokens, treated as independent."
STRONG_CELL = 0.87  # absolute cosine from which black is read better than the page's text, in one theme or the other
# anchored to the plot, plotly can draw a legend too low
ABOVE = {"orientation": "h", "yref": "container", "y": 1, "yanchor": "top"}
NEAR = 1.4  # ratio of neighbouring ticks on a logarithmic axis below which labels overlap on a narrow screen
# tokens that GQA and MQA were trained on, and the first of them as MHA: attnviz/checkpoints/README.md
N_TRAINED_ON, N_AS_MHA = 24_371_200, 15_667_200
TRAINED = "uptrained"
UPTRAINED = (
    "*Uptrained*: checkpoints whose KV heads were averaged from MHA's before the last "
    f"{1 - N_AS_MHA / N_TRAINED_ON:.0%} of the training tokens"
)
AVERAGED = "averaged"
FIRST, BEST = "first head of each group", "averaged, best grouping"
WAYS = {  # way to get fewer KV heads -> dash, symbol, colour; dash and symbol tell them apart without colour
    TRAINED: ("solid", "circle", PETROL),
    AVERAGED: ("dash", "square", BROWN),
    FIRST: ("dot", "triangle-up", BROWN),
    BEST: ("dashdot", "diamond-open", BROWN),
}


@dataclass(frozen=True, eq=False)
class Member:
    """One model of the family: its cache, its quality on held-out text, and its losses on the text at hand."""

    name: str
    kind: str
    bytes_per_token: int
    held_out: float | None  # bits per character on text not seen in training; None if not measured
    losses: NDArray  # (N,) nats per predicted token of this text


def similarity(
    cosine: NDArray, groups: Groups, best: Groups, lost: tuple[float, float], total: float, part: str, layer: int
) -> Drawing:
    """Draw cosines (H, H) between the heads' `part` ("keys" or "values"): groups outlined, best grouping dotted.

    lost: share of the squared length that averaging loses with `groups` and with `best`. total: that squared length.
    """
    n_heads, figure = len(cosine), cosine_figure(cosine, "head")
    for group in groups:
        first, last = group[0] - 0.5, group[-1] + 0.5
        figure.add_shape(type="rect", x0=first, x1=last, y0=first, y1=last, line={"width": 3, "color": NEUTRAL})
    pairs = [(a, b) for group in best for a in group for b in group if a != b]
    dots = {"symbol": "circle", "size": 5, "color": NEUTRAL}
    at = {"x": [b for _, b in pairs], "y": [a + 0.33 for a, _ in pairs]}
    figure.add_scatter(**at, mode="markers", hoverinfo="skip", marker=dots)
    title, best_text = _similarity_finding(groups, best, lost, part)
    return Drawing(
        figure,
        title=title,
        note=f"Cosine similarity of the {part} of MHA's heads in layer {layer}, on this text. Outlined: the "
        "neighbouring heads that grouping merges. Dots: the grouping that loses the smallest share of the squared "
        "length.",
        more=f"Each head's {part} on this text are taken as one vector. RoPE rotates all heads by the same angles, so "
        "pre-RoPE keys have these cosines too. The cosines depend on the basis of each head, which is arbitrary "
        "(values: any basis, undone by W_o; keys: any rotation of a RoPE pair, undone by W_q), so a low one does not "
        "show different content.",
        alt=f"{title}. {best_text}",
        table={
            "head": [a for a in range(n_heads) for _ in range(n_heads)],
            "other head": [b for _ in range(n_heads) for b in range(n_heads)],
            "cosine": [float(x) for x in cosine.ravel()],
        },
        formula=lost_share_equation(lost[0], total).tex() if total else "",
        legend=meanings(lost_share_equation(lost[0], total)) if total else "",
    )


def cosine_figure(cosine: NDArray, what: str) -> Chart:
    """Return a map of cosines (n, n) between heads, with its numbers where these fit. what: "head" or "KV head"."""
    n, figure = len(cosine), base_figure(height=520, showlegend=False)
    figure.add_heatmap(
        z=cosine.astype(np.float32), zmin=-1, zmax=1, colorscale=DIVERGING, xgap=1, ygap=1,
        colorbar={  # below: beside the map it would take a phone's width
            "title": {"text": "cosine", "side": "top"}, "thickness": 12, "tickvals": [-1, -0.5, 0, 0.5, 1],
            "orientation": "h", "y": -0.15, "yanchor": "top", "lenmode": "pixels", "len": 280,
        },
        hovertemplate=f"{what}s %{{y}} and %{{x}}: cosine %{{z:.3f}}<extra></extra>",
    )  # fmt: skip
    if n <= 8:  # with more heads the numbers do not fit into the cells
        for strong, colour in ((False, TEXT), (True, ON_STRONG)):
            figure.add_trace(_cell_numbers(cosine, (abs(cosine) >= STRONG_CELL) == strong, colour))
    axis = {"title": what, "tickvals": list(range(n)), "showgrid": False, "zeroline": False}
    figure.update_xaxes(**axis, constrain="domain", range=[-0.5, n - 0.5])
    figure.update_yaxes(**axis, constrain="domain", range=[n - 0.5, -0.5], scaleanchor="x")
    return figure


def lost_share_equation(lost: float, total: float) -> Equation:
    """Return the share of the heads' squared length that is lost when each head is replaced by its group's mean."""
    digits = max(2, 3 - math.floor(math.log10(total)))  # never 0: a whole number would be read as exact
    residue = Value(
        lost * total, "Σ‖x − x̄‖²", "squared distance of the heads from their group's mean", digits,
        latex=r"\textstyle\sum_h \lVert x_h - \bar x_{g(h)}\rVert^2",
    )  # fmt: skip
    norm = r"\textstyle\sum_h \lVert x_h\rVert^2"
    length = Value(total, "Σ‖x‖²", "squared length of the heads", digits, latex=norm)
    return Equation(residue / length, digits=3)


def losses(ways: Mapping[str, Mapping[int, NDArray]], n_kv_heads: int, text: str, latent: bool = False) -> Drawing:
    """Draw the loss minus MHA's, in nats per token, for each way to get fewer KV heads: way -> {K: losses (N,)}.

    n_kv_heads: the selected K. text: name of the text that the tokens belong to. latent: whether MLA is selected.
    """
    counts = sorted({k for by_count in ways.values() for k in by_count}, reverse=True)
    mha = ways[AVERAGED][counts[0]]
    changes = {way: {k: paired_difference(x, mha) for k, x in by.items()} for way, by in ways.items()}
    figure = base_figure(height=330, hovermode="x unified", legend=ABOVE)
    for way, by_count in changes.items():
        dash, symbol, colour = WAYS[way]
        figure.add_scatter(
            x=[counts.index(k) for k in by_count], y=[d.mean for d in by_count.values()], name=way,
            mode="lines+markers", line={"dash": dash, "color": colour}, marker={"symbol": symbol, "size": 9},
            error_y=_error_bars(by_count.values()), hovertemplate="%{y:+.3f} nats",
        )  # fmt: skip
    here = counts.index(n_kv_heads)
    if not latent:
        figure.add_vrect(x0=here - 0.2, x1=here + 0.2, fillcolor=FAINT, line={"width": 0}, layer="below")
    figure.update_xaxes(tickvals=list(range(len(counts))), ticktext=list(map(str, counts)), title="KV heads")
    figure.update_yaxes(title="loss minus MHA's, nats per token")
    title = _losses_finding(changes[AVERAGED], n_kv_heads)
    uptrained = f" {UPTRAINED}; {count(counts[0], 'KV head')}: MHA itself." if TRAINED in ways else ""
    return Drawing(
        figure,
        title=title,
        note=f"{count(len(mha), 'predicted token')} of {text}, on which MHA's loss is {mha.mean():.2f} nats per token. "
        + (
            "MLA has no KV heads and is not on these lines. "
            if latent
            else f"Grey: the selected {count(n_kv_heads, 'KV head')}. "
        )
        + SPREAD,
        more=f"{INDEPENDENT}{uptrained} *Averaged* and *first head of each group* convert the MHA checkpoint without "
        "further training (arXiv 2305.13245, which then uptrains on about 5% of the tokens); *best grouping* averages "
        "the groups that lose least, neighbours or not.",
        alt=f"{title}. " + " ".join(f"{way}: {_series(by_count)}." for way, by_count in changes.items()),
        table=_losses_table(counts, ways, changes),
    )


def _losses_table(counts: Sequence[int], ways: Mapping, found: Mapping[str, Mapping[int, Difference]]) -> dict:
    table: dict[str, list] = {"KV heads": list(counts)}
    for way, by in found.items():
        table[f"{way}, nats per token"] = [float(ways[way][k].mean()) if k in by else None for k in counts]
        table[f"{way}, minus MHA"] = [by[k].mean if k in by else None for k in counts]
        table[f"{way}, standard error"] = [_known(by[k].error) if k in by else None for k in counts]
    return table


def _label_places(members: Sequence[Member]) -> list[str]:
    """Return above or below its point for each label: below beside a model whose cache is up to a third larger."""
    sizes = [m.bytes_per_token for m in members]
    return ["bottom center" if any(1 < other / own < 4 / 3 for other in sizes) else "top center" for own in sizes]


def quality(members: Sequence[Member], selected: str, n_characters: int) -> Drawing:
    """Draw the checkpoints on held-out text: bits per character over the cache bytes per token.

    n_characters: length of the held-out text.
    """
    figure = base_figure(height=340, showlegend=False)
    figure.add_scatter(
        x=[m.bytes_per_token for m in members], y=[m.held_out for m in members], mode="markers+text",
        text=[bold(m.name, m.name == selected) for m in members], cliponaxis=False,
        textposition=_label_places(members),
        marker=_markers(members, selected),
        hovertemplate="%{text}: %{x:,} B per token, %{y:.3f} bits per character<extra></extra>",
    )  # fmt: skip
    sizes = sorted({m.bytes_per_token for m in members})
    margins = [math.log10(min(sizes)) - 0.12, math.log10(max(sizes)) + 0.12]
    ticks = {"tickvals": sizes, "ticktext": _in_two_lines(sizes), "tickangle": 0}
    figure.update_xaxes(title="KV cache, bytes per token (log)", type="log", range=margins, **ticks)
    figure.update_yaxes(title="bits per character, held-out text")
    title = _quality_finding(members)
    return Drawing(
        figure,
        title=title,
        note=f"The shipped checkpoints on {n_characters:,} characters not seen in training, run as they were trained "
        "(causal, no window). Lower and further left is better. There was one training run each, so the variation "
        "between runs is not known.",
        alt=title + ".",
        table={
            "model": [m.name for m in members],
            "cache bytes per token": [m.bytes_per_token for m in members],
            "bits per character, held-out text": [m.held_out for m in members],
        },
    )


def this_text(members: Sequence[Member], selected: str, n_characters: float, text: str) -> Drawing:
    """Draw the checkpoints on one text: bits per character minus MHA's, with the standard error of the difference.

    members: MHA first. n_characters: characters of the predicted tokens. text: name of the text that they belong to.
    """
    mha = members[0]
    to_bits = len(mha.losses) / math.log(2) / n_characters  # from nats per token to bits per character
    changes = [_in_bits(paired_difference(m.losses, mha.losses), to_bits) for m in members]
    bits = [bits_per_character(m.losses, n_characters) for m in members]
    figure = base_figure(height=300, showlegend=False)
    figure.add_scatter(
        x=list(range(len(members))), y=[d.mean for d in changes], mode="markers", marker=_markers(members, selected),
        error_y=_error_bars(changes), text=[m.name for m in members],
        hovertemplate="%{text}: %{y:+.3f} bits per character<extra></extra>",
    )  # fmt: skip
    figure.update_xaxes(
        tickvals=list(range(len(members))), ticktext=[bold(m.name, m.name == selected) for m in members]
    )
    figure.update_yaxes(title="minus MHA's, bits per character")
    here = [m.name for m in members].index(selected)
    title = _this_text_finding(selected, changes[here])
    if members[here] is mha:
        title = f"MHA: {bits[here].value:.3f} bits per character on {text}"
    return Drawing(
        figure,
        title=title,
        note=f"The shipped checkpoints on {count(len(mha.losses), 'predicted token')} of {text}. {SPREAD}",
        more=INDEPENDENT,
        alt=f"{title}. " + "; ".join(f"{m.name} {signed(d)}" for m, d in zip(members, changes, strict=True)) + ".",
        table={
            "model": [m.name for m in members],
            "bits per character": [each.value for each in bits],
            "minus MHA": [d.mean for d in changes],
            "standard error": [_known(d.error) for d in changes],
            "predicted tokens": [d.n for d in changes],
        },
        formula=bits[here].tex(),
        legend=meanings(bits[here]),
    )


def bits_per_character(losses: NDArray, n_characters: float) -> Equation:
    """Return the loss of the predicted tokens per character of theirs; the first token is not predicted."""
    nats = Value(float(losses.mean()), "ℓ", "loss, nats per token", digits=4, latex=r"\ell")
    characters = Value(n_characters, "c", "characters of the predicted tokens")
    return Equation(
        nats * Value(len(losses), "n", "predicted tokens") / (characters * Value(math.log(2), "ln 2", latex=r"\ln 2")),
        digits=3,
    )


def drift(divergences: Mapping[str, NDArray], labels: Sequence[str], n_kv_heads: int) -> Drawing:
    """Draw the divergence of the next-token distribution from MHA's at each token, in nats: way -> (T,)."""
    figure = base_figure(height=300, hovermode="x unified", legend=ABOVE)
    positions = list(range(len(labels)))
    for way, values in divergences.items():
        dash, _, colour = WAYS[way]
        figure.add_scatter(
            x=positions, y=values.astype(np.float32), name=way, mode="lines",
            line={"dash": dash, "color": colour, "width": 1.5},
            hovertemplate="%{y:.3f} nats",
        )  # fmt: skip
    span = [-0.5, len(labels) - 0.5]
    figure.update_xaxes(**few_ticks(labels, MAX_X_TICKS), tickangle=-90, range=span, showgrid=False, zeroline=False)
    figure.update_yaxes(title="KL from MHA, nats", rangemode="tozero")
    means = {way: float(values.mean()) for way, values in divergences.items()}
    worst = max(means, key=means.__getitem__)
    at = int(divergences[worst].argmax())
    title = f"{count(n_kv_heads, 'KV head')}: “{worst}” is farthest from MHA, KL {means[worst]:.2f} nats"
    return Drawing(
        figure,
        title=title,
        note="Divergence of the next-token distribution from the MHA checkpoint's after each token, KL(MHA ‖ other); "
        f"0 where both are the same. The title gives the mean over {count(len(labels), 'token')}.",
        more=f"{UPTRAINED}." if TRAINED in divergences else "",
        alt=f"{title} on average, most after token {at}, “{labels[at]}”. "
        + " ".join(f"{way}: mean {mean:.3f} nats." for way, mean in means.items()),
        table={"position": positions, "token": list(labels), **{way: v.tolist() for way, v in divergences.items()}},
    )


def signed(d: Difference) -> str:
    """Format a difference: "+0.39 ± 0.11"; without the error if it is not known."""
    spread = "" if math.isnan(d.error) else f" ± {d.error:.2f}"
    return f"{d.mean:+z.2f}".replace("-", "−") + spread


def _cell_numbers(values: NDArray, where: NDArray, colour: str) -> dict:
    """Return a text trace with the numbers of these cells of a square map."""
    rows, columns = np.nonzero(where)
    text = [f"{value:z.2f}".replace("-", "−") for value in values[where]]
    return {
        "type": "scatter", "mode": "text", "x": columns, "y": rows, "text": text,
        "textfont": {"size": 14, "color": colour}, "hoverinfo": "skip",
    }  # fmt: skip


def _markers(members: Sequence[Member], selected: str) -> dict:
    return {
        "size": [15 if m.name == selected else 10 for m in members], "opacity": 1,  # plotly's default here is 0.7
        "symbol": [kind_style(m.kind)["symbol"] for m in members],
        "color": [kind_style(m.kind)["colour"] for m in members], "line": {"width": 2},
    }  # fmt: skip


def _similarity_finding(groups: Groups, best: Groups, lost: tuple[float, float], part: str) -> tuple[str, str]:
    """Return the title, and a sentence on the heads that the dots mark."""
    if len(groups[0]) == 1:
        return f"{count(len(groups), 'KV head')} in MHA: nothing is averaged", "No heads are merged."
    title = (
        f"Averaging neighbours loses {lost[0]:.0%} of the squared length of the {part}, the best grouping {lost[1]:.0%}"
    )
    merged = ", ".join("+".join(map(str, group)) for group in best)
    return title, f"Best grouping: {merged}, which loses {100 * lost[1]:.2f}%."


def _losses_finding(averaged: Mapping[int, Difference], n_kv_heads: int) -> str:
    shown = min(averaged) if n_kv_heads == max(averaged) else n_kv_heads
    return f"Averaging into {count(shown, 'KV head')}: loss {signed(averaged[shown])} nats per token"


def _this_text_finding(selected: str, d: Difference) -> str:
    clear = abs(d.mean) > 2 * d.error  # false if the error is NaN
    return f"{selected} {'minus MHA' if clear else 'vs MHA, no clear difference'}: {signed(d)} bits per character"


def _in_bits(d: Difference, factor: float) -> Difference:
    return Difference(d.mean * factor, d.error * factor, d.n)


def _error_bars(found: Iterable[Difference]) -> dict:
    return {"type": "data", "array": [_known(d.error) for d in found], "thickness": 1.5, "color": NEUTRAL}


def _known(error: float) -> float | None:
    return None if math.isnan(error) else error


def _in_two_lines(sizes: Sequence[int]) -> list[str]:
    """Return rising numbers as labels of a logarithmic axis; one too close to the previous goes a line below."""
    labels: list[str] = []
    for before, size in zip((0, *sizes), sizes, strict=False):
        below = size < NEAR * before and not labels[-1].startswith("<br>")
        labels.append(f"{'<br>' * below}{size:,}")
    return labels


def _quality_finding(members: Sequence[Member]) -> str:
    measured = [(m, m.held_out) for m in members if m.held_out is not None]
    if len(measured) < 2:
        return f"{count(len(members), 'checkpoint')}, held-out quality unknown"
    (most, more), (least, less) = (pick(measured, key=lambda m: m[0].bytes_per_token) for pick in (max, min))
    share = f"{least.bytes_per_token / most.bytes_per_token:.1%}"
    change = f"{less - more:+.3f}".replace("-", "−")
    return f"{least.name}: {share} of {most.name}'s cache, {change} bits per character on held-out text"


def _series(by_count: Mapping[int, Difference]) -> str:
    return ", ".join(f"{signed(d)} with {k}" for k, d in by_count.items())
