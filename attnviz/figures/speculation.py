"""Figures of speculative decoding: its passes, and with which probability each proposal was accepted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import mean
from typing import TYPE_CHECKING

from attnviz.config import FAMILY
from attnviz.equations import Equation, Value
from attnviz.figures.decode import quartiles, unsteady
from attnviz.figures.drawing import Drawing, escaped
from attnviz.figures.markup import meanings
from attnviz.figures.numbers import printed
from attnviz.figures.theme import BROWN, NEUTRAL, PETROL, base_figure
from attnviz.figures.token_maps import shortened
from attnviz.phrases import count

if TYPE_CHECKING:
    from attnviz.decode import Round
    from attnviz.decode.comparisons import Speculated, Spread

ABOVE = {"orientation": "h", "y": 1.02, "yanchor": "bottom"}
MAX_NAMED = 32  # proposals whose tokens are named below their bars


def rounds(speculated: Speculated, seconds: Sequence[Spread], drafter: str) -> Drawing:
    """Draw the accepted and rejected tokens of each pass."""
    accepted = [round_.n_accepted for round_ in speculated.rounds]
    rejected = [len(round_.proposed) - round_.n_accepted for round_ in speculated.rounds]
    x = list(range(1, len(accepted) + 1))
    figure = base_figure(260, barmode="relative", legend=ABOVE)
    for name, values, colour in (("accepted", accepted, PETROL), ("the model's own", [1] * len(x), NEUTRAL),
                                 ("rejected", [-r for r in rejected], BROWN)):  # fmt: skip
        figure.add_bar(x=x, y=values, name=name, marker={"color": colour}, hoverinfo="skip")
    figure.update_layout(
        xaxis={"title": {"text": "pass of the model"}, "dtick": 1}, yaxis={"title": {"text": "tokens"}}
    )
    passes = Value(len(x), "p", "passes of the model")
    agreed = Equation(Value(speculated.n_accepted, "a", "tokens accepted") / passes, digits=2)
    written = Equation(Value(speculated.n_tokens, "n", "tokens written") / passes, digits=2)
    saved = speculated.n_tokens - len(x)
    n_passes = f"{len(x)} pass{'es' * (len(x) != 1)}"
    proposes = f"{FAMILY[drafter]} proposes" if drafter in FAMILY else f"{drafter} propose"
    drafted, alone = seconds
    measured = f"Measured here: {quartiles(drafted)} with the drafter and {quartiles(alone)} without"
    if drafted.overlaps(alone):
        measured += "; the two ranges overlap"
    else:
        measured += f", {drafted.median / alone.median:.2f} times the time"
    return Drawing(
        figure,
        title=f"{speculated.n_tokens} tokens in {n_passes}: {agreed.value:.2f} accepted per pass",
        note=f"{proposes[0].upper()}{proposes[1:]} tokens, and one pass of the model scores all of them. From the "
        "first to the last, each is accepted or rejected; a rejection ends the pass. With the model's own token, "
        f"{written.value:.2f} are written per pass, which saves {saved} of {speculated.n_tokens} passes.",
        more=f"Accepted: {speculated.n_accepted} of {speculated.n_proposed}. Below zero: the rejected token and those "
        f"after it. {measured}"
        + (f"; each token that {proposes} takes a pass of it." if drafter in FAMILY else ".")
        + f"{unsteady(seconds)} The tokens have the same distribution as those sampled from the model alone (arXiv "
        "2211.17192).",
        alt=f"{speculated.n_accepted} of {speculated.n_proposed} proposed tokens are accepted, {agreed.value:.2f} per "
        f"pass; {speculated.n_tokens} tokens in {n_passes}, {written.value:.2f} per pass.",
        table={
            "pass": x, "proposed": [len(round_.proposed) for round_ in speculated.rounds], "accepted": accepted,
            "rejected": rejected, "written": [len(round_.ids) for round_ in speculated.rounds],
        },
        formula=f"{agreed.tex()}\n{written.tex()}", legend=meanings(agreed, written),
    )  # fmt: skip


def no_proposal(found: Speculated) -> str:
    """Say why a drafter that looks for the text's last two tokens proposed nothing."""
    return (
        "Nothing was proposed: whenever tokens could be proposed, the last two tokens had not occurred earlier in the "
        f"text. Each of the {len(found.rounds)} passes wrote one token, as without a drafter."
    )


PASSES_LEGEND = (
    ":blue-background[proposed and accepted] :orange-background[~~proposed and rejected~~] "
    ":gray-background[**the model's own token**]"
)


