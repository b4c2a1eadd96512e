"""The bound on the time to the first token, over the length of the prompt."""

from __future__ import annotations

from collections.abc import Sequence

from attnviz.cost import Prefill, Serving
from attnviz.cost.units import context_text, tokens_text
from attnviz.equations import tex_lines
from attnviz.figures.chart import Chart
from attnviz.figures.cost.captions import beyond_context, short_name
from attnviz.figures.cost.formulas import prefill_equations
from attnviz.figures.cost.machines import peak_note
from attnviz.figures.cost.rates import rate_text, rounded_rate
from attnviz.figures.drawing import Drawing
from attnviz.figures.markup import meanings
from attnviz.figures.theme import BROWN, NEUTRAL, PETROL, base_figure

LENGTHS = tuple(2**k for k in range(7, 21))  # 128 to 1 M tokens
ASSUMED = (
    "The bound assumes that nothing else runs, that arithmetic at its peak overlaps perfectly with one reading of the "
    "weights, that only the last token needs the output layer, and that masked scores are not computed."
)
LIMITS = {"memory": "reading the weights", "compute": "arithmetic"}


def first_token(serving: Serving) -> Drawing:
    """Draw the least time from prompt to first token over the prompt's length, and the parts that it consists of."""
    machine, chosen = serving.machine, serving.prefill()
    prompts = [serving.at(n).prefill() for n in sorted({*LENGTHS, serving.n_tokens})]
    seconds, limit = chosen.seconds(machine), LIMITS[chosen.bound_by(machine)]
    title = f"Prompt of {context_text(serving.n_tokens)}: first token after at least about {rate_text(seconds)} s"
    equations = prefill_equations(serving.model, chosen, machine)
    share = chosen.attention_flops / chosen.flops
    return Drawing(
        _lines(serving, prompts),
        title=title,
        note=f"{beyond_context(serving.model, serving.n_tokens)}A lower bound; both axes are logarithmic. Scores "
        f"and weighted sums take {share:.1%} of this prompt's FLOPs.{_fit(serving)}",
        more=f"Prefill of one prompt by {short_name(serving.model)} on {machine.name}. {ASSUMED}{_active(serving)} "
        f"{peak_note(serving)}",
        alt=f"{title}, limited by {limit}; scores and weighted sums take {share:.1%} of the FLOPs. "
        f"{context_text(prompts[0].n_tokens)}: {rate_text(prompts[0].seconds(machine))} s; "
        f"{context_text(prompts[-1].n_tokens)}: {rate_text(prompts[-1].seconds(machine))} s.",
        table={
            "tokens of the prompt": [p.n_tokens for p in prompts],
            "seconds to the first token at least": [rounded_rate(p.seconds(machine)) for p in prompts],
            "limited by": [p.bound_by(machine) for p in prompts],
            "FLOPs": [p.flops for p in prompts],
            "FLOPs of products with weights": [p.weight_flops for p in prompts],
            "FLOPs of scores and weighted sums": [p.attention_flops for p in prompts],
            "weight bytes read": [p.weight_bytes for p in prompts],
        },
        formula=tex_lines(*equations),
        legend=meanings(*equations),
    )  # fmt: skip


def _lines(serving: Serving, prompts: Sequence[Prefill]) -> Chart:
    """Return the lines of the bound and of its parts, and a point at the chosen prompt."""
    machine, chosen = serving.machine, serving.prefill()
    figure = base_figure(380, hovermode="x unified", legend={"orientation": "h", "y": 1.02, "yanchor": "bottom"})
    parts = {
        "time to first token, at least": ([p.seconds(machine) for p in prompts], PETROL, "solid", 4),
        "products with weights": ([p.weight_flops / machine.flops for p in prompts], NEUTRAL, "dash", 2),
        "scores and weighted sums": ([p.attention_flops / machine.flops for p in prompts], BROWN, "dash", 2),
        "reading the weights": ([p.weight_bytes / machine.bandwidth for p in prompts], NEUTRAL, "dot", 2),
    }
    lengths = [p.n_tokens for p in prompts]
    for name, (seconds, colour, dash, width) in parts.items():
        figure.add_scatter(
            x=lengths, y=seconds, mode="lines", name=name, line={"color": colour, "dash": dash, "width": width},
            customdata=[rate_text(s) for s in seconds], hovertemplate="%{customdata} s",
        )  # fmt: skip
    figure.add_scatter(
        x=[chosen.n_tokens], y=[chosen.seconds(machine)], mode="markers", showlegend=False, hoverinfo="skip",
        marker={"size": 11, "color": PETROL},
    )  # fmt: skip
    figure.update_xaxes(
        type="log", title="tokens of the prompt", tickvals=LENGTHS[1::3], ticktext=list(map(tokens_text, LENGTHS[1::3]))
    )
    figure.update_yaxes(type="log", title="seconds", dtick=1, tickformat="~g")
    return figure


def _active(serving: Serving) -> str:
    """State which experts are counted."""
    experts = serving.model.experts
    if experts is None:
        return ""
    routed = f"{experts.per_token} of {experts.n_routed} routed experts"
    return f" Each token is multiplied with the {routed} that it chooses."


def _fit(serving: Serving) -> str:
    """State whether the prompt fits in memory; "" if it does."""
    if serving.plan().n_users:
        return ""
    return f" Weights, this prompt's cache and the reserve of {serving.reserve:.0%} do not fit in this memory."
