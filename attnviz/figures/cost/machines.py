"""Models on machines: what a memory holds, how fast decoding can be at best, and how fast it was here."""

from __future__ import annotations

from collections.abc import Sequence

from attnviz.config import ModelConfig
from attnviz.cost import PRECISIONS, Accelerator, MemoryPlan, decode_step, kv_cache_bytes, weight_bytes
from attnviz.cost.units import bytes_text, context_text, tokens_text
from attnviz.figures.cost.formulas import decode_formula, fit_formula, intensity_formula
from attnviz.figures.cost.published import short_name
from attnviz.figures.drawing import Drawing
from attnviz.figures.phrases import count
from attnviz.figures.theme import DIVERGING, FAINT, NEUTRAL, base_figure

BATCHES = tuple(2**k for k in range(11))  # 1 to 1,024 sequences
LARGEST_SPLIT = 64  # users that are still drawn one by one
WARM, COOL = DIVERGING[0][1], DIVERGING[-1][1]  # beside the grey: two colours that are no KV head's


def filling(plan: MemoryPlan, model: ModelConfig, machine: Accelerator, n_tokens: int) -> Drawing:
    """Weights, users' caches, reserve and what is left, as they fill the memory."""
    legend = {"orientation": "h", "y": 1.2, "yanchor": "bottom", "traceorder": "normal"}
    figure = base_figure(190, barmode="stack", legend=legend)
    used = plan.n_users * plan.cache_of_one
    left = max(plan.free - used, 0)
    pieces = {"weights": plan.weights, "cache": used, "left over": left, "reserve": plan.reserve}
    styles = {"weights": (NEUTRAL, ""), "cache": (COOL, ""), "left over": (FAINT, ""), "reserve": (WARM, "/")}
    for name, n in pieces.items():
        colour, shape = styles[name]
        figure.add_trace(_piece(name, n, colour, shape))
    widest = max(plan.memory, plan.weights + plan.reserve)
    for i in range(1, plan.n_users if plan.n_users <= LARGEST_SPLIT else 0):
        x = plan.weights + i * plan.cache_of_one
        figure.add_shape(type="line", x0=x, x1=x, y0=-0.4, y1=0.4, line={"width": 1, "color": FAINT})
    figure.add_vline(x=plan.memory, line={"width": 2, "color": NEUTRAL})
    figure.add_annotation(
        x=plan.memory, y=1, xref="x", yref="y domain", xanchor="right", yanchor="bottom", showarrow=False,
        text=f"memory {bytes_text(plan.memory, False)}",
    )  # fmt: skip
    figure.update_xaxes(visible=False, range=[0, widest * 1.02])
    figure.update_yaxes(visible=False, range=[-0.5, 0.5])
    title = _verdict(plan, model, machine, n_tokens)
    return Drawing(
        figure,
        title=title,
        note=f"{machine.name}: {bytes_text(plan.memory, False)} as its maker counts, all of it taken as usable but the "
        "reserve, which is for activations and what allocation loses. All weights are held, those of idle experts too. "
        f"One user is one sequence of {n_tokens:,} tokens.",
        alt=f"{title}. " + "; ".join(f"{name} {bytes_text(n, False)}" for name, n in pieces.items()) + ".",
        table={
            "what": [*pieces, "one user's cache"],
            "bytes": [*pieces.values(), plan.cache_of_one],
        },
        formula=fit_formula(plan),
    )


def speed(
    model: ModelConfig, machine: Accelerator, n_tokens: int, precision: str = "bf16", weight_bits: float = 16
) -> Drawing:
    """The bound on tokens a second as the batch grows, at four contexts; dotted where the batch no longer fits."""
    contexts = sorted({1024, 8192, 32_768, n_tokens})
    bits, block = PRECISIONS[precision]
    figure = base_figure(420, hovermode="x unified", legend={"orientation": "h", "y": 1.02, "yanchor": "bottom"})
    room = machine.memory - weight_bytes(model, weight_bits)
    rows: dict[str, list] = {"sequences at once": list(BATCHES)}
    shades = [0.4 + 0.6 * i / max(len(contexts) - 1, 1) for i in range(len(contexts))]
    for n, shade in zip(contexts, shades, strict=True):
        steps = [decode_step(model, n, b, bits, weight_bits=weight_bits, block_size=block) for b in BATCHES]
        rate = [step.tokens_per_second(machine) for step in steps]
        rows[f"tokens a second at {tokens_text(n)}"] = [round(r, 1) for r in rate]
        rows[f"limit at {tokens_text(n)}"] = [step.bound_by(machine) for step in steps]
        n_fit = sum(step.cache_bytes <= room for step in steps)
        for trace in _rate(tokens_text(n), rate, n_fit, shade, n == n_tokens):
            figure.add_trace(trace)
    figure.update_xaxes(type="log", title="sequences at once", tickvals=list(BATCHES[::2]))
    figure.update_yaxes(type="log", title="tokens a second, all together", dtick=1, tickformat=",")
    one, many = (decode_step(model, n_tokens, b, bits, weight_bits=weight_bits, block_size=block) for b in (1, 64))
    first, later = one.tokens_per_second(machine), many.tokens_per_second(machine)
    title = (
        f"At {context_text(n_tokens)} 64 sequences together reach at most {later / first:.0f} times the {first:,.0f} "
        "tokens a second of one"
    )
    return Drawing(
        figure,
        title=title,
        note=f"{short_name(model)} on {machine.name}. A step reads the weights once for all sequences and every "
        "sequence's cache for itself; so a batch pays until the caches outweigh the weights. Dotted: more than the "
        "memory holds. A bound, not a forecast: peak bandwidth and peak arithmetic, perfectly overlapped.",
        alt=f"{title}: {later:,.0f}, limited by {many.bound_by(machine)}.",
        table=rows,
        formula=decode_formula(many, machine),
    )


