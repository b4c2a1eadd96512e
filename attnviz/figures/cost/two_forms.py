"""Figure of MLA's two forms over the new tokens of a step: where the absorbed form takes fewer FLOPs."""

from __future__ import annotations

from attnviz.cost import Serving, bits_with_scales, with_its_scales
from attnviz.cost.two_forms import TwoForms, absorbed_mixer
from attnviz.cost.units import bytes_text, context_text, tokens_text
from attnviz.equations import Equation, number_text, tex_lines
from attnviz.figures.chart import Chart
from attnviz.figures.cost.captions import beyond_context, short_name
from attnviz.figures.drawing import Drawing
from attnviz.figures.markup import meanings
from attnviz.figures.theme import BROWN, NEUTRAL, PETROL, base_figure
from attnviz.mechanisms import LETTERS, letter
from attnviz.phrases import count

LINES = {  # form -> name, colour, dash, width
    "absorbed": ("absorbed", PETROL, "solid", 4),
    "expanded": ("expanded in each step", BROWN, "solid", 3),
    "kept": ("expanded once and cached", NEUTRAL, "dot", 2),
}
COUNTED = (
    "Counted are scores, weighted sums, and the products with W_UK and W_UV of one layer and one sequence: for each "
    "new token in the absorbed form, for each of all tokens where their latents are expanded in the step. The "
    "projections of the new tokens are the same in both."
)


def two_forms(serving: Serving) -> Drawing:
    """Draw the FLOPs of one layer in MLA's two forms over the new tokens. ValueError for a model without them."""
    mixer = absorbed_mixer(serving.model)
    if mixer is None:
        raise ValueError(f"{serving.model.name or 'the model'} has no absorbed form")
    forms = TwoForms(mixer, serving.n_tokens)
    first, moved = forms.first_expanded, forms.bytes_moved(bits_with_scales(serving.precision))
    steps = sorted({*(2**k for k in range(serving.n_tokens.bit_length())), serving.n_tokens, *_around(first)})
    flops = {n: forms.flops(n) for n in steps}
    title, equations = _title(first), _equations(forms)
    return Drawing(
        _chart(flops, first),
        title=title,
        note=f"{beyond_context(serving.model, serving.n_tokens)}FLOPs of one layer for the last of "
        f"{context_text(serving.n_tokens)}. A step with the cache in {with_its_scales(serving.precision)} moves "
        f"{bytes_text(moved['absorbed'])} in the absorbed form, {bytes_text(moved['expanded'])} if it expands, and "
        f"{bytes_text(moved['kept'])} if keys and values were cached expanded (dotted).",
        more=f"{short_name(serving.model)}. {COUNTED} Bytes: the cache is read; keys and values that are expanded in "
        f"each step are written and read once besides, in 16 bits. A decode step has one new token, a prefill all.",
        alt=f"{title}. " + "; ".join(
            f"{count(n, 'new token')}: absorbed {_short(flops[n]['absorbed'])}, expanded "
            f"{_short(flops[n]['expanded'])} FLOPs"
            for n in dict.fromkeys((1, *_around(first), serving.n_tokens))) + ".",
        table={
            "new tokens": steps,
            **{f"FLOPs, {name}": [flops[n][form] for n in steps] for form, (name, *_) in LINES.items()},
            **{f"bytes moved, {name}": [moved[form]] * len(steps) for form, (name, *_) in LINES.items()},
        },
        formula=tex_lines(*equations),
        legend=meanings(*equations),
    )  # fmt: skip


def _short(n: int) -> str:
    return number_text(n, scientific=True)


def _around(first: int | None) -> list[int]:
    """Return the last number of new tokens for which the absorbed form takes fewer FLOPs, and the next."""
    return [] if first is None else [n for n in (first - 1, first) if n]


def _title(first: int | None) -> str:
    if first is None:
        return "The absorbed form takes fewer FLOPs for any number of new tokens"
    if first == 1:
        return "Expanding takes fewer FLOPs from 1 new token on"
    return f"Up to {count(first - 1, 'new token')}, the absorbed form takes fewer FLOPs"


def _equations(forms: TwoForms) -> list[Equation]:
    """Return the number of new tokens at which both take as many, or the FLOPs of each for one new token."""
    S = letter("S", forms.n_tokens, "tokens, including the new ones")
    found = forms.mixer.equal_at(S)
    if found is None:
        work = forms.mixer.two_forms(S, letter("T", 1))
        return [Equation(work[form], unit=f"FLOPs, {form}") for form in ("absorbed", "expanded")]
    limit, here = found
    meaning, tex = LETTERS["Tₑ"]
    return [
        Equation(limit, "Tₑ", tex, meaning=meaning),
        Equation(here, "T", meaning="new tokens at which both take as many FLOPs"),
    ]


def _chart(flops: dict[int, dict[str, int]], first: int | None) -> Chart:
    """Return a line per form, and a mark where the absorbed form takes fewer FLOPs for the last time."""
    figure = base_figure(400, hovermode="x unified", legend={"orientation": "h", "y": 1.02, "yanchor": "bottom"})
    for form, (name, colour, dash, width) in LINES.items():
        figure.add_scatter(
            x=list(flops), y=[each[form] for each in flops.values()], mode="lines", name=name,
            line={"color": colour, "dash": dash, "width": width}, hovertemplate="%{y:.3g} FLOPs",
        )  # fmt: skip
    if first is not None and first > 1:
        figure.add_scatter(
            x=[first - 1], y=[flops[first - 1]["absorbed"]], mode="markers+text", text=[f"{first - 1:,}"],
            textposition="bottom right", marker={"size": 11, "color": PETROL}, showlegend=False, hoverinfo="skip",
        )  # fmt: skip
    ticks = [n for n in flops if n.bit_count() == 1][::3]
    figure.update_xaxes(type="log", title="new tokens", tickvals=ticks, ticktext=list(map(tokens_text, ticks)))
    figure.update_yaxes(type="log", title="FLOPs of one layer", dtick=1, tickformat="~s")
    return figure
