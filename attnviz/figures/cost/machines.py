"""Figures of models on accelerators: the roofline bound on decoding."""

from __future__ import annotations

import math
from collections.abc import Sequence

from attnviz.cost import PRECISIONS, Accelerator, DecodeStep, Serving
from attnviz.cost.units import bytes_text, context_text, tokens_text
from attnviz.equations import tex_lines
from attnviz.figures.chart import Chart
from attnviz.figures.cost.captions import beyond_context, short_name
from attnviz.figures.cost.formulas import intensity_equations, rate_equation
from attnviz.figures.cost.placing import parallel_text
from attnviz.figures.cost.rates import rate_text, rounded_rate
from attnviz.figures.cost.reading import bandwidth_text, limit_text, memory_text, read_text
from attnviz.figures.drawing import Drawing
from attnviz.figures.markup import meanings
from attnviz.figures.theme import FAINT, NEUTRAL, OUTLINE, PETROL, base_figure
from attnviz.phrases import count, listed

BATCHES = tuple(2**k for k in range(11))  # 1 to 1,024 sequences
WHOLE = (
    "Embedding, output layer and d_ff are divided; norms, routers, learned positions and the matrices that make MLA's "
    "latents are whole on each. Context parallelism, which divides a cache by its tokens, is not counted."
)


def speed(serving: Serving) -> Drawing:
    """Draw the bound on tokens per second over the batch size at several contexts; dotted if the batch does not fit."""
    contexts = sorted({1024, 8192, 32_768, serving.n_tokens})
    largest, machine = _largest_batch(serving), serving.machine
    batches = sorted({*BATCHES, max(largest, 1)})
    figure = base_figure(420, hovermode="x unified", legend={"orientation": "h", "y": 1.02, "yanchor": "bottom"})
    rows: dict[str, list] = {"sequences at once": batches}
    shades = [0.4 + 0.6 * i / max(len(contexts) - 1, 1) for i in range(len(contexts))]
    for n, shade in zip(contexts, shades, strict=True):
        here = serving.at(n)
        steps = [here.step(b) for b in batches]
        rate = [step.tokens_per_second(machine) for step in steps]
        rows[f"tokens per second at {tokens_text(n)}"] = [rounded_rate(r) for r in rate]
        rows[f"limit at {tokens_text(n)}"] = [step.bound_by(machine) for step in steps]
        n_users = here.plan().n_users
        rows[f"fits at {tokens_text(n)}"] = [b <= n_users for b in batches]
        for trace in _rate(tokens_text(n), batches, rate, sum(rows[f"fits at {tokens_text(n)}"]), shade,
                           n == serving.n_tokens):  # fmt: skip
            figure.add_trace(trace)
    figure.update_xaxes(type="log", title="sequences at once", tickvals=list(BATCHES[::2]))
    figure.update_yaxes(type="log", title="tokens per second, all sequences together", dtick=1, tickformat=",")
    one, many = (serving.step(b) for b in (1, max(largest, 1)))
    first, last = rate_text(one.tokens_per_second(machine)), rate_text(many.tokens_per_second(machine))
    if not largest:
        title = f"One sequence does not fit; its bound: about {first} tokens per second"
    elif largest == 1:
        title = f"Only one sequence fits: at most about {first} tokens per second"
    else:
        title = f"At most about {last} tokens/s for {largest:,} sequences, {first} for one"
    equation = rate_equation(many, machine)
    return Drawing(
        figure,
        title=title,
        note=f"{beyond_context(serving.model, *contexts)}An upper bound; a line per context, dotted where the "
        f"sequences do not fit. For {count(many.batch_size, 'sequence')} {limit_text(serving, many)}.",
        more=f"{short_name(serving.model)} on {machine.name}: peak bandwidth and peak arithmetic, perfectly "
        f"overlapped. {_fit_note(serving, largest)} A step reads each sequence's cache once, and the "
        "weights once for all sequences; of an embedding that is not the output layer too it reads one row per token."
        f"{_experts_note(serving, many.batch_size)} For one sequence {limit_text(serving, one)}. "
        f"{peak_note(serving)}{parallel_note(serving)}",
        alt=f"{title}. {count(many.batch_size, 'sequence')}: {last} tokens per second, limited by "
        f"{many.bound_by(machine)}. One sequence: {first} tokens per second.",
        table=rows,
        formula=tex_lines(equation),
        legend=meanings(equation),
    )


