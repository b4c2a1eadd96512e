"""Figures of RoPE on a head's queries and keys: scores by distance, the decay bound, shifts, maps.

T query tokens, S key tokens, D head_dim. Scores are divided by sqrt(D), as the head uses them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from attnviz.equations import Equation, Expression, Value, function, number_text, tex_lines, total
from attnviz.figures.chart import Chart
from attnviz.figures.drawing import Drawing, quoted
from attnviz.figures.groups import share_text
from attnviz.figures.markup import meanings
from attnviz.figures.numbers import significant
from attnviz.figures.rope import subscript
from attnviz.figures.theme import BROWN, DIVERGING, FAINT, NEUTRAL, PETROL, base_figure, kv_colour, kv_scale
from attnviz.figures.token_maps import add_cells, add_colourbar, add_masked, blocks, few_ticks, token_map_figure
from attnviz.mechanisms import letter
from attnviz.phrases import count, span, written

if TYPE_CHECKING:
    from attnviz.analysis.rope import DecayBound
    from attnviz.experiments.rope_equalities import ShiftedOutputs, ShiftedScores

LEGEND = {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0}
MAP_HEIGHT, MAX_CELLS, MAX_TICKS = 400, 256, 16
MAX_TERMS = 4  # of a sum in a formula: to fit a column, pairs are added up in groups, from fast to slow
ARITHMETICS = {  # field of ShiftedScores -> name, dash, symbol, colour
    "float32_angles": ("float32 throughout, angles too", "dot", "triangle-up", BROWN),
    "float32": ("float32, angles in float64 (run here)", "dash", "square", NEUTRAL),
    "float64": ("float64", "solid", "circle", PETROL),
}


@dataclass(frozen=True)
class Head:
    """The head that is drawn: its layer, the KV head it reads, and the origin of its weights.

    latent: the attention is MLA, which has no KV heads; kv_head then only selects the colour.
    """

    layer: int
    head: int
    kv_head: int
    n_kv_heads: int
    origin: str
    latent: bool = False

    @property
    def name(self) -> str:
        name = f"layer {self.layer}, head {self.head}"
        return name if self.latent else f"{name} (KV head {self.kv_head})"

    @property
    def caption(self) -> str:
        return f"{self.name[0].upper()}{self.name[1:]}, {self.origin}"

    @property
    def colour(self) -> str:
        return kv_colour(self.kv_head, self.n_kv_heads)


def moved_apart(
    parts: NDArray, m: int, n: int, q_label: str, k_label: str, head_dim: int, unrotated: int, head: Head
) -> Drawing:
    """Draw the score of the query at m and the key at n over their distance, with both vectors unchanged.

    parts (n_pairs + 1, n_distances): each pair's part of q·k at the distances 0, 1, … (0, -1, … for a key after the
    query), and last the unrotated part, of `unrotated` dimensions.
    """
    scores, here = parts.sum(0) / head_dim**0.5, abs(m - n)
    distances = np.arange(len(scores)) * (1 if m >= n else -1)
    figure = base_figure(height=300, showlegend=False)
    figure.add_scatter(
        x=distances, y=scores, mode="lines", line={"color": head.colour},
        hovertemplate="distance %{x}: score %{y:.3f}<extra></extra>",
    )  # fmt: skip
    figure.add_scatter(
        x=[m - n], y=[scores[here]], mode="markers", hoverinfo="skip", marker={"size": 11, "color": head.colour},
    )  # fmt: skip
    figure.update_xaxes(title="distance in tokens", showgrid=False, zeroline=False)
    figure.update_yaxes(title="score q·k/√D")
    finding = f"score {_signed(scores[here])} at distance {m - n}"
    constant = (
        f" The {unrotated} dimensions without rotation add {_signed(parts[-1, here] / head_dim**0.5)} at each distance."
        if unrotated
        else ""
    )
    equations = _score(parts[:, here], m, n, head_dim, unrotated)
    return Drawing(
        figure,
        title=f"{quoted(q_label)} and {quoted(k_label)}: {finding}",
        note=f"Query {m} and key {n} of {head.name}, {head.origin}: the same two vectors at distances 0 to "
        f"{distances[-1]} score from {_signed(scores.min())} to {_signed(scores.max())}. Fast pairs make the short "
        f"ripples, slow pairs the long trend.{constant}",
        alt=f"“{q_label}” and “{k_label}”: {finding}. The highest score is at distance {distances[scores.argmax()]}.",
        table={"distance": distances.tolist(), "score": scores.tolist()},
        formula=tex_lines(*equations),
        legend=meanings(*equations),
    )


def _signed(number: float) -> str:
    return number_text(float(number), digits=2)


def _score(parts: NDArray, m: int, n: int, head_dim: int, unrotated: int) -> list[Equation]:
    """Return the equations of one score from each pair's part of q·k (n_pairs + 1,), the unrotated part last."""
    n_pairs, at = len(parts) - 1, f"{m},{n}"
    rotated = Value(
        float(parts[:-1].sum()), "Re Σⱼ qⱼ·k̄ⱼ·e^(i(m−n)θⱼ)",
        "part of q·k from the rotated pairs j of q and k, as complex numbers (i: imaginary unit)", digits=3,
        latex=r"\mathrm{Re}\sum_j q_j\,\bar k_j\,e^{\,i(m-n)\theta_j}",
    )  # fmt: skip
    distance = Value(m, "m", "position of the query") - Value(n, "n", "position of the key")
    terms, equations = [rotated], [Equation(distance)]
    if unrotated:
        terms.append(Value(float(parts[-1]), "c", f"part of q·k from the {unrotated} unrotated dimensions", digits=3))
    groups = np.array_split(np.arange(n_pairs), min(MAX_TERMS, n_pairs))
    equations.append(
        Equation(
            total([_pairs_term(parts, group) for group in groups]), rotated.symbol, rotated.latex, digits=3,
            meaning=rotated.meaning,
        )
    )  # fmt: skip
    score, meaning = _over_root(total(terms), head_dim), f"score of query {m} and key {n}"
    return [*equations, Equation(score, f"s({m}, {n})", rf"s_{{{at}}}", digits=2, meaning=meaning)]


