"""Figures of a decode step with each type of attention: its FLOPs, the cache that it reads, the parameters."""

from __future__ import annotations

from collections.abc import Sequence

from attnviz.config import ModelConfig
from attnviz.cost import attention_name, cache, count_parameters, kv_cache_bytes
from attnviz.cost.decode import attention_cost, attention_flops
from attnviz.equations import Equation, tex_lines
from attnviz.figures.drawing import Caption, Drawing, drawn
from attnviz.figures.groups import STRONG, panel, share_text
from attnviz.figures.markup import meanings
from attnviz.figures.theme import BROWN, FAINT, NEUTRAL, PETROL, base_figure
from attnviz.phrases import count


def work(configs: Sequence[ModelConfig], selected: ModelConfig, n_tokens: int) -> Drawing:
    """Draw the costs of one decode step at n_tokens for each configuration, as a share of the first one's."""
    costs = _costs(configs, n_tokens)
    names, here = [attention_name(c) for c in configs], configs.index(selected)
    figure = base_figure(height=300, hovermode="x unified", legend={"orientation": "h", "y": 1.02, "yanchor": "bottom"})
    styles = (("solid", "circle", PETROL), ("dash", "square", BROWN), ("dot", "diamond", NEUTRAL))
    for (what, values), (dash, symbol, colour) in zip(costs.items(), styles, strict=True):
        figure.add_scatter(
            x=list(range(len(names))), y=[value / values[0] for value in values], name=what, mode="lines+markers",
            line={"dash": dash, "color": colour}, marker={"symbol": symbol, "size": 9},
            text=[f"{value:,}" for value in values], hovertemplate="%{y:.1%} (%{text})",
        )  # fmt: skip
    figure.add_vrect(x0=here - 0.2, x1=here + 0.2, fillcolor=FAINT, line={"width": 0}, layer="below")
    figure.update_xaxes(tickvals=list(range(len(names))), ticktext=names, showgrid=False)
    figure.update_yaxes(title=f"share of {names[0]}", tickformat=".0%", rangemode="tozero")
    return drawn(figure, _compared_caption(configs, selected, n_tokens, costs))


def _compared_caption(
    configs: Sequence[ModelConfig], selected: ModelConfig, n_tokens: int, costs: dict[str, list[int]]
) -> Caption:
    """Return title, note and numbers of a decode step with each attention; the panel above is on the selected one."""
    names, memory = [attention_name(c) for c in configs], costs["cache bytes read"]
    equation, title = step_cache_bytes(selected, n_tokens), _reads(names, costs, configs.index(selected))
    last = "The only token" if n_tokens == 1 else f"The last of {count(n_tokens, 'token')}"
    return Caption(
        title=title,
        note=f"One decode step with each attention, as a share of {names[0]}; the shaded one is selected. "
        f"{last} attends to {_attended_text(selected, n_tokens)}."
        f"{_reads_least(names, memory)}",
        more=f"{_counted_text(selected)} The equation is the cache that {names[configs.index(selected)]} reads.",
        alt=f"{title}. " + "; ".join(f"{name} {n:,} B" for name, n in zip(names, memory, strict=True)) + ".",
        table={"attention": names, **costs},
        formula=tex_lines(equation),
        legend=meanings(equation),
    )


def _reads(names: Sequence[str], costs: dict[str, list[int]], here: int) -> str:
    """State what the selected attention reads and computes, as shares of the first one's; the first one's bytes."""
    memory, flops = costs["cache bytes read"], costs["attention FLOPs"]
    if here == 0:
        return f"{names[0]} reads {memory[0]:,} B of cache per decode step"
    return (
        f"{names[here]} reads {share_text(memory[here] / memory[0])} of {names[0]}'s cache, with "
        f"{share_text(flops[here] / flops[0])} of {names[0]}'s attention FLOPs"
    )


def _reads_least(names: Sequence[str], memory: Sequence[int]) -> str:
    """Name the attention that reads the least cache; "" without another to compare it with."""
    least = memory.index(min(memory))
    return f" {names[least]} reads the least cache: {share_text(memory[least] / memory[0])}." if len(names) > 1 else ""