def roof(
    model: ModelConfig, machine: Accelerator, n_tokens: int, precision: str = "bf16", weight_bits: float = 16
) -> Drawing:
    """The roofline: FLOP/s that can be had at each arithmetic intensity, and where decode steps of this model lie."""
    bits, block = PRECISIONS[precision]
    steps = [decode_step(model, n_tokens, b, bits, weight_bits=weight_bits, block_size=block) for b in BATCHES]
    x = [0.25, machine.ridge, 4096.0]
    figure = base_figure(400, showlegend=False)
    figure.add_scatter(
        x=x, y=[min(v * machine.bandwidth, machine.flops) for v in x], mode="lines",
        line={"color": NEUTRAL, "width": 3}, hoverinfo="skip",
    )  # fmt: skip
    figure.add_scatter(
        x=[s.intensity for s in steps],
        y=[min(s.intensity * machine.bandwidth, machine.flops) for s in steps],
        mode="markers", marker={"size": 10, "color": COOL},
        customdata=[[s.batch_size, f"{s.intensity:.3g}", f"{s.tokens_per_second(machine):,.0f}"] for s in steps],
        hovertemplate="%{customdata[0]} sequences: %{customdata[1]} FLOPs a byte<br>"
        "at most %{customdata[2]} tokens a second<extra></extra>",
    )  # fmt: skip
    figure.add_vline(x=machine.ridge, line={"color": FAINT, "dash": "dot"})
    figure.update_xaxes(type="log", title="FLOPs a byte read", tickvals=[1, 10, 100, 1000])
    figure.update_yaxes(type="log", title="FLOP/s", dtick=1, tickformat="~s")
    last = steps[-1]
    crowd = f"{last.batch_size:,} sequences"
    reach = f"even {crowd} stay below" if last.bound_by(machine) == "memory" else f"{crowd} reach"
    title = (
        f"At {context_text(n_tokens)} {reach} the {machine.ridge:.0f} FLOPs a byte that {machine.name} needs to be busy"
    )
    return Drawing(
        figure,
        title=title,
        note="Left of the dotted line a step waits for memory, right of it for arithmetic. Each point is a batch, from "
        f"1 to {last.batch_size:,} sequences; more of them use each weight more often, but bring caches of their own.",
        alt=f"{title}. One sequence: {steps[0].intensity:.3g} FLOPs a byte; {crowd}: {last.intensity:.3g}.",
        table={
            "sequences at once": [s.batch_size for s in steps],
            "FLOPs a step": [s.flops for s in steps],
            "weight bytes read": [s.weight_bytes for s in steps],
            "cache bytes read": [s.cache_bytes for s in steps],
            "FLOPs a byte": [round(s.intensity, 3) for s in steps],
            "limited by": [s.bound_by(machine) for s in steps],
        },
        formula=intensity_formula(last),
    )


