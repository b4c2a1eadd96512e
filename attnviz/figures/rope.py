"""Figures of RoPE without queries and keys: each pair's frequency, its change by scaling, the effect on the loss."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from attnviz.analysis.rope import beyond_training, binned, turns
from attnviz.analysis.rope import wavelengths as wavelengths_of
from attnviz.equations import Equation, Value, function, tex_lines
from attnviz.figures.chart import Chart, numbered
from attnviz.figures.drawing import Drawing
from attnviz.figures.markup import meanings
from attnviz.figures.numbers import told_apart
from attnviz.figures.theme import (
    BROWN,
    DARK_BROWN,
    DARK_PETROL,
    DIVERGING,
    FAINT,
    LABEL,
    LIGHT_BROWN,
    LIGHT_PETROL,
    NEUTRAL,
    OUTLINE,
    base_figure,
)
from attnviz.mechanisms import letter
from attnviz.phrases import count, listed

if TYPE_CHECKING:
    from attnviz.modules.rope_scaling import RopeScaling

METHODS = {  # dash, symbol, colour; dash and symbol tell them apart without colour
    "none": ("solid", "circle", NEUTRAL),
    "linear": ("dash", "square", DARK_BROWN),
    "NTK-aware": ("dot", "triangle-up", BROWN),
    "dynamic NTK": ("dashdot", "triangle-down", LIGHT_BROWN),
    "YaRN": ("solid", "diamond", DARK_PETROL),
    "Llama 3": ("dash", "cross", LIGHT_PETROL),
    "pasted": ("dot", "x", NEUTRAL),
}
LEGEND = {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0}
LEAST_POSITIONS = 64  # drawn at least, so that a short text still shows the pattern
PI = Value(math.pi, "π", digits=6, latex=r"\pi")
BIN = 32  # tokens per mean of the loss
NARROW, CHARACTER = 260, 6.0  # pixels: width of the plot in a narrow window, width of a digit


def three_digits(n: float) -> str:
    """Format a number with three digits, or with all digits before the decimal point."""
    return f"{n:,.0f}" if n >= 100 else f"{n:.3g}"


def _digits(number: float, significant: int) -> int | None:
    """Return the decimals that show this many significant digits; None for a whole number."""
    return None if float(number).is_integer() else max(0, significant - 1 - math.floor(math.log10(number)))


def subscript(index: int | str) -> str:
    """Format an index, or two with a comma between, as a subscript."""
    return str(index).translate(str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉"))


def frequency(pair: int, n_pairs: int, theta: float) -> Equation:
    """Return the equation of θ_j, one pair's frequency in radians per token."""
    base, j = Value(theta, "base", "rope_theta", latex=r"\text{base}"), Value(pair, "j", "pair")
    rotary_dim = Value(2 * n_pairs, "d", "rotated dimensions of a head")
    right = 1 / base ** (2 * j / rotary_dim)
    name, name_tex = f"θ{subscript(pair)}", rf"\theta_{{{pair}}}"
    digits = _digits(right.value, 6)
    return Equation(right, name, name_tex, unit="rad per token", digits=digits, meaning=f"frequency of pair {pair}")


def wavelength(pair: int, n_pairs: int, theta: float) -> Equation:
    """Return the equation of λ_j, one pair's tokens per full turn."""
    right = 2 * PI / frequency_value(pair, n_pairs, theta)
    name, name_tex = f"λ{subscript(pair)}", rf"\lambda_{{{pair}}}"
    digits = _digits(right.value, 3)
    return Equation(right, name, name_tex, unit="tokens per turn", digits=digits, meaning=f"wavelength of pair {pair}")


def turns_within(pair: int, n_pairs: int, theta: float, n_tokens: int) -> Equation:
    """Return the equation of one pair's turns from the first to the last token of a text."""
    steps = letter("S", n_tokens, "tokens in the text") - 1
    return Equation(steps * frequency_value(pair, n_pairs, theta) / (2 * PI), "turns", r"\text{turns}", digits=3)


def pair_in_numbers(n_pairs: int, theta: float) -> list[str]:
    """Return every pair's frequency and wavelength as plain text with the letters' meanings, for the clocks."""
    pairs = [(frequency(i, n_pairs, theta), wavelength(i, n_pairs, theta)) for i in range(n_pairs)]
    return ["\n".join((*(each.text() for each in both), meanings(*both))) for both in pairs]