def _counted_text(c: ModelConfig) -> str:
    """State which products are counted as attention FLOPs, and what is assumed."""
    text = f"Attention FLOPs are scores and weighted sum; {c.mixer.counted_when_decoding(c.n_layers)}"
    return text if c.causal else f"{text} Decoding with a cache needs a causal mask, so one is assumed."


def work_panel(configs: Sequence[ModelConfig], selected: ModelConfig, n_tokens: int) -> dict:
    """Return the selected configuration's costs for the `to_scale` component, as shares of the first one's."""
    here, rects, labels, longest = configs.index(selected), [], [], 1.0
    for row, (what, values) in enumerate(_costs(configs, n_tokens).items()):
        share = values[here] / values[0]
        hover = f"{attention_name(selected)} {values[here]:,}, {attention_name(configs[0])} {values[0]:,}"
        rects.append([0, row + 0.15, share, 0.7, NEUTRAL, STRONG, hover])
        labels += [[0, row + 0.5, "before", what, ""], [share, row + 0.5, "after strong", share_text(share), ""]]
        longest = max(longest, share)
    return panel(work_caption(configs, selected, n_tokens), longest, len(rects), rects, labels, row=32)


def work_caption(configs: Sequence[ModelConfig], selected: ModelConfig, n_tokens: int) -> Caption:
    """Return title, note and numbers of a decode step."""
    costs, here = _costs(configs, n_tokens), configs.index(selected)
    equations = step_flops(selected, n_tokens), step_cache_bytes(selected, n_tokens)
    names = [attention_name(c) for c in configs]
    flops, memory = (share_text(costs[what][here] / costs[what][0]) for what in ("attention FLOPs", "cache bytes read"))
    title = f"{names[here]}: {flops} of {names[0]}'s attention FLOPs, {memory} of its cache"
    if here == 0:
        n_flops, n_bytes = (costs[what][0] for what in ("attention FLOPs", "cache bytes read"))
        title = f"{names[0]}: {n_flops:,} attention FLOPs and {n_bytes:,} B of cache per decode step"
    same = equations[0].value == equations[1].value
    coincidence = f" FLOPs and bytes are the same number here, {equations[0].value:,}." if same else ""
    return Caption(
        title=title,
        note=f"One decode step: the last of {count(n_tokens, 'token')} attends to "
        f"{_attended_text(selected, n_tokens)}. {selected.mixer.flops_note(selected.n_layers)}{coincidence}",
        alt=f"{title}; {costs['parameters of the model'][here]:,} of "
        f"{costs['parameters of the model'][0]:,} parameters.",
        table={"attention": names, **costs},
        formula=tex_lines(*equations),
        line="; ".join(equation.text() for equation in equations),
        legend=meanings(*equations),
    )


def step_flops(c: ModelConfig, n_tokens: int) -> Equation:
    """Return the FLOPs of one new token's scores and weighted sum; MLA in its absorbed form, on the latent itself."""
    return Equation(attention_cost(c, n_tokens), unit="FLOPs")


def step_cache_bytes(c: ModelConfig, n_tokens: int) -> Equation:
    """Return the equation of the cache bytes that one new token reads, in float32."""
    return Equation(cache(c, n_tokens, bits=32), unit="B")


def _all_full(c: ModelConfig) -> bool:
    return c.sliding_window is None or len(set(c.full_layers)) == c.n_layers


def _attended_text(c: ModelConfig, n_tokens: int) -> str:
    if c.sliding_window is None or _all_full(c):
        return f"{count(n_tokens, 'key')} in each layer"
    n_full, nearest = len(set(c.full_layers)), min(n_tokens, c.sliding_window + c.n_sinks)
    sinks = f" + {count(c.n_sinks, 'attention-sink token')}" if c.n_sinks else ""
    inside = f"{count(nearest, 'key')} in each layer (window {c.sliding_window}{sinks})"
    return inside + (f", to {n_tokens:,} in {count(n_full, 'full layer')}" if n_full else "")


def _costs(configs: Sequence[ModelConfig], n_tokens: int) -> dict[str, list[int]]:
    return {
        "attention FLOPs": [attention_flops(c, n_tokens) for c in configs],
        "cache bytes read": [kv_cache_bytes(c, n_tokens, bits=32) for c in configs],
        "parameters of the model": [count_parameters(c).total for c in configs],
    }