def roof(serving: Serving) -> Drawing:
    """Draw the roofline, the attainable FLOP/s by arithmetic intensity, and the model's decode steps on it."""
    machine, largest = serving.machine, _largest_batch(serving)
    batches = sorted({*BATCHES, max(largest, 1)})
    steps, fits = [serving.step(b) for b in batches], [b <= largest for b in batches]
    last = serving.step(max(largest, 1))
    batch = f"{largest:,} sequences fit" if largest > 1 else f"One sequence {'fits' if largest else 'does not fit'}"
    ridge = rate_text(machine.ridge)
    attention, one = serving.attention_intensity(), steps[0]
    alone = (
        f"One sequence: {one.intensity:.3g} FLOPs per byte, {1e3 * one.seconds(machine):,.3g} ms or more per step, as "
        f"{limit_text(serving, one)}"
    )
    side = "below" if last.bound_by(machine) == "memory" else "above"
    title = f"{batch}: {rate_text(last.intensity)} FLOPs per byte, {side} the ridge of {ridge}"
    equations = intensity_equations(serving.model, last, serving.n_tokens)
    return Drawing(
        _roof_chart(steps, fits, machine, attention),
        title=title,
        note=f"{beyond_context(serving.model, serving.n_tokens)}Points: batches of 1 to {batches[-1]:,} sequences, "
        "weights included; hollow: does not fit. Dotted: the ridge, left of which a step is memory-bound. Dashed: "
        f"attention alone, {attention:.3g} FLOPs per byte of cache.",
        more=f"Accelerator: {machine.name}. {alone}. {_fit_note(serving, largest)} {_batching_note(serving)}"
        f"{_experts_note(serving, last.batch_size)} {peak_note(serving)}",
        alt=f"{title}. {alone}; {batches[-1]:,} sequences: "
        f"{rate_text(steps[-1].intensity)}; attention alone: {attention:.3g}; ridge: {ridge}.",
        table={
            "sequences at once": batches,
            "fits": fits,
            "FLOPs per step": [s.flops for s in steps],
            "weight bytes read": [s.weight_bytes for s in steps],
            "cache bytes read": [s.cache_bytes for s in steps],
            "FLOPs per byte": [rounded_rate(s.intensity) for s in steps],
            "limited by": [s.bound_by(machine) for s in steps],
            "FLOPs per byte, attention alone": [rounded_rate(attention)] * len(steps),
        },
        formula=tex_lines(*equations),
        legend=meanings(*equations),
    )


def _roof_chart(steps: Sequence[DecodeStep], fits: Sequence[bool], machine: Accelerator, attention: float) -> Chart:
    """Return the roofline and a point per decode step; hollow if its batch does not fit."""
    x = [min(0.25, steps[0].intensity / 2, attention / 2 or 0.25), machine.ridge, max(4096.0, 2 * machine.ridge)]
    figure = base_figure(400, showlegend=False)
    figure.add_scatter(
        x=x, y=[min(v * machine.bandwidth, machine.flops) for v in x], mode="lines",
        line={"color": NEUTRAL, "width": 3}, hoverinfo="skip",
    )  # fmt: skip
    figure.add_scatter(
        x=[s.intensity for s in steps],
        y=[min(s.intensity * machine.bandwidth, machine.flops) for s in steps],
        mode="markers",
        marker={"size": 10, "color": PETROL, "symbol": ["circle" if fit else "circle-open" for fit in fits]},
        customdata=[[count(s.batch_size, "sequence") + ("" if fit else " (does not fit)"), rate_text(s.intensity),
                     rate_text(s.tokens_per_second(machine))] for s, fit in zip(steps, fits, strict=True)],
        hovertemplate="%{customdata[0]}: %{customdata[1]} FLOPs per byte<br>"
        "at most about %{customdata[2]} tokens per second<extra></extra>",
    )  # fmt: skip
    figure.add_vline(x=machine.ridge, line={"color": FAINT, "dash": "dot"})
    if attention:
        figure.add_vline(x=attention, line={"color": PETROL, "dash": "dash"})
        figure.add_annotation(
            x=math.log10(attention), y=0, xref="x", yref="y domain", yanchor="bottom", showarrow=False,
            xanchor="left" if attention < 16 else "right", text=f" attention alone: {attention:.3g} ",
        )  # fmt: skip
    figure.update_xaxes(type="log", title="FLOPs per byte read", tickvals=[1, 10, 100, 1000])
    figure.update_yaxes(type="log", title="FLOP/s", dtick=1, tickformat="~s")
    return figure


