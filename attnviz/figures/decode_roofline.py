"""Figure of prefill and of a decode step on this machine's roofline."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from attnviz.equations import Equation, Value
from attnviz.figures.chart import Chart
from attnviz.figures.decode import quartiles, stored_text, time_columns, unsteady
from attnviz.figures.drawing import Drawing
from attnviz.figures.markup import meanings
from attnviz.figures.theme import FAINT, PETROL, base_figure
from attnviz.mechanisms import letter
from attnviz.phrases import count

if TYPE_CHECKING:
    from attnviz.decode.comparisons import Spread
    from attnviz.decode.roofline import Roofline

COUNTED = (
    "Bytes read are those of weights and cache, without intermediate results; a copy counts bytes read and written. "
    "FLOPs include masked scores and the logits of each token."
)


def _stored(weights: str) -> str:
    """Say in which dtype the numbers are, and what that does to the FLOPs per byte."""
    if weights == "float32":
        halved = "With 2 bytes per number, a decode step would do twice as many FLOPs per byte."
    else:
        halved = "Bytes of weights are those stored; the time includes their conversion."
    return f"{stored_text(weights)} {halved}"


def roofline(placed: Roofline) -> Drawing:
    """Draw the FLOP/s of prefill and of a decode step by FLOPs per byte read, under this machine's roofline."""
    prefill, one = placed.phases
    peak, stream = placed.flops.median, placed.nbytes.median
    intensity = [phase.flops / phase.bytes_read for phase in placed.phases]
    speed = [phase.seconds.per_second(phase.flops) for phase in placed.phases]
    equation = Equation(
        letter("f", one.flops, "FLOPs of a decode step") / Value(one.bytes_read, "r", "bytes it reads"), digits=2
    )
    per_token = 1e3 * prefill.seconds.median / prefill.n_tokens
    measured = [phase.seconds for phase in placed.phases]
    reached = [each.median / min(peak, stream * at) for each, at in zip(speed, intensity, strict=True)]
    return Drawing(
        _roofline_chart(placed, intensity, speed),
        title=f"Per byte read, prefill does {intensity[0]:.1f} FLOPs and a decode step {intensity[1]:.2f}",
        note=f"Prefill reads the weights once for {count(prefill.n_tokens, 'token')}, the prompt and all written ones: "
        f"{per_token:.3f} ms per token. A decode step reads them for one: {1e3 * one.seconds.median:.2f} ms. The roof "
        f"is a bound: prefill reaches {reached[0]:.0%} of it and the decode step {reached[1]:.0%}; starting many small "
        "operations takes time too.",
        more=f"Measured on this machine, one thread: medians of {one.seconds.n_runs} runs; error bars: quartiles. The "
        f"roofline's quartiles are {_range(placed.flops)}FLOP/s in a matrix product and {_range(placed.nbytes)}B/s in "
        f"a copy. Prefill: {quartiles(prefill.seconds)}; decode step: {quartiles(one.seconds)}."
        f"{unsteady((*measured, placed.flops, placed.nbytes))}",
        alt=f"Prefill at {intensity[0]:.1f} FLOPs per byte, decode at {intensity[1]:.2f}; the roofline bends at "
        f"{peak / stream:.1f}.",
        table={
            "phase": [phase.name for phase in placed.phases], "tokens": [phase.n_tokens for phase in placed.phases],
            "FLOPs": [phase.flops for phase in placed.phases],
            "bytes read": [phase.bytes_read for phase in placed.phases],
            "FLOPs per byte": [round(i, 2) for i in intensity],
            "share of the roof": [f"{share:.0%}" for share in reached], **time_columns(measured),
        },
        formula=equation.tex(), legend=f"{meanings(equation)} {COUNTED} {_stored(placed.weights)}",
    )  # fmt: skip


def _roofline_chart(placed: Roofline, intensity: list[float], speed: list[Spread]) -> Chart:
    """Return the roof, and a point per phase at its FLOPs per byte and its FLOP/s."""
    peak, stream = placed.flops.median, placed.nbytes.median
    ridge = peak / stream
    x = [min(*intensity, ridge) / 4, ridge, max(*intensity, ridge) * 4]
    y = [min(peak, stream * i) for i in x]
    figure = base_figure(360, showlegend=False)
    figure.add_scatter(x=x, y=y, mode="lines", line={"color": FAINT, "width": 3}, hoverinfo="skip")
    for text, at, xanchor, yanchor in (
        (f"copy: {_rate(placed.nbytes)}B/s", (math.sqrt(x[0] * x[1]), math.sqrt(y[0] * y[1])), "left", "top"),
        (f"matrix product: {_rate(placed.flops)}FLOP/s", (x[2], peak), "right", "bottom"),
    ):
        away = {"xshift": 10, "yshift": -4} if yanchor == "top" else {"yshift": 4}  # pixels off the line
        figure.add_annotation(
            text=text, x=math.log10(at[0]), y=math.log10(at[1]), xanchor=xanchor, yanchor=yanchor, showarrow=False,
            **away,
        )  # fmt: skip
    figure.add_scatter(
        x=intensity, y=[spread.median for spread in speed], mode="markers+text", text=[p.name for p in placed.phases],
        textposition="bottom right", marker={"color": PETROL, "size": 12}, hoverinfo="skip",
        error_y={
            "type": "data", "symmetric": False, "array": [spread.high - spread.median for spread in speed],
            "arrayminus": [spread.median - spread.low for spread in speed], "color": PETROL, "thickness": 2,
        },
    )  # fmt: skip
    lowest = min(y[0], *(spread.low for spread in speed))
    figure.update_layout(
        xaxis={"type": "log", "title": {"text": "FLOPs per byte read"}, **_log_ticks(x[0], x[2])},
        yaxis={"type": "log", "title": {"text": "FLOP/s"}, "tickformat": "~s", "showgrid": False,  # labels stand there
               "tickvals": _log_ticks(lowest, peak)["tickvals"],
               "range": [math.log10(lowest / 2), math.log10(peak * 2)]},
    )  # fmt: skip
    return figure


def _rate(each: Spread) -> str:
    """Format a median rate in billions, to stand before its unit: "94.2 G"."""
    return f"{each.median / 1e9:.1f} G"


def _range(each: Spread) -> str:
    """Format the quartiles of a rate in billions, to stand before their unit: "90.1–95.0 G"."""
    return f"{each.low / 1e9:.1f}–{each.high / 1e9:.1f} G"


def _log_ticks(low: float, high: float) -> dict[str, list]:
    """Return ticks of a logarithmic axis: 1, 2, 5 of each power of ten, or the powers alone where those are many."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    values = [digit * 10.0**power for power in powers for digit in ((1, 2, 5) if len(powers) < 5 else (1,))]
    return {"tickvals": values, "ticktext": [f"{value:g}" for value in values]}