def _pairs_term(parts: NDArray, pairs: NDArray) -> Value:
    """Return the part of q·k from these neighbouring pairs."""
    first, last = int(pairs[0]), int(pairs[-1])
    name, source = (f"{first}–{last}", f"pairs {first} to {last}") if last > first else (f"{first}", f"pair {first}")
    symbol, latex = f"r{subscript(name)}", "r_{" + name.replace("–", r"\text{–}") + "}"
    return Value(float(parts[pairs].sum()), symbol, f"part of q·k from {source}", digits=4, latex=latex)


def _over_root(product: Expression, head_dim: int) -> Expression:
    """Return a product q·k, or a bound of it, divided by √D."""
    return product / function("√", letter("D", head_dim))


def decay(scores: NDArray, bound: DecayBound, here: int, head_dim: int, unrotated: int, head: Head) -> Drawing:
    """Draw |score| and the RoFormer paper's bound at the distances 0, 1, … for the same query and key.

    scores (n,), divided by sqrt(D); the formula is for the distance `here`.
    """
    distances, size, limit = np.arange(len(scores)), np.abs(scores), bound.values / head_dim**0.5
    figure = base_figure(height=300, legend=LEGEND, hovermode="x unified")
    for name, values, colour, dash in (("bound", limit, NEUTRAL, "dash"), ("|score|", size, head.colour, "solid")):
        figure.add_scatter(
            x=distances, y=values, name=name, mode="lines", line={"color": colour, "dash": dash},
            hovertemplate="%{y:.3g}",
        )  # fmt: skip
    low, high = max(float(np.quantile(size, 0.02)), 1e-4), max(float(limit.max()), 1e-3)
    figure.update_yaxes(type="log", title="|score|", dtick=1, range=[np.log10(low), np.log10(high) + 0.1])
    figure.update_xaxes(title="distance in tokens", showgrid=False, zeroline=False)
    equation = _bound(bound, here, head_dim, unrotated)
    lowest, share = int(limit.argmin()), size / np.maximum(limit, np.finfo(float).tiny)
    title = f"|score| is at most {share_text(float(share.max()))} of its bound up to distance {len(scores) - 1}"
    return Drawing(
        figure,
        title=title,
        note=f"The RoFormer paper's bound is {significant(limit[0])} at distance 0 and lowest, "
        f"{significant(limit[lowest])}, at distance {lowest}. The bound limits |score|, but |score| need "
        "not decrease with distance.",
        more="The paper (arXiv 2104.09864, section 3.4.3) bounds |score| at each distance by how much neighbouring "
        "pairs differ and by |S\\_j|, the lengths of the sums of the first j rotations.",
        alt=f"{title}. On average |score| is {share_text(float(share.mean()))} of the bound.",
        table={"distance": distances.tolist(), "|score|": size.tolist(), "bound": limit.tolist()},
        formula=equation.tex_lines(),
        legend=meanings(equation),
    )


