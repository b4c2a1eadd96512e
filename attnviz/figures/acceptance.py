"""Figure of speculative decoding's rule: with which probability each proposal was accepted, and the number drawn."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean
from typing import TYPE_CHECKING

from attnviz.equations import Equation, Value
from attnviz.figures.decode import unsteady
from attnviz.figures.drawing import Drawing
from attnviz.figures.numbers import printed
from attnviz.figures.phrases import meanings
from attnviz.figures.theme import BROWN, NEUTRAL, PETROL, base_figure
from attnviz.figures.token_maps import shortened
from attnviz.phrases import count

if TYPE_CHECKING:
    from attnviz.decode.comparisons import Speculated, Spread

MAX_NAMED = 32  # proposals whose tokens are named below their bars


def acceptance(found: Speculated, vocabulary: Sequence[str], k: int, steps: Sequence[Spread] = ()) -> Drawing:
    """Draw min(1, p / q) of each checked proposal as a bar, and the random number u as a mark: in the bar is accepted.

    k: tokens that the drafter proposes per pass. steps: times of a step of the drafter and of the model.
    """
    checked = [(n, each) for n, round_ in enumerate(found.rounds, 1) for each in round_.checked]
    x, names = list(range(len(checked))), [vocabulary[each.id] for _, each in checked]
    odds = [min(1.0, each.p / each.q) for _, each in checked]
    figure = base_figure(280, legend={"orientation": "h", "y": 1.02, "yanchor": "bottom"}, barmode="overlay")
    for name, accepted, colour in (("accepted", True, PETROL), ("rejected", False, BROWN)):
        own = [i for i in x if checked[i][1].accepted == accepted]
        figure.add_bar(
            x=own, y=[odds[i] for i in own], name=name, marker={"color": colour, "opacity": 0.6},
            customdata=[f"{names[i]}: q {printed(checked[i][1].q)}, p {printed(checked[i][1].p)}" for i in own],
            hovertemplate="%{customdata}, min(1, p / q) %{y:.4f}<extra></extra>",
        )  # fmt: skip
    figure.add_scatter(
        x=x, y=[each.u for _, each in checked], mode="markers", name="u", hovertemplate="u %{y:.4f}<extra></extra>",
        marker={"color": NEUTRAL, "size": 9, "symbol": "diamond"},
    )  # fmt: skip
    named = {"tickvals": x, "ticktext": [shortened(name, 12) for name in names], "tickangle": -90}
    figure.update_layout(
        xaxis=named if len(x) <= MAX_NAMED else {"title": {"text": "checked proposal"}},
        yaxis={"title": {"text": "min(1, p / q)"}, "range": [0, 1.05]},
    )
    n_accepted, share = sum(each.accepted for _, each in checked), mean(each.overlap for _, each in checked)
    formula, legend = _expected(found, share, k, steps)
    return Drawing(
        figure,
        title=f"{n_accepted} of {count(len(x), 'checked proposal')} {'is' if len(x) == 1 else 'are'} accepted",
        note="A proposal whose u, drawn uniformly from 0 to 1, lies inside its bar, min(1, p / q), is accepted. p is "
        "the token's probability in the model, q the one in the drafter. The first rejected one ends the pass.",
        more="Both probabilities are those after the sampling controls; q is 1 where the drafter looks the token up. "
        "After a rejection the rest is not checked, and the model's own token is drawn from max(0, p − q), normalised. "
        "Averaged over what the drafter may propose, a token is accepted with probability Σ min(p, q), here "
        f"{printed(share)} on average.",
        alt=f"{n_accepted} of {len(x)} checked proposals accepted; mean acceptance probability {printed(share)}.",
        table={
            "pass": [n for n, _ in checked], "token": names, "q": [each.q for _, each in checked],
            "p": [each.p for _, each in checked], "min(1, p / q)": odds, "u": [each.u for _, each in checked],
            "accepted": [each.accepted for _, each in checked], "Σ min(p, q)": [each.overlap for _, each in checked],
        },
        formula=formula, legend=legend,
    )  # fmt: skip


def _expected(found: Speculated, share: float, k: int, steps: Sequence[Spread]) -> tuple[str, str]:
    """Return the paper's equations of the tokens per pass and of the speed-up, and what they mean."""
    if not _proposes_all(found, k):
        return "", ""
    cost = round(steps[0].median / steps[1].median, 2) if steps else None
    checked, n_passes = sum(len(each.checked) for each in found.rounds), len(found.rounds)
    equations = _equations(share, checked, k, cost)
    sure = round(share, 4) == 1
    remark = (
        f"{'With α = 1: tokens' if sure else 'The equation (arXiv 2211.17192, eq. 1): tokens'} per pass if each pass "
        f"proposed k tokens and each of them were accepted with probability α. In the {n_passes} "
        f"pass{'es' * (n_passes != 1)} here, {found.n_tokens / n_passes:.2f} were written per pass; over so few "
        "passes the number can differ from the equation by chance."
    )
    if cost is not None:
        remark += (
            " The second equation (theorem 3.8): the speed-up if a pass over k + 1 tokens takes as long as one over a "
            f"single token{_none(equations[1].value, share, cost, k)}.{unsteady(steps)}"
        )
    return "\n".join(each.tex() for each in equations), f"{meanings(*equations)} {remark}"


def _equations(share: float, checked: int, k: int, cost: float | None) -> list[Equation]:
    """Return those of the tokens per pass and, if the cost of a drafter's step is known, of the speed-up."""
    alpha = Value(
        share, "α", f"mean of Σ min(p, q) over {count(checked, 'checked proposal')}", latex=r"\alpha", digits=4
    )
    proposed = Value(k, "k", "tokens proposed per pass")
    meaning = "time of a step of the drafter, divided by that of a step of the model, measured here in turn"
    time = Value(cost or 0.0, "c", meaning, digits=2)
    slower = proposed * time + 1
    if round(share, 4) == 1:  # the others would be 0 / 0
        both = proposed + 1, (proposed + 1) / slower
    else:
        both = (1 - alpha ** (proposed + 1)) / (1 - alpha), (1 - alpha ** (proposed + 1)) / ((1 - alpha) * slower)
    return [Equation(each, digits=2) for each in both[: 1 if cost is None else 2]]


def _none(speed_up: float, alpha: float, cost: float, k: int) -> str:
    """Say why no time is saved: some k saves time only where α is above c."""
    if speed_up > 1:
        return ""
    return f": none with k = {k}" if alpha > cost else ": none, as α is not above c"


def _proposes_all(found: Speculated, k: int) -> bool:
    """Check whether the drafter proposed k tokens in each pass, or all that were still to be written but one."""
    left = found.n_tokens
    for each in found.rounds:
        if len(each.proposed) < min(k, left - 1):
            return False
        left -= len(each.ids)
    return True