def frequency_value(pair: int, n_pairs: int, theta: float) -> Value:
    """Return θ_j of one pair as a letter of another equation."""
    equation = frequency(pair, n_pairs, theta)
    meaning = f"frequency of pair {pair} in rad per token"
    return Value(equation.value, equation.name, meaning, digits=equation.digits, latex=equation.name_tex)


def wavelengths(frequencies: NDArray, n_tokens: int, context: int | None, theta: float) -> Drawing:
    """Draw each pair's tokens per turn as a bar, with this text and the training context marked."""
    lengths, n = wavelengths_of(frequencies), len(frequencies)
    n_turning = int((lengths <= n_tokens - 1).sum())
    fastest, slowest = three_digits(lengths[0]), three_digits(lengths[-1])
    title = f"{n_turning} of {count(n, 'pair')} {'completes' if n_turning == 1 else 'complete'} a turn in this text"
    if context:
        title += f", {(lengths <= context - 1).sum()} in {count(context, 'token')} as in training"
    text_steps = count(n_tokens - 1, "step")
    slowest_turns = three_digits(math.degrees((n_tokens - 1) * frequencies[-1]))
    pair = max(n_turning - 1, 0)
    equations = frequency(pair, n, theta), wavelength(pair, n, theta), turns_within(pair, n, theta, n_tokens)
    return Drawing(
        _wavelength_bars(lengths, n_tokens, context),
        title=title,
        note="One bar per pair of dimensions: its tokens per full turn, on a log axis. Strong colour: at least one "
        f"turn over the {text_steps} from the first to the last token. The slowest pair rotates by {slowest_turns}° "
        "over them.",
        alt=f"{title}. The fastest pair needs {fastest} tokens per turn, the slowest {slowest}.",
        table={
            "pair": list(range(n)),
            "radians per token": frequencies.tolist(),
            "degrees per token": np.degrees(frequencies).tolist(),
            "tokens per turn": lengths.tolist(),
            "turns in this text": turns(frequencies, n_tokens).tolist(),
        },
        formula=tex_lines(*equations),
        legend=meanings(*equations),
    )