def _bound(bound: DecayBound, distance: int, head_dim: int, unrotated: int) -> Equation:
    """Return the equation of the bound at one distance."""
    steepest = Value(
        bound.steepest, "max|hⱼ₊₁ − hⱼ|",
        "largest difference between neighbouring pairs j, as complex numbers hⱼ = qⱼ·k̄ⱼ",
        latex=r"\max_j |h_{j+1} - h_j|",
    )  # fmt: skip
    sums = Value(
        float(bound.partial_sums[distance]), "Σ|Sⱼ|", "lengths of the sums of the first j rotations, added up",
        latex=r"\sum_j |S_j|",
    )  # fmt: skip
    product = steepest * sums
    if unrotated:
        meaning = f"size of the part of q·k from the {unrotated} unrotated dimensions"
        product = product + Value(abs(bound.unrotated), "|c|", meaning, digits=3)
    name, name_tex = f"|s| ≤ B{subscript(distance)}", rf"|s| \le B_{{{distance}}}"
    meaning = f"bound of the score at distance {distance}"
    return Equation(_over_root(product, head_dim), name, name_tex, digits=2, meaning=meaning)


def by_distance(distances: NDArray, mean: NDArray, low: NDArray, high: NDArray, n_pairs: int, head: Head) -> Drawing:
    """Draw mean, lowest and highest score (n,) of this text's n_pairs allowed pairs at each distance (n,)."""
    figure = base_figure(height=300, legend=LEGEND)
    figure.add_scatter(
        x=np.concatenate((distances, distances[::-1])), y=np.concatenate((high, low[::-1])), fill="toself",
        mode="lines", name="lowest to highest", line={"width": 0}, fillcolor=FAINT, hoverinfo="skip",
    )  # fmt: skip
    figure.add_scatter(
        x=distances, y=mean, customdata=np.stack((low, high), -1),
        mode="lines+markers" if len(distances) < 60 else "lines", name="mean", line={"color": head.colour},
        hovertemplate="distance %{x}: mean %{y:.2f}, %{customdata[0]:.2f} to %{customdata[1]:.2f}<extra></extra>",
    )  # fmt: skip
    ahead = ", below 0: the key comes after the query" if distances[0] < 0 else ""
    figure.update_xaxes(title=f"distance in tokens{ahead}", showgrid=False, zeroline=False)
    figure.update_yaxes(title="score q·k/√D")
    best = int(distances[mean.argmax()])
    where = f"{count(abs(best), 'token')} {'ahead' if best < 0 else 'back'}" if best else "on the token itself"
    title = f"Mean score in this text is highest {where}: {mean.max():.2f}"
    return Drawing(
        figure,
        title=title,
        note=f"The {count(n_pairs, 'pair')} of a query and an allowed key in this text, in {head.name}, {head.origin}, "
        "by distance. The band runs from the lowest to the highest score at each distance. Scores depend on the tokens "
        "too, not only on distance.",
        alt=f"{title}; {mean[-1]:.2f} at distance {int(distances[-1])}.",
        table={"distance": distances.tolist(), "mean": mean.tolist(), "lowest": low.tolist(), "highest": high.tolist()},
    )