def passes_text(speculated: Speculated, text_of: Callable[[Sequence[int]], str]) -> str:
    """Format the tokens of all passes in markdown, with their own spaces: those not struck through are the text.

    text_of: returns the running text of token ids.
    """
    return "".join(_pass_text(each, text_of) for each in speculated.rounds)


def _pass_text(each: Round, text_of: Callable[[Sequence[int]], str]) -> str:
    """Format one pass: accepted tokens, rejected ones, and the model's own that replaces them."""
    pieces = (
        (each.proposed[: each.n_accepted], ":blue-background[", "]"),
        (each.proposed[each.n_accepted :], ":orange-background[~~", "~~]"),
        (each.ids[-1:], ":gray-background[**", "**]"),
    )
    return "".join(_marked(text_of(ids), *marks) for ids, *marks in pieces if ids)


def _marked(text: str, opening: str, closing: str) -> str:
    """Mark the words; spaces at their ends stay outside, where markdown needs them."""
    text = text.replace("\n", "⏎")
    inside = text.strip() or text.replace(" ", "·")  # nothing but spaces gets their sign
    before, _, after = text.partition(inside)
    return f"{before}{opening}{escaped(inside)}{closing}{after}"


def acceptance(speculated: Speculated, vocabulary: Sequence[str], k: int, steps: Sequence[Spread] = ()) -> Drawing:
    """Draw min(1, p / q) of each checked proposal as a bar, and the random number u as a mark: in the bar is accepted.

    k: tokens that the drafter proposes per pass. steps: times of a step of the drafter and of the model.
    """
    checked = [(n, token) for n, round_ in enumerate(speculated.rounds, 1) for token in round_.checked]
    x, names = list(range(len(checked))), [vocabulary[token.id] for _, token in checked]
    odds = [min(1.0, token.p / token.q) for _, token in checked]
    figure = base_figure(280, legend={"orientation": "h", "y": 1.02, "yanchor": "bottom"}, barmode="overlay")
    for name, accepted, colour in (("accepted", True, PETROL), ("rejected", False, BROWN)):
        own = [i for i in x if checked[i][1].accepted == accepted]
        figure.add_bar(
            x=own, y=[odds[i] for i in own], name=name, marker={"color": colour, "opacity": 0.6},
            customdata=[f"{names[i]}: q {printed(checked[i][1].q)}, p {printed(checked[i][1].p)}" for i in own],
            hovertemplate="%{customdata}, min(1, p / q) %{y:.4f}<extra></extra>",
        )  # fmt: skip
    figure.add_scatter(
        x=x, y=[token.u for _, token in checked], mode="markers", name="u", hovertemplate="u %{y:.4f}<extra></extra>",
        marker={"color": NEUTRAL, "size": 9, "symbol": "diamond"},
    )  # fmt: skip
    named = {"tickvals": x, "ticktext": [shortened(name, 12) for name in names], "tickangle": -90}
    figure.update_layout(
        xaxis=named if len(x) <= MAX_NAMED else {"title": {"text": "checked proposal"}},
        yaxis={"title": {"text": "min(1, p / q)"}, "range": [0, 1.05]},
    )
    n_accepted, share = sum(token.accepted for _, token in checked), mean(token.overlap for _, token in checked)
    formula, legend = _expected(speculated, share, k, steps)
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
            "pass": [n for n, _ in checked], "token": names, "q": [token.q for _, token in checked],
            "p": [token.p for _, token in checked], "min(1, p / q)": odds, "u": [token.u for _, token in checked],
            "accepted": [token.accepted for _, token in checked],
            "Σ min(p, q)": [token.overlap for _, token in checked],
        },
        formula=formula, legend=legend,
    )  # fmt: skip


def _expected(speculated: Speculated, share: float, k: int, steps: Sequence[Spread]) -> tuple[str, str]:
    """Return the paper's equations of the tokens per pass and of the speed-up, and what they mean."""
    if not _proposes_all(speculated, k):
        return "", ""
    cost = round(steps[0].median / steps[1].median, 2) if steps else None
    checked, n_passes = sum(len(each.checked) for each in speculated.rounds), len(speculated.rounds)
    equations = _equations(share, checked, k, cost)
    sure = round(share, 4) == 1
    remark = (
        f"{'With α = 1: tokens' if sure else 'The equation (arXiv 2211.17192, eq. 1): tokens'} per pass if each pass "
        f"proposed k tokens and each of them were accepted with probability α. In the {n_passes} "
        f"pass{'es' * (n_passes != 1)} here, {speculated.n_tokens / n_passes:.2f} were written per pass; over so few "
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