def _wavelength_bars(lengths: NDArray, n_tokens: int, context: int | None) -> Chart:
    """Return a bar per pair, with a line at this text's tokens and at those of the training context."""
    n = len(lengths)
    inside, named = lengths <= n_tokens - 1, n <= 16
    numbers = [f" {three_digits(length)}" for length in lengths]
    margin = {"l": 8, "r": 8, "t": 44, "b": 8}
    figure = base_figure(130 + max(9, min(24, 420 // n)) * n, showlegend=False, bargap=0.25, margin=margin)
    figure.add_bar(
        orientation="h", x=lengths, y=np.arange(n), text=numbers,
        textposition="outside" if named else "none", cliponaxis=False,
        marker={"color": np.where(inside, NEUTRAL, FAINT).tolist(), "line": OUTLINE},
        hovertemplate="pair %{y}: %{text} tokens per turn<extra></extra>",
    )  # fmt: skip
    largest = max(lengths[-1], context or 1, n_tokens)
    widths = CHARACTER / NARROW * np.char.str_len(numbers) * named  # of the numbers, as shares of the plot
    decades = max(np.log10(largest) + 0.7, float((np.log10(lengths) / (1 - widths)).max()))
    ends = lengths * 10 ** (decades * widths)
    marks = {"this text": n_tokens} | ({"training": context} if context else {})
    for level, (what, tokens) in enumerate(marks.items()):
        steps = max(tokens - 1, 1)  # from the first token to the last; at least 1, for the log axis
        _add_line_between(figure, steps, np.flatnonzero((lengths < steps) & (steps < ends)), n)
        figure.add_annotation(
            x=np.log10(steps), y=1, yref="paper", yshift=18 * level, yanchor="bottom", showarrow=False,
            xanchor=_anchor(np.log10(steps) / decades), text=f"{what}: {count(tokens, 'token')}",
        )  # fmt: skip
    figure.update_xaxes(type="log", dtick=1, range=[0, decades], title="tokens per turn", tickformat=",")
    rows = {"range": [n - 0.5, -0.5], "dtick": 1 if n <= 32 else 8}
    figure.update_yaxes(**rows, title="pair", showgrid=False, zeroline=False)
    return figure


def _add_line_between(figure: Chart, x: float, left_out: NDArray, n: int) -> None:
    """Add a dashed vertical line over n rows, with gaps where it would cross a number."""
    edges = [-0.5, *np.add.outer(left_out, (-0.5, 0.5)).ravel(), n - 0.5]
    for top, bottom in zip(edges[::2], edges[1::2], strict=True):
        if top < bottom:
            line = {"dash": "dash", "color": NEUTRAL}
            figure.add_shape(type="line", x0=x, x1=x, y0=top, y1=bottom, line=line, layer="below")


def rotation_maps(frequencies: NDArray, n_tokens: int, query: int, theta: float) -> Drawing:
    """Draw cos and sin of position × frequency as maps of position by pair; the formula is for `query`."""
    n, positions = len(frequencies), np.arange(max(n_tokens, LEAST_POSITIONS))
    angles = np.outer(frequencies, positions)  # (n_pairs, positions)
    figure = base_figure(height=2 * max(110, min(260, 14 * n)) + 70)
    for row, (name, values) in enumerate({"cos": np.cos(angles), "sin": np.sin(angles)}.items(), start=1):
        figure.add_heatmap(
            z=values.astype(np.float32), zmin=-1, zmax=1, colorscale=DIVERGING, yaxis=numbered("y", row), xaxis="x",
            showscale=row == 1,
            colorbar={"len": 0.5, "y": 0.78, "tickvals": [-1, 0, 1], "thickness": 12, "tickfont": LABEL},
            hovertemplate=f"position %{{x}}, pair %{{y}}: {name} %{{z:.3f}}<extra></extra>",
        )  # fmt: skip
    axis = {"autorange": "reversed", "showgrid": False, "dtick": 2 if n <= 16 else 8, "zeroline": False}
    axis |= {"tickfont": LABEL}
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
    pair = max(int((lengths <= n_tokens - 1).sum()) - 1, 0)
    equations = [_rotation(name, query, pair, n, theta) for name in ("cos", "sin")]
    return Drawing(
        figure,
        title=title,
        note="cos above, sin below, of position × frequency: the rotation of each pair of a query or key at each "
        "position. Each column is one position, each row one pair, from fast to slow."
        + (f" Dashed: where this text of {count(n_tokens, 'token')} ends." if n_tokens < len(positions) else ""),
        alt=f"{title}. Over {count(len(positions), 'position')} the last pair rotates by "
        f"{np.degrees(angles[-1, -1]):.3g}°.",
        table={
            "position": np.repeat(positions, n).tolist(),
            "pair": np.tile(np.arange(n), len(positions)).tolist(),
            "cos": np.cos(angles).T.ravel().tolist(),
            "sin": np.sin(angles).T.ravel().tolist(),
        },
        formula=tex_lines(*equations),
        legend=meanings(*equations),
    )


def _rotation(name: str, position: int, pair: int, n_pairs: int, theta: float) -> Equation:
    """Return the equation of cos or sin of m · θ_j."""
    angle = Value(position, "m", "position of the query") * frequency_value(pair, n_pairs, theta)
    return Equation(function(name, angle), digits=3)


def _anchor(share: float) -> str:
    """Return the horizontal anchor of a label at this share of the plot's width: centred, except near an edge."""
    return "left" if share < 0.2 else "right" if share > 0.8 else "center"


def slowed(by_method: Mapping[str, NDArray], learned: NDArray, trained: int, n_tokens: int) -> Drawing:
    """Draw how many times slower each method makes each pair; by_method: frequencies (n_pairs,).

    learned: the frequencies (n_pairs,) of the training, in texts of `trained` tokens; another base has others.
    """
    plain = by_method["none"]
    beyond = {m: beyond_training(f, learned, n_tokens, trained) for m, f in by_method.items()}
    passing = {name: int(pairs.sum()) for name, pairs in beyond.items()}
    figure = base_figure(height=360, legend=LEGEND, hovermode="x unified")
    for name, frequencies in by_method.items():
        figure.add_trace(_line(name, np.arange(len(plain)), plain / frequencies, "%{y:.3g} times slower"))
    once = float(np.interp(np.log(trained - 1), np.log(wavelengths_of(learned)), np.arange(len(learned))))
    figure.add_vline(x=once, line={"dash": "dash", "color": FAINT})
    figure.update_xaxes(title="pair, from fast to slow", showgrid=False, zeroline=False)
    figure.update_yaxes(title="times slower", type="log", tickvals=[2**i for i in range(12)])
    other = "" if np.array_equal(plain, learned) else " Training used another base: its angles are those of that base."
    passes = "passes its" if passing["none"] == 1 else "pass their"
    title = f"Without scaling, {passing['none']} of {count(len(plain), 'pair')} {passes} trained angle"
    if (fewest := min(passing.values())) < passing["none"]:
        title += f"; with {', '.join(name for name, n in passing.items() if n == fewest)}: {fewest}"
    return Drawing(
        figure,
        title=title,
        note="How many times slower each method makes each pair. Pairs right of the dashed line completed no turn in "
        f"the {trained:,} positions of training.{other}",
        more=f"A pair of these passes its trained angle if, within {n_tokens:,} tokens, it reaches the angle of "
        f"position {trained:,}, the first beyond training. Such pairs per method (none: "
        f"without scaling): {', '.join(f'{name} {n}' for name, n in passing.items())}. "
        "Only dynamic NTK and LongRoPE depend on the number of tokens.",
        alt=f"{title}. Times slower than without scaling, slowest pair: "
        + ", ".join(f"{name} {plain[-1] / f[-1]:.3g}" for name, f in by_method.items())
        + ".",
        table={"pair": list(range(len(plain)))}
        | {f"tokens per turn, {name}": wavelengths_of(f).tolist() for name, f in by_method.items()}
        | {f"passes its trained angle, {name}": pairs.tolist() for name, pairs in beyond.items()},
    )


def scores_scaled(name: str, scaling: RopeScaling, rotary_dim: int, head_dim: int, latent: bool) -> str:
    """State the factors by which a method multiplies scores, besides changing frequencies; "" if there are none.

    latent: the model's attention is MLA, whose softmax scale is changed by mscale_all_dim as well.
    """
    squared, whole = scaling.attention_factor**2, scaling.latent_softmax_factor if latent else 1.0
    effects = []
    if squared != 1:
        part = f"the rotated part of each score ({rotary_dim} of {head_dim} dimensions)"
        changed = part if rotary_dim < head_dim else "each score"
        effects.append(
            f"multiplies cos and sin by **{scaling.attention_factor:.4f}**, and so {changed} by {squared:.4f}"
        )
    if whole != 1:
        effects.append(f"multiplies MLA's softmax scale, and so all parts of each score, by **{whole:.4f}**")
    return f"{name} also {listed(effects)}." if effects else ""


def loss_by_position(by_method: Mapping[str, NDArray], trained: int, attention: str, origin: str) -> Drawing:
    """Draw each method's mean loss per bin of positions; by_method: nats per token (T - 1,), the first for token 1.

    A training row of `trained` inputs has `trained` predictions: of the tokens 1 … trained.
    """
    figure = base_figure(height=380, legend=LEGEND, hovermode="x unified")
    n_tokens = len(next(iter(by_method.values()))) + 1
    for name, losses in by_method.items():
        middles, means = binned(losses, BIN)
        figure.add_trace(_line(name, middles + 1, means, "%{y:.2f}"))
    figure.add_vline(x=trained, line={"dash": "dash", "color": NEUTRAL})
    figure.update_xaxes(title="tokens read before the prediction", showgrid=False, zeroline=False, range=[0, n_tokens])
    figure.update_yaxes(title="nats per token")
    beyond = {name: float(losses[trained:].mean()) for name, losses in by_method.items()}
    inside = {name: float(losses[:trained].mean()) for name, losses in by_method.items()}
    best = min(beyond, key=beyond.__getitem__)
    without, with_best = told_apart(beyond["none"], beyond[best], digits=2)
    found = "; no method lowers it" if best == "none" else f", {with_best} with {best}"
    title = f"Beyond {trained} tokens the loss is {without} without scaling{found}"
    return Drawing(
        figure,
        title=title,
        note=f"{attention}, {origin}, trained on rows of {trained} tokens (dashed), reads a text of {n_tokens:,} "
        "with the same weights under each method. Lower is better. Nothing was trained further here.",
        more=f"Each point is the mean of up to {BIN} predictions; the title gives means over the "
        f"{n_tokens - 1 - trained} after more than {trained} tokens. Linear scaling (arXiv 2306.15595), YaRN (arXiv "
        "2309.00071) and Llama 3's were published with further training.",
        alt=f"{title}. All methods: " + ", ".join(f"{name} {loss:.2f}" for name, loss in beyond.items()) + ".",
        table={
            "method": list(by_method),
            f"nats per token up to {trained}": list(inside.values()),
            f"nats per token beyond {trained}": list(beyond.values()),
        },
    )


def _line(name: str, x: NDArray, y: NDArray, hover: str) -> dict:
    dash, symbol, colour = METHODS[name]
    return {
        "type": "scatter", "x": x, "y": y, "name": name, "mode": "lines+markers",
        "line": {"dash": dash, "color": colour}, "marker": {"symbol": symbol, "size": 8}, "hovertemplate": hover,
    }  # fmt: skip