def shifts(shifted: ShiftedScores, m: int, n: int, head_dim: int) -> Drawing:
    """Draw how much each common shift changes the score of query m and key n, in three kinds of arithmetic."""
    figure = base_figure(height=300, legend=LEGEND)
    table: dict[str, list] = {"shift": list(shifted.shifts)}
    for field, (name, dash, symbol, colour) in ARITHMETICS.items():
        scores = getattr(shifted, field)
        table |= {f"score, {name}": scores.tolist()}
        _add_changes(figure, shifted.shifts[1:], np.abs(scores - scores[0])[1:], name, (dash, symbol, colour))
    figure.update_xaxes(type="log", title="shift of both, in positions", dtick=1, tickformat=",", showgrid=False)
    figure.update_yaxes(type="log", title="change of the score", exponentformat="e", dtick=3)
    worst = {field: shifted.largest_difference(field) for field in ARITHMETICS}
    largest = {field: written(change, ".2g") if change else "none" for field, change in worst.items()}
    tried, last = count(len(shifted.shifts) - 1, "shift"), shifted.shifts[-1]
    equations = [_shifted_score(shifted, i, m, n, head_dim) for i in (0, -1)]
    title = f"Over {tried} up to {last:,} this score {_changes(worst['float32'])} as run here"
    return Drawing(
        figure,
        title=title,
        note="The same query and key, both shifted by the same number of positions. In exact arithmetic the score "
        "depends only on their distance; any change is rounding. Shifts that change nothing have no mark on the log "
        "axis.",
        more=f"Largest change over the {tried} tried: {largest['float32']} in float32, {largest['float64']} in "
        f"float64, {largest['float32_angles']} where the angles are float32 too, as in many implementations: {last:,} "
        f"radians are then known to about {np.spacing(np.float32(last)) / 2:.1g}. Other shifts may change it more.",
        alt=f"{title}. In float64: {largest['float64']}; with angles in float32: {largest['float32_angles']}.",
        table=table,
        formula=tex_lines(*equations),
        legend=meanings(*equations),
    )


def _changes(largest: float) -> str:
    """State the largest change."""
    return f"changes by at most {written(largest, '.2g')}" if largest else "does not change"


def _add_changes(
    figure: Chart, shifts: Sequence[int], changes: NDArray, name: str, style: tuple[str, str, str]
) -> None:
    """Add a mark for each shift's change; a change of 0 has no mark, as a log axis cannot show it."""
    dash, symbol, colour = style
    figure.add_scatter(
        x=shifts, y=np.where(changes > 0, changes, np.nan), name=name, mode="lines+markers",
        line={"dash": dash, "color": colour}, marker={"symbol": symbol, "size": 9},
        hovertemplate="shifted by %{x:,}: changes by %{y:.2g}<extra></extra>",
    )  # fmt: skip


def _shifted_score(shifted: ShiftedScores, i: int, m: int, n: int, head_dim: int) -> Equation:
    """Return the equation of the score at one of the shifts, in float64."""
    at, score = (m + shifted.shifts[i], n + shifted.shifts[i]), float(shifted.float64[i])
    dot = Value(
        score * head_dim**0.5, f"⟨R{subscript(at[0])}·q, R{subscript(at[1])}·k⟩",
        "dot product of the same q and k, rotated to these positions",
        digits=6,
        latex=rf"\langle R_{{{at[0]}}}\,q,\; R_{{{at[1]}}}\,k\rangle",
    )  # fmt: skip
    name = f"{at[0]},{at[1]}"
    meaning = f"score at positions {at[0]} and {at[1]}"
    return Equation(_over_root(dot, head_dim), f"s({at[0]}, {at[1]})", rf"s_{{{name}}}", digits=6, meaning=meaning)


