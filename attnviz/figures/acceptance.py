"""Figure of speculative decoding's rule: with which probability each proposal was accepted, and the number drawn."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean
from typing import TYPE_CHECKING

from attnviz.equations import Equation, Value
from attnviz.figures.drawing import Drawing
from attnviz.figures.numbers import printed
from attnviz.figures.phrases import count, meanings
from attnviz.figures.theme import BROWN, NEUTRAL, PETROL, base_figure
from attnviz.figures.token_maps import shortened

if TYPE_CHECKING:
    from attnviz.decode.comparisons import Speculated

MAX_NAMED = 32  # proposals whose tokens are named below their bars
SAME_EVERYWHERE = " The equation: tokens per pass if it were the same at every position (arXiv 2211.17192, eq. 1)."


def acceptance(found: Speculated, vocabulary: Sequence[str], k: int) -> Drawing:
    """Draw min(1, p / q) of each checked proposal as a bar, and the random number u as a mark: in the bar is accepted.

    k: tokens that the drafter proposes per pass.
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
    alpha = Value(share, "α", f"mean of Σ min(p, q) over {count(len(x), 'checked proposal')}", tex=r"\alpha", digits=4)
    expected = Equation((1 - alpha ** (Value(k, "k", "tokens proposed per pass") + 1)) / (1 - alpha), digits=2)
    certain = share > 1 - 1e-6  # the sum of k + 1 ones
    return Drawing(
        figure,
        title=f"{n_accepted} of {count(len(x), 'checked proposal')} {'is' if len(x) == 1 else 'are'} accepted",
        note="p: the token's probability in the model; q: in the drafter, which drew it. u is drawn evenly from 0 to "
        "1; a proposal with its u inside the bar, min(1, p / q), is accepted. The first rejected one ends the pass: "
        "the rest is not checked, and the model's own token is drawn from max(0, p − q), normalised. Before the token "
        "is drawn, it is accepted with probability Σ min(p, q) over the vocabulary, here "
        f"{printed(share)} in the mean.{'' if certain else SAME_EVERYWHERE}",
        alt=f"{n_accepted} of {len(x)} checked proposals accepted; mean acceptance probability {printed(share)}.",
        table={
            "pass": [n for n, _ in checked], "token": names, "q": [each.q for _, each in checked],
            "p": [each.p for _, each in checked], "min(1, p / q)": odds, "u": [each.u for _, each in checked],
            "accepted": [each.accepted for _, each in checked], "Σ min(p, q)": [each.overlap for _, each in checked],
        },
        formula="" if certain else expected.tex(), legend="" if certain else meanings(expected),
    )  # fmt: skip
