"""RoPE before any query or key: how fast each pair turns, what a scaling does to it, and what that does to the loss."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from attnviz.analysis.rope import binned, full_turns
from attnviz.analysis.rope import wavelengths as wavelengths_of
from attnviz.figures.chart import Chart, numbered
from attnviz.figures.drawing import Drawing
from attnviz.figures.phrases import count, tex
from attnviz.figures.theme import DIVERGING, FAINT, NEUTRAL, base_figure

BROWN, PETROL = DIVERGING[0][1], DIVERGING[-1][1]
METHODS = {  # dash, symbol, colour; told apart by the first two without the third
    "none": ("solid", "circle", NEUTRAL),
    "linear": ("dash", "square", BROWN),
    "NTK-aware": ("dot", "triangle-up", BROWN),
    "dynamic NTK": ("dashdot", "triangle-down", BROWN),
    "YaRN": ("solid", "diamond", PETROL),
    "Llama 3": ("dash", "cross", PETROL),
    "pasted": ("dot", "x", NEUTRAL),
}
LEGEND = {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0}
LEAST_POSITIONS = 64  # so that a short text still shows the pattern
BIN = 32  # tokens whose losses are averaged
NARROW, CHARACTER = 260, 6.0  # pixels between the axes in a narrow window, and of a digit


def three_digits(n: float) -> str:
    """Three digits, or all that stand before the point."""
    return f"{n:,.0f}" if n >= 100 else f"{n:.3g}"


def wavelengths(frequencies: NDArray, n_tokens: int, context: int | None, theta: float) -> Drawing:
    """A bar for each pair: in how many tokens it turns once, with this text and the training context marked."""
    lengths, n = wavelengths_of(frequencies), len(frequencies)
    inside, named = lengths <= n_tokens, n <= 16
    numbers = [f" {three_digits(length)}" for length in lengths]
    margin = {"l": 8, "r": 8, "t": 44, "b": 8}
    figure = base_figure(130 + max(9, min(24, 420 // n)) * n, showlegend=False, bargap=0.25, margin=margin)
    figure.add_bar(
        orientation="h", x=lengths, y=np.arange(n), text=numbers,
        textposition="outside" if named else "none", cliponaxis=False,
        marker={"color": NEUTRAL, "opacity": np.where(inside, 1.0, 0.4)},
        hovertemplate="pair %{y}: one turn in %{text} tokens<extra></extra>",
    )  # fmt: skip
    largest = max(lengths[-1], context or 1, n_tokens)
    decades = np.log10(largest) + 0.7
    ends = lengths * 10 ** (decades * CHARACTER / NARROW * np.char.str_len(numbers)) if named else lengths
    marks = {"this text": n_tokens} | ({"longest in training": context} if context else {})
    for level, (what, tokens) in enumerate(marks.items()):
        _add_line_between(figure, tokens, np.flatnonzero((lengths < tokens) & (tokens < ends)), n)
        figure.add_annotation(
            x=np.log10(tokens), y=1, yref="paper", yshift=18 * level, yanchor="bottom", showarrow=False,
            xanchor="left" if tokens**2 < largest else "right", text=f"{what}: {count(tokens, 'token')}",
        )  # fmt: skip
    figure.update_xaxes(type="log", dtick=1, range=[0, decades], title="tokens in one turn")
    rows = {"range": [n - 0.5, -0.5], "dtick": 1 if n <= 32 else 8}
    figure.update_yaxes(**rows, title="pair", showgrid=False, zeroline=False)
    fastest, slowest = three_digits(lengths[0]), three_digits(lengths[-1])
    title = f"{full_turns(frequencies, n_tokens)} of {count(n, 'pair')} turn fully inside this text"
    slow = int((lengths > context).sum()) if context else 0
    if slow:
        title += f", {slow} not even inside the {context:,} tokens of training"
    return Drawing(
        figure,
        title=title,
        note=f"One bar a pair of dimensions: the tokens in which it turns once, on a log axis. Dark: at least one turn "
        f"inside this text of {count(n_tokens, 'token')}. Slow pairs hardly move, and tell far from near.",
        alt=f"{title}. The fastest turns once in {fastest} tokens, the slowest in {slowest}.",
        table={
            "pair": list(range(n)),
            "radians a token": frequencies.tolist(),
            "degrees a token": np.degrees(frequencies).tolist(),
            "tokens in one turn": lengths.tolist(),
            "turns inside this text": (n_tokens / lengths).tolist(),
        },
        formula=rf"\theta_i = {tex(round(theta))}^{{-2i/{2 * n}}},\qquad \lambda_i = 2\pi/\theta_i",
    )


def _add_line_between(figure: Chart, x: float, left_out: NDArray, n: int) -> None:
    """A dashed upright line over n rows, open at those where it would run through a number."""
    edges = [-0.5, *np.add.outer(left_out, (-0.5, 0.5)).ravel(), n - 0.5]
    for top, bottom in zip(edges[::2], edges[1::2], strict=True):
        if top < bottom:
            line = {"dash": "dash", "color": NEUTRAL}
            figure.add_shape(type="line", x0=x, x1=x, y0=top, y1=bottom, line=line, layer="below")


def rotation_maps(frequencies: NDArray, n_tokens: int) -> Drawing:
    """cos and sin of position × frequency, position by pair, one map above the other."""
    n, positions = len(frequencies), np.arange(max(n_tokens, LEAST_POSITIONS))
    angles = np.outer(frequencies, positions)  # (n_pairs, positions)
    figure = base_figure(height=2 * max(110, min(260, 14 * n)) + 70)
    for row, (name, values) in enumerate({"cos": np.cos(angles), "sin": np.sin(angles)}.items(), start=1):
        figure.add_heatmap(
            z=values.astype(np.float32), zmin=-1, zmax=1, colorscale=DIVERGING, yaxis=numbered("y", row), xaxis="x",
            showscale=row == 1, colorbar={"len": 0.5, "y": 0.78, "tickvals": [-1, 0, 1], "thickness": 12},
            hovertemplate=f"position %{{x}}, pair %{{y}}: {name} %{{z:.3f}}<extra></extra>",
        )  # fmt: skip
    axis = {"autorange": "reversed", "showgrid": False, "dtick": 1 if n <= 12 else 8, "zeroline": False}
    figure.update_layout(
        yaxis=axis | {"domain": [0.54, 1], "title": "cos: pair"},
        yaxis2=axis | {"domain": [0, 0.46], "title": "sin: pair"},
        xaxis={"title": "position", "showgrid": False, "zeroline": False, "anchor": "y2"},
    )
    if n_tokens < len(positions):
        end, line = n_tokens - 0.5, {"dash": "dash", "color": NEUTRAL}
        figure.add_shape(type="line", x0=end, x1=end, y0=0, y1=1, yref="paper", line=line)
    lengths = wavelengths_of(frequencies)
    title = f"Pair 0 repeats every {three_digits(lengths[0])} positions, pair {n - 1} every {three_digits(lengths[-1])}"
    return Drawing(
        figure,
        title=title,
        note="cos above, sin below, of position × θᵢ: what a query or key at each position is multiplied by. "
        "Fast stripes at the top, a slow fade at the bottom. A column is one position, and no two columns are alike."
        + (f" Dashed: where this text of {count(n_tokens, 'token')} ends." if n_tokens < len(positions) else ""),
        alt=f"{title}. In {len(positions)} positions the last pair turns by {np.degrees(angles[-1, -1]):.3g} degrees.",
        table={
            "position": np.repeat(positions, n).tolist(),
            "pair": np.tile(np.arange(n), len(positions)).tolist(),
            "cos": np.cos(angles).T.ravel().tolist(),
            "sin": np.sin(angles).T.ravel().tolist(),
        },
        formula=r"\cos(m\,\theta_i),\quad \sin(m\,\theta_i)",
    )


def slowed(by_method: Mapping[str, NDArray], factor: float, trained: int, n_tokens: int) -> Drawing:
    """How many times slower each method turns each pair than no scaling does; by_method: frequencies (n_pairs,)."""
    plain = by_method["none"]
    figure = base_figure(height=360, legend=LEGEND, hovermode="x unified")
    for name, frequencies in by_method.items():
        figure.add_trace(_line(name, np.arange(len(plain)), plain / frequencies, "%{y:.3g} times slower"))
    once = float(np.interp(np.log(trained), np.log(wavelengths_of(plain)), np.arange(len(plain))))
    figure.add_vline(x=once, line={"dash": "dash", "color": FAINT})
    figure.update_xaxes(title="pair, from fast to slow", showgrid=False, zeroline=False)
    figure.update_yaxes(title="times slower", type="log", tickvals=[2**i for i in range(12)])
    changed = {name: int((plain / f > 1.01).sum()) for name, f in by_method.items() if name != "none"}
    title = f"Of {len(plain)} pairs, slowed by more than 1 %: " + ", ".join(f"{m} {n}" for m, n in changed.items())
    return Drawing(
        figure,
        title=title,
        note=f"Every method slows pairs down, so that positions up to {factor:g} × {trained:,} look like those of "
        f"training; they differ in which. Shown for {n_tokens:,} tokens, which only dynamic NTK and LongRoPE look at. "
        "Right of the dashed line are the pairs that never turned once in training.",
        alt=f"{title}. Times slower than without scaling, slowest pair: "
        + ", ".join(f"{name} {plain[-1] / f[-1]:.3g}" for name, f in by_method.items())
        + ".",
        table={"pair": list(range(len(plain)))}
        | {f"tokens in one turn, {name}": wavelengths_of(f).tolist() for name, f in by_method.items()},
    )


def loss_by_position(by_method: Mapping[str, NDArray], trained: int, attention: str, origin: str) -> Drawing:
    """Mean loss in bins of positions for each method; by_method: nats a token (T - 1,), the first predicts token 1."""
    figure = base_figure(height=380, legend=LEGEND, hovermode="x unified")
    n_tokens = len(next(iter(by_method.values()))) + 1
    for name, losses in by_method.items():
        middles, means = binned(losses, BIN)
        figure.add_trace(_line(name, middles + 1, means, "%{y:.2f}"))
    figure.add_vline(x=trained, line={"dash": "dash", "color": NEUTRAL})
    figure.update_xaxes(title="position in the text", showgrid=False, zeroline=False, range=[0, n_tokens])
    figure.update_yaxes(title="nats a token")
    beyond = {name: float(losses[trained - 1 :].mean()) for name, losses in by_method.items()}
    inside = {name: float(losses[: trained - 1].mean()) for name, losses in by_method.items()}
    best = min(beyond, key=beyond.get)
    found = "no method lowers it" if best == "none" else f"{beyond[best]:.2f} with {best}"
    title = f"Beyond {trained} tokens the loss is {beyond['none']:.2f} without scaling, {found}"
    return Drawing(
        figure,
        title=title,
        note=f"{attention}, {origin}, trained on texts of {trained} tokens (dashed), reads {n_tokens:,} with the same "
        f"weights under each method, measured just now. Each point is the mean of {BIN} tokens; lower is better. "
        "Nothing was trained further, which linear scaling in particular is meant to have.",
        alt=f"{title}. All of them: " + ", ".join(f"{name} {loss:.2f}" for name, loss in beyond.items()) + ".",
        table={
            "method": list(by_method),
            f"nats a token up to {trained}": list(inside.values()),
            f"nats a token beyond {trained}": list(beyond.values()),
        },
    )


def _line(name: str, x: NDArray, y: NDArray, hover: str) -> dict:
    dash, symbol, colour = METHODS[name]
    return {
        "type": "scatter", "x": x, "y": y, "name": name, "mode": "lines+markers",
        "line": {"dash": dash, "color": colour}, "marker": {"symbol": symbol, "size": 8}, "hovertemplate": hover,
    }  # fmt: skip