def values(moved: ShiftedOutputs, query: int, head_dim: int, head: Head) -> Drawing:
    """Draw how much a query's output changes when the text is shifted, with v rotated and without."""
    figure = base_figure(height=300, legend=LEGEND)
    for name, changes, style in (
        ("q and k rotated", moved.q_and_k, ("solid", "circle", PETROL)),
        ("v rotated as well", moved.values_too, ("dot", "triangle-up", BROWN)),
    ):
        _add_changes(figure, moved.shifts[1:], changes[1:], name, style)
    figure.update_xaxes(type="log", title="shift of the text, in positions", dtick=1, tickformat=",", showgrid=False)
    figure.update_yaxes(type="log", title="largest change of an output number", exponentformat="e", dtick=2)
    tried = count(len(moved.shifts) - 1, "shift")
    title = (
        f"Over {tried} this output {_changes(moved.q_and_k.max())}; "
        f"with v rotated, it {_changes(moved.values_too.max())}"
    )
    return Drawing(
        figure,
        title=title,
        note="How much one query's output changes when the text is shifted. In a score, the rotations of query and key "
        "leave only the distance; nothing rotates a value back, so with v rotated the output depends on the position.",
        more="The output is a weighted sum of values; its largest number here is "
        f"{written(moved.largest, '.2g')}. Shifts tried: up to {count(int(moved.shifts[-1]), 'position')}. "
        f"{head.caption}, in float32.",
        alt=title + ".",
        table={
            "shift": list(moved.shifts),
            "change, q and k rotated": moved.q_and_k.tolist(),
            "change, v rotated as well": moved.values_too.tolist(),
        },
        formula=r"o_m = \sum_n \mathrm{softmax}\big(\langle R_m q_m,\, R_n k_n\rangle / \sqrt{D}\big)\, v_n",
        legend=f"o: output of the head for a query; m = {query}: position of the query; n: positions of the keys; R: "
        f"rotation to a position; q, k, v: query, keys and values before RoPE; D = {head_dim}: head_dim.",
    )


def weight_map(
    weights: NDArray, allowed: NDArray, labels: Sequence[str], top: float, head: Head, title: str, note: str,
    ground: str | None = None,
) -> Drawing:  # fmt: skip
    """Draw a head's weights (T, T) in the hue of its KV head, full colour at `top`; masked cells are grey.

    ground: as for `heads.head_map`.
    """
    scale = kv_scale(head.kv_head, head.n_kv_heads, ground=ground)
    figure = _map(labels, allowed, weights, scale, (0.0, top))
    add_colourbar(figure, scale, top)
    strongest = weights.argmax(axis=1)
    return Drawing(
        figure,
        title=title,
        note=note,
        alt=f"{title}. The last query's strongest key is “{labels[strongest[-1]]}”, {weights[-1].max():.0%}.",
        table={
            "query": list(range(len(weights))),
            "token": list(labels),
            "strongest key": strongest.tolist(),
            "weight": weights.max(axis=1).tolist(),
        },
    )


def score_map(scores: NDArray, allowed: NDArray, labels: Sequence[str], limit: float, title: str, note: str) -> Drawing:
    """Draw scores (T, T) before the softmax, brown below zero and blue-green above, from -limit to limit.

    note: a phrase; the range of the allowed scores is added to it.
    """
    inside = scores[allowed]
    figure = _map(labels, allowed, scores, DIVERGING, (-limit, limit), chequered=True)
    add_colourbar(figure, DIVERGING, limit, title="score", lowest=-limit)
    return Drawing(
        figure,
        title=title,
        note=f"{note}: {span(_signed(inside.min()), _signed(inside.max()))}.",
        alt=f"{title}. Scores: {span(f'{inside.min():.2f}', f'{inside.max():.2f}')}, mean {inside.mean():.2f}.",
        table={
            "query": list(range(len(scores))),
            "token": list(labels),
            "lowest score": np.where(allowed, scores, np.inf).min(axis=1).tolist(),
            "highest score": np.where(allowed, scores, -np.inf).max(axis=1).tolist(),
        },
    )


def _map(
    labels: Sequence[str], allowed: NDArray, values: NDArray, scale: list, bounds: tuple, *, chequered: bool = False
) -> Chart:
    figure = token_map_figure(labels, MAP_HEIGHT, MAX_CELLS)
    add_masked(figure, allowed, MAX_CELLS, chequered=chequered)
    add_cells(figure, blocks(np.where(allowed, values, np.nan), MAX_CELLS), scale, bounds, "%{z:.4f}")
    few = few_ticks(labels, MAX_TICKS)
    figure.update_layout(xaxis=few, yaxis=few)
    return figure