def machines(
    accelerators: Sequence[Accelerator], model: ModelConfig, n_tokens: int, batch_size: int = 1,
    precision: str = "bf16", weight_bits: float = 16,
) -> Drawing:  # fmt: skip
    """The bound on every accelerator for this batch and context; hollow where the model does not fit on it."""
    bits, block = PRECISIONS[precision]
    step = decode_step(model, n_tokens, batch_size, bits, weight_bits=weight_bits, block_size=block)
    needed = weight_bytes(model, weight_bits) + kv_cache_bytes(model, n_tokens, batch_size, bits, block_size=block)
    ranked = sorted(accelerators, key=step.tokens_per_second)
    rates, fits = [step.tokens_per_second(a) for a in ranked], [needed <= a.memory for a in ranked]
    figure = base_figure(60 + 26 * len(ranked), showlegend=False)
    figure.add_bar(
        orientation="h", x=rates, y=[a.name for a in ranked], cliponaxis=False,
        text=[f" {r:,.0f}" + ("" if fit else " · too small") for r, fit in zip(rates, fits, strict=True)],
        textposition="outside",
        marker={"color": [COOL if fit else FAINT for fit in fits], "line": {"color": NEUTRAL, "width": 1}},
        customdata=[[bytes_text(a.memory, False), f"{bytes_text(a.bandwidth, False)}/s", f"{a.flops / 1e12:g}"]
                    for a in ranked],
        hovertemplate="<b>%{y}</b><br>%{customdata[0]}, %{customdata[1]}, %{customdata[2]} TFLOP/s<extra></extra>",
    )  # fmt: skip
    figure.update_xaxes(visible=False, range=[0, max(rates) * 1.35])
    figure.update_yaxes(showgrid=False)
    n_fit = sum(fits)
    batch = "one sequence" if batch_size == 1 else f"{batch_size:,} sequences"
    title = (
        f"{n_fit} of {len(ranked)} accelerators hold {short_name(model)} with {batch} of {context_text(n_tokens)}; "
        f"the bound runs from {rates[0]:,.0f} to {rates[-1]:,.0f} tokens a second"
    )
    return Drawing(
        figure,
        title=title,
        note=f"Tokens a second, all sequences together, at the makers' peak figures. {bytes_text(needed, False)} are "
        "needed; pale: too small for that alone.",
        alt=f"{title}. " + "; ".join(f"{a.name} {r:,.0f}" for a, r in zip(ranked, rates, strict=True)) + ".",
        table={
            "accelerator": [a.name for a in ranked],
            "memory, GB": [a.memory / 1e9 for a in ranked],
            "bandwidth, GB/s": [a.bandwidth / 1e9 for a in ranked],
            "dense 16-bit TFLOP/s": [a.flops / 1e12 for a in ranked],
            "tokens a second at most": [round(r, 1) for r in rates],
            "limited by": [step.bound_by(a) for a in ranked],
            "holds it": fits,
            "source": [a.source for a in ranked],
        },
        formula=decode_formula(step, ranked[-1]),
    )


def _piece(name: str, n: int, colour: str, shape: str) -> dict:
    return {
        "type": "bar", "orientation": "h", "x": [n], "y": [0], "width": 0.8,
        "name": f"{name} {bytes_text(n, False)}", "hoverinfo": "name",
        "marker": {"color": colour, "pattern": {"shape": shape, "size": 6}},
    }  # fmt: skip


def _rate(name: str, rate: list[float], n_fit: int, shade: float, chosen: bool) -> list[dict]:
    """A line that is dotted from the first batch that does not fit."""
    style = {"color": COOL if chosen else NEUTRAL, "width": 4 if chosen else 2}
    cut = max(n_fit - 1, 0)
    shown = [f"{r:,.0f} tokens a second" for r in rate]
    parts = [(BATCHES[:n_fit], rate[:n_fit], "solid"), (BATCHES[cut:], rate[cut:], "dot")]
    return [
        {
            "type": "scatter", "x": list(x), "y": y, "mode": "lines+markers", "opacity": shade,
            "name": f"{name} tokens", "legendgroup": name, "showlegend": dash == "solid" or not n_fit,
            "line": {**style, "dash": dash}, "marker": {"size": 6},
            "customdata": shown[:n_fit] if dash == "solid" else shown[cut:], "hovertemplate": "%{customdata}",
            "hoverinfo": None if dash == "solid" or not n_fit else "skip",
        }
        for x, y, dash in parts
        if len(x) > (dash == "dot" and n_fit > 0)
    ]  # fmt: skip


def _verdict(plan: MemoryPlan, model: ModelConfig, machine: Accelerator, n_tokens: int) -> str:
    """What fits, in one sentence."""
    name, size = short_name(model), bytes_text(plan.weights, binary=False)
    if plan.free < 0:
        missing = bytes_text(-plan.free, binary=False)
        return f"{machine.name} is {missing} too small for {name}'s {size} of weights and the reserve"
    if not plan.n_users:
        return f"{machine.name} holds {name}'s {size} of weights, but no {context_text(n_tokens)} beside them"
    longest = "any length, as every layer slides" if plan.n_tokens is None else f"at most {plan.n_tokens:,} tokens"
    return (
        f"{machine.name} holds {name} and {count(plan.n_users, 'user')} of {context_text(n_tokens)}, "
        f"or one of {longest}"
    )