def machines(accelerators: Sequence[Accelerator], serving: Serving, batch_size: int = 1) -> Drawing:
    """Draw the bound on each accelerator for this batch and context; faint if they do not fit."""
    step, model = serving.step(batch_size), serving.model
    servings = sorted((serving.on(a) for a in accelerators), key=lambda s: s.tokens_per_second(batch_size))
    rates = [s.tokens_per_second(batch_size) for s in servings]
    fits = [batch_size <= s.plan().n_users for s in servings]
    names, ranked = [s.accelerator.name for s in servings], [s.machine for s in servings]
    fastest = max((i for i, fit in enumerate(fits) if fit), default=len(rates) - 1)
    bound = f"{rate_text(rates[fastest])} tokens/s"
    holding = f"{sum(fits) or 'None'} of {len(fits)} hold{'s' * (sum(fits) < 2)} {count(batch_size, 'sequence')}"
    title = f"{holding}; highest bound: about {bound}"
    equation = rate_equation(step, ranked[fastest])
    needed = bytes_text(serving.needed(batch_size)) + (" on each" if serving.count > 1 else "")
    return Drawing(
        _machine_bars(ranked, names, rates, fits),
        title=title,
        note=f"{beyond_context(model, serving.n_tokens)}An upper bound on tokens per second for "
        f"{count(batch_size, 'sequence')} of {context_text(serving.n_tokens)}{' together' * (batch_size > 1)}. A step "
        f"reads {read_text(serving, step)}. Faint bars: {needed} do not fit.",
        more=f"Beside what is needed, {serving.reserve:.0%} are kept in reserve. "
        f"{short_name(model)} at the makers' peak figures.{_experts_note(serving, batch_size)} Memory is as the "
        "driver reports it if a source is known, else the data sheet's GB of 10⁹ bytes. "
        f"{_peaks_note(servings)} The equation is for {names[fastest]}.",
        alt=f"{title}. " + "; ".join(
            f"{name} {rate_text(r)} tokens per second" for name, r in zip(names, rates, strict=True)) + ".",
        table={
            "accelerator": names,
            "tokens per second at most": [rounded_rate(r) for r in rates],
            "limited by": [step.bound_by(a) for a in ranked],
            "fits": fits,
            "memory used here, bytes": [a.memory for a in ranked],
            "read in": [a.reported_by or "data sheet, GB = 10⁹ B" for a in ranked],
            "memory by data sheet, GB": [a.data_sheet_gb for a in ranked],
            "bandwidth, GB/s": [a.bandwidth / 1e9 for a in ranked],
            "peak dense TFLOP/s": [a.flops / 1e12 for a in ranked],
            "arithmetic": [a.arithmetic for a in ranked],
            "data sheet": [a.source for a in ranked],
        },
        formula=tex_lines(equation),
        legend=meanings(equation),
    )  # fmt: skip


def _machine_bars(
    ranked: Sequence[Accelerator], names: Sequence[str], rates: Sequence[float], fits: Sequence[bool]
) -> Chart:
    """Return a bar per accelerator, as long as its bound; faint if weights and caches do not fit."""
    figure = base_figure(60 + 26 * len(ranked), showlegend=False)
    figure.add_bar(
        orientation="h", x=rates, y=names, cliponaxis=False,
        text=[f" {rate_text(r)}" + ("" if fit else " · too small") for r, fit in zip(rates, fits, strict=True)],
        textposition="outside",
        marker={"color": [PETROL if fit else FAINT for fit in fits], "line": OUTLINE},
        customdata=[[memory_text(a), bandwidth_text(a), _teraflops(a), a.arithmetic] for a in ranked],
        hovertemplate="<b>%{y}</b><br>%{customdata[0]}<br>%{customdata[1]}, %{customdata[2]} TFLOP/s (%{customdata[3]})"
        "<extra></extra>",
    )  # fmt: skip
    figure.update_xaxes(visible=False, range=[0, max(rates) * 1.35])
    figure.update_yaxes(showgrid=False)
    return figure


def _largest_batch(serving: Serving) -> int:
    """Return the most sequences that fit, at most the largest batch drawn; 0 if none fits."""
    return min(serving.plan().n_users, BATCHES[-1])


def _teraflops(machine: Accelerator) -> str:
    """Format the peak in TFLOP/s: "989", "165.2", "15,832"."""
    return f"{machine.flops / 1e12:,.1f}".removesuffix(".0")


