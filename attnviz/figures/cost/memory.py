"""Figure of a model in the memory of accelerators: weights, caches, a reserve, and what is left over."""

from __future__ import annotations

from attnviz.cost import MemoryPlan, Serving, with_its_scales
from attnviz.cost.units import bytes_text, context_text
from attnviz.equations import tex_lines
from attnviz.figures.cost.captions import beyond_context, is_beyond, short_name, weights_note
from attnviz.figures.cost.formulas import fit_equation
from attnviz.figures.cost.machines import parallel_note
from attnviz.figures.cost.placing import allocation
from attnviz.figures.cost.reading import memory_text
from attnviz.figures.drawing import Drawing
from attnviz.figures.markup import meanings
from attnviz.figures.theme import BROWN, FAINT, NEUTRAL, PETROL, base_figure
from attnviz.phrases import count

LARGEST_SPLIT = 64  # most sequences that are drawn one by one


def filling(serving: Serving) -> Drawing:
    """Draw how weights, caches and reserve fill the memory, and what is left over."""
    plan, by_data_sheet = serving.plan(), serving.on(serving.accelerator.by_data_sheet()).plan()
    legend = {"orientation": "h", "y": 1.2, "yanchor": "bottom", "traceorder": "normal"}
    figure = base_figure(190, barmode="stack", legend=legend)
    used = plan.users_here * plan.cache_of_one
    left = max(plan.free - used, 0)
    pieces = {"weights": plan.weights, "cache": used, "left over": left, "reserve": plan.reserve}
    styles = {"weights": (NEUTRAL, ""), "cache": (PETROL, ""), "left over": (FAINT, ""), "reserve": (BROWN, "/")}
    for name, n in pieces.items():
        colour, shape = styles[name]
        figure.add_trace(_piece(name, n, colour, shape))
    widest = max(plan.memory, plan.weights + plan.reserve)
    for i in range(1, plan.users_here if plan.users_here <= LARGEST_SPLIT else 0):
        x = plan.weights + i * plan.cache_of_one
        figure.add_shape(type="line", x0=x, x1=x, y0=-0.4, y1=0.4, line={"width": 1, "color": FAINT})
    figure.add_vline(x=plan.memory, line={"width": 2, "color": NEUTRAL})
    figure.add_annotation(
        x=plan.memory, y=1, xref="x", yref="y domain", xanchor="right", yanchor="bottom", showarrow=False,
        text=f"memory {memory_text(serving.accelerator)}",
    )  # fmt: skip
    figure.update_xaxes(visible=False, range=[0, widest * 1.02])
    figure.update_yaxes(visible=False, range=[-0.5, 0.5])
    title, equation = _fit_title(plan, serving), fit_equation(plan)
    return Drawing(
        figure,
        title=title,
        note=f"{beyond_context(serving.model, serving.n_tokens)}{_drawn(serving)}, to scale. "
        f"{_longest_context(plan, serving)}Caches in {with_its_scales(serving.precision)}: "
        f"{bytes_text(plan.cache_of_one)} for one sequence.",
        more=f"The reserve of {serving.reserve:.0%} is an assumption, for activations and allocation overhead. "
        f"{_memory_note(serving, by_data_sheet)} {weights_note(serving.weights)}{parallel_note(serving)} "
        f"{' '.join(allocation(serving))}".rstrip(),
        alt=f"{title}. "
        + "; ".join(f"{name} {bytes_text(n)}" for name, n in pieces.items())
        + f"; cache of one sequence {bytes_text(plan.cache_of_one)}.",
        table={
            "what": [*pieces, "cache of one sequence", "memory", "memory by the data sheet, GB = 10⁹ B"],
            "bytes": [*pieces.values(), plan.cache_of_one, plan.memory, by_data_sheet.memory],
        },
        formula=tex_lines(equation),
        legend=meanings(equation),
    )


def _drawn(serving: Serving) -> str:
    return "The memory" if serving.count == 1 else f"The memory of one of the {serving.count:,} accelerators"


def _memory_note(serving: Serving, by_data_sheet: MemoryPlan) -> str:
    """State the memory size that is used, its source, and the result with the data sheet's GB instead."""
    a = serving.accelerator
    if a.is_typed:
        return f"{a.name}: typed in."
    each = " each" if a.count > 1 else ""
    gb = f"{a.data_sheet_gb / a.count:g} GB{each} of the data sheet, read as 10⁹ bytes"
    if not a.reported_by:
        return f"{a.name}: the {gb}; the memory that its driver reports is not known here."
    sum_text = bytes_text(a.memory) + (" in all" if each else "")
    return (
        f"{a.name}: {a.memory // a.count // 2**20:,} MiB{each} ({sum_text}), as the driver reports ({a.reported_by}). "
        f"With the {gb}, {count(by_data_sheet.n_users, 'sequence')} would fit."
    )


def _piece(name: str, n: int, colour: str, shape: str) -> dict:
    return {
        "type": "bar", "orientation": "h", "x": [n], "y": [0], "width": 0.8,
        "name": f"{name} {bytes_text(n)}", "hoverinfo": "name",
        "marker": {"color": colour, "pattern": {"shape": shape, "size": 6}},
    }  # fmt: skip


def _fit_title(plan: MemoryPlan, serving: Serving) -> str:
    """State in one sentence what fits."""
    machine, name = serving.accelerator.name, short_name(serving.model)
    holds = f"{machine} {'holds' if serving.count == 1 else 'hold'} {name}"
    each = " on each" if serving.count > 1 else ""
    if not plan.weights_fit:
        missing = bytes_text(plan.weights - plan.memory)
        return f"{machine}: {name}'s weights alone need {missing} more{each}"
    if plan.free < 0:
        missing = bytes_text(-plan.free)
        return f"{holds}'s weights; the reserve needs {missing} more{each}"
    if not plan.n_users:
        return f"{holds}'s weights, but not {context_text(serving.n_tokens)} beside them"
    return f"{holds} and {count(plan.n_users, 'sequence')} of {context_text(serving.n_tokens)}"


def _longest_context(plan: MemoryPlan, serving: Serving) -> str:
    """State the longest context of a single sequence that fits; the model's own unless the note already gives it."""
    model, warned = serving.model, is_beyond(serving.model, serving.n_tokens)
    if plan.free < 0:
        return ""
    if plan.n_tokens is None:
        return "A single sequence fits at any length up to 10⁹ tokens. "
    over = ""
    if is_beyond(model, plan.n_tokens) and not warned:
        over = f", beyond the {context_text(model.max_context)} it was made for"
    return f"A single sequence fits up to {plan.n_tokens:,} tokens{over}. "