def _fit_note(serving: Serving, largest: int) -> str:
    reserve, long = f"a reserve of {serving.reserve:.0%}", f"of {context_text(serving.n_tokens)}"
    if largest == BATCHES[-1]:
        return (
            f"At least {largest:,} sequences {long} fit beside the weights and {reserve}; up to {largest:,} are drawn."
        )
    if largest:
        return (
            f"At most {count(largest, 'sequence')} {long} fit{'s' * (largest == 1)} beside the weights and {reserve}."
        )
    memory = bytes_text(serving.accelerator.memory // serving.count) + (" each" if serving.count > 1 else "")
    return f"Weights, one sequence {long} and {reserve} do not fit in {memory}."


def parallel_note(serving: Serving) -> str:
    """State what is assumed of several accelerators, and what each of them holds."""
    n = serving.count
    if n == 1:
        return ""
    return (
        f" Bandwidth and arithmetic of the {n:,} are added up, and communication is assumed to take no time; what "
        f"several hold is read by each. {parallel_text(serving)} {WHOLE}"
    )


def _batching_note(serving: Serving) -> str:
    """State the FLOPs per byte that a larger batch approaches."""
    most = serving.step(1).largest_intensity
    return (
        f"A larger batch shares the reading of the weights, not of the caches: its FLOPs per byte approach "
        f"{rate_text(most)}. Attention alone: FLOPs of scores and weighted sums per byte of cache read, at any batch."
    )


def _experts_note(serving: Serving, batch_size: int) -> str:
    """State how many experts a step is expected to read; the bound holds for such choices only."""
    experts = serving.model.experts
    if experts is None:
        return ""
    read = f"{experts.read(batch_size):.1f} of {experts.n_routed} routed experts"
    return (
        f" Counted as read for {count(batch_size, 'sequence')}: {read} per layer, the expected number if tokens choose "
        "experts evenly. A step whose tokens choose the same experts reads fewer and can be faster."
    )


def peak_note(serving: Serving) -> str:
    """State the peak arithmetic that is assumed, and why."""
    machine = serving.machine
    peak = f"Peak arithmetic: {_teraflops(machine)} TFLOP/s, dense {machine.arithmetic}"
    if _is_fp16_peak(serving):
        peak += ", that of fp16, as its tensor cores do not multiply bf16"
    return f"{peak}. {_arithmetic_note(serving, machine.arithmetic == '16-bit')}".strip()


def _is_fp16_peak(serving: Serving) -> bool:
    """Check whether bf16 is chosen on an accelerator whose peak is fp16's."""
    return not serving.machine.bf16 and "bf16" in (serving.weights, serving.precision)


def _peaks_note(servings: Sequence[Serving]) -> str:
    """State the peaks that are assumed of several accelerators with the same model."""
    serving = servings[0]
    if serving.weights == serving.precision == "fp8":
        return "Assumed: fp8 is multiplied at the fp8 peak where the data sheet has one, else at the 16-bit peak."
    without = [s.accelerator.name for s in servings if _is_fp16_peak(s)]
    fp16 = f" (fp16 for {listed(without)}, whose tensor cores do not multiply bf16)" if without else ""
    return f"Peak arithmetic: dense 16-bit{fp16}. {_arithmetic_note(serving, True)}".strip()


def _arithmetic_note(serving: Serving, sixteen: bool) -> str:
    formats = {serving.weights, serving.precision}
    if not sixteen:
        return "Assumed: fp8 weights and cache are multiplied in fp8."
    if formats == {"fp8"}:
        return "Assumed: fp8 is widened to 16 bits, as the data sheet gives no fp8 peak."
    narrow = " and ".join(sorted(each for each in formats if PRECISIONS[each][0] < 16))
    widened = f"Assumed: {narrow} numbers are widened to 16 bits before they are multiplied. " if narrow else ""
    return (widened + ("fp32 arithmetic is slower than this peak." if "fp32" in formats else "")).strip()


def _rate(name: str, batches: list[int], rate: list[float], n_fit: int, shade: float, chosen: bool) -> list[dict]:
    """Return the traces of one line, dotted after the last batch that fits."""
    style = {"color": PETROL if chosen else NEUTRAL, "width": 4 if chosen else 2}
    cut = max(n_fit - 1, 0)
    shown = [f"{rate_text(r)} tokens per second" for r in rate]
    parts = [(batches[:n_fit], rate[:n_fit], "solid"), (batches[cut:], rate[cut:], "dot")]
    return [
        {
            "type": "scatter", "x": list(x), "y": y, "mode": "lines+markers", "opacity": shade,
            "name": f"{name} token{'s' * (name != '1')}", "legendgroup": name,
            "showlegend": dash == "solid" or not n_fit,
            "line": {**style, "dash": dash}, "marker": {"size": 6},
            "customdata": shown[:n_fit] if dash == "solid" else shown[cut:], "hovertemplate": "%{customdata}",
            "hoverinfo": None if dash == "solid" or not n_fit else "skip",
        }
        for x, y, dash in parts
        if len(x) > (dash == "dot" and n_fit > 0)
    ]  # fmt: skip
