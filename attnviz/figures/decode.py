"""Captions and figures of the Decode page: the cache in bytes, work with and without it, the sampled token."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from attnviz.config import FAMILY, ModelConfig
from attnviz.cost import cache
from attnviz.equations import Equation, Value, number_text
from attnviz.figures.chart import Chart
from attnviz.figures.drawing import Drawing
from attnviz.figures.markup import meanings
from attnviz.figures.numbers import printed, significant
from attnviz.figures.theme import BROWN, FAINT, NEUTRAL, OUTLINE, base_figure, kind_style
from attnviz.figures.token_maps import BARE
from attnviz.mechanisms import Mixer
from attnviz.phrases import count, listed, written

if TYPE_CHECKING:
    from attnviz.decode.comparisons import Compared, Member, Spread
    from attnviz.decode.writing import Written, WrittenStep

FLOAT32 = 4  # bytes per number
FILTERS = ("top-k", "top-p", "min-p")  # stages that can remove tokens
WORK = ("multiplications", "bytes of weights read", "bytes of cache read")  # as the fields of `Work`
DASHES = dict(zip(FAMILY, ("solid", "solid", "dash", "solid", "dot"), strict=True))


def cache_equation(config: ModelConfig, n_tokens: int) -> Equation:
    """Return the equation of the cache bytes of all layers, in float32."""
    return Equation(cache(config, n_tokens, bits=8 * FLOAT32, state_bits=8 * FLOAT32), unit="B")


def cache_text(config: ModelConfig, n_tokens: int, counted: int) -> str:
    """Return the formula with its numbers, and the bytes counted in the live tensors."""
    return f"{cache_equation(config, n_tokens).text()}; {counted:,} B counted in the live tensors"


def cache_legend(config: ModelConfig) -> str:
    """Return the meanings of the formula's letters and of the picture; the number of tokens is only in the formula."""
    letters = meanings(cache_equation(config, 1)).replace("S = 1: tokens", "S: tokens cached")
    bands = dict.fromkeys(mixer.bands() for _, layer in config.layer_counts for mixer in layer.mixers)
    return f"{letters} {' '.join(bands)}"


def cache_parts(mixer: Mixer) -> list[list]:
    """List the vectors cached per token in one layer: [name, numbers, KV head or −1] for each tensor and head."""
    return [
        [part if vectors.count is None else f"{part.upper()}{head}", int(vectors.width.number), head]
        for vectors in mixer.cached()
        for head in (range(vectors.number) if vectors.count else [-1])
        for part in vectors.parts
    ]


def state_parts(config: ModelConfig, layer_bytes: Sequence[int]) -> list[list | None]:
    """Return for each layer with a state its numbers, and a text with these and its bytes; None for others."""
    return [
        _state_part(layer.mixer, n_bytes) if layer.mixer.state() else None
        for layer, n_bytes in zip(config.layers, layer_bytes, strict=True)
    ]


def _state_part(mixer: Mixer, n_bytes: int) -> list:
    sizes = {state.part: int(state.numbers.value) for state in mixer.state()}
    numbers = sum(sizes.values())
    added = f"{' + '.join(f'{n:,}' for n in sizes.values())} = " if len(sizes) > 1 else ""
    return [numbers, f"{listed(sizes)}: {added}{count(numbers, 'number')}, {n_bytes:,} B"]


def prefill_sentence(step: WrittenStep, n_tokens: int, config: ModelConfig) -> str:
    """State what prefill caches of the text, and what each step reads after it."""
    states = [layer.mixer.state() != () for layer in config.layers]
    held = sum(n for n, has_state in zip(step.layer_bytes, states, strict=True) if not has_state)
    if n_states := sum(states):
        kept = sum(step.layer_bytes) - held
        others = (
            f" The other {'layer caches' if len(states) - n_states == 1 else 'layers cache'} {held:,} B, "
            f"{held // n_tokens:,} B per token."
        )
        return (
            f"Prefill reads the prompt's {count(n_tokens, 'token')} in one pass. "
            f"{count(n_states, 'layer')} then keep a state of {kept:,} B together, however long the text is."
            f"{others if held else ''}"
        )
    return (
        f"Prefill reads the prompt's {count(n_tokens, 'token')} in one pass and caches {held:,} B, "
        f"{held // n_tokens:,} B per token. Each step then reads one token and the cache."
    )


def odds_text(step: WrittenStep) -> str:
    """State the probability of the written token: the model's and, if sampling settings change it, that after them."""
    _, drawn = step.stages[-1]
    before, after = printed(step.probability), printed(drawn[step.candidates.index(step.id)])
    return f"probability {before}" if before == after else f"probability {before} in the model, {after} as sampled"


def choice_title(step: WrittenStep, vocabulary: Sequence[str]) -> str:
    """Name the token that is written with its probability, and the model's most likely one if that is another."""
    probabilities = dict(zip(step.candidates, step.stages[0][1], strict=True))
    best, odds = max(probabilities, key=probabilities.__getitem__), odds_text(step)
    token, both = f"“{vocabulary[step.id]}”, {odds}", " in the model" in odds
    if probabilities[step.id] == probabilities[best]:
        return token if both else f"{token}, the most likely"  # two probabilities fill the line
    return f"{token}; most likely{' in the model' * both} “{vocabulary[best]}”, {printed(probabilities[best])}"


def ended_text(written: Written, name: str) -> str:
    """State that the last token ends the text, by its name; "" if more can follow."""
    if not written.ended:
        return ""
    return f"“{name}” (id {written.steps[-1].id}) ends the text: it is an eos_token_id of this model."


def passing_text(step: WrittenStep, n_vocabulary: int) -> str:
    """State how many tokens pass the filters of one step."""
    names = [name for name, _ in step.stages]
    if names[-1] == "greedy":
        return "Greedy decoding takes the most likely token."
    removing = [name for name in names if name in FILTERS]
    if not removing:
        return "No filter removes a token."
    left, by = step.left[-1], removing[0] if len(removing) == 1 else "the filters"
    return f"{left:,} of {n_vocabulary:,} tokens {'passes' if left == 1 else 'pass'} {by}."


def single_text(steps: Sequence[WrittenStep]) -> str:
    """State in how many steps one token alone passes the filters, if in more than half of them; "" otherwise."""
    single = sum(step.left[-1] == 1 for step in steps)
    if steps[0].stages[-1][0] == "greedy" or 2 * single <= len(steps):
        return ""
    return f"In {single} of the first {count(len(steps), 'step')}, only one token passes the filters."


# ---- with and without a cache


def stored_text(weights: str) -> str:
    """Say in which dtype the numbers of a run are, if its weights are stored in the dtype named."""
    if weights == "float32":
        return "The numbers are float32."
    return f"Weights are stored in {weights} and multiplied in float32; the cache is float32."


def work(compared: Compared) -> Drawing:
    """Draw the multiplications and bytes read of one step, with a cache and without."""
    n, ways = compared.n_tokens, {"with a cache": compared.with_cache, "without a cache": compared.without}
    figure = base_figure(240, barmode="group", bargap=0.3)
    n_bytes = max(*compared.with_cache[1:], *compared.without[1:])
    scales = compared.without.multiplications, n_bytes, n_bytes
    for (name, each), colour in zip(ways.items(), (NEUTRAL, FAINT), strict=True):
        figure.add_bar(
            x=[value / scale for value, scale in zip(each, scales, strict=True)], y=list(WORK), orientation="h",
            name=name, marker={"color": colour, "line": OUTLINE}, text=[f"{v:,}" for v in each],
            textposition="outside", textangle=0, cliponaxis=False, hoverinfo="skip",
        )  # fmt: skip
    figure.update_layout(
        xaxis={**BARE, "range": [0, 1.6], "showticklabels": False},
        yaxis={**BARE, "autorange": "reversed"}, legend={"orientation": "h", "y": 1.2},
    )  # fmt: skip
    share = Equation(
        Value(compared.without.multiplications, "m′", "multiplications without a cache, MLA expanded", latex="m'")
        / Value(compared.with_cache.multiplications, "m", "multiplications with a cache, MLA absorbed")
    )
    latent = compared.without.multiplications != n * compared.with_cache.multiplications
    every = "both" if n == 2 else f"all {n}"
    mixed = compared.weights != "float32"  # unlike the numbers on most pages
    return Drawing(
        figure,
        title=f"With a cache, a step computes 1 token instead of {n}",
        note=f"The step that reads the last of {count(n, 'token')}. With a cache it reads the keys and values of "
        f"{every}, its own included. Without one {every} are recomputed: {number_text(share.value)} times the "
        f"multiplications. {stored_text(compared.weights) * mixed}".rstrip(),
        more=f"{stored_text(compared.weights)} "
        "The tokens are the prompt's and all that were written, also those stepped back over. Counted by formula, "
        f"masked scores and the logits of {every} included; bars of one unit share a linear scale. Largest difference "
        f"of the logits: {written(compared.difference, '.1e')}.",
        alt=f"A step with a cache computes 1 token, {compared.with_cache.multiplications:,} multiplications; without a "
        f"cache {n}, {compared.without.multiplications:,}.",
        table={"": list(WORK), **{name: list(each) for name, each in ways.items()}},
        formula=share.tex() if latent else "", legend=meanings(share) if latent else "",
    )  # fmt: skip


def step_times(compared: Compared, seconds: Sequence[Spread]) -> Drawing:
    """Draw the milliseconds of one step, measured here with a cache and without."""
    names, works = ["with a cache", "without a cache"], (compared.with_cache, compared.without)
    one, all_of_it = seconds
    slower = all_of_it.median / one.median
    title = f"Measured: a step over {compared.n_tokens} tokens takes {slower:.1f} times as long without a cache"
    if one.overlaps(all_of_it):
        title = f"Measured: {_ms(one.median)} with a cache, {_ms(all_of_it.median)} without; the two ranges overlap"
    speeds = [2e-9 * each.multiplications / s.median for each, s in zip(works, seconds, strict=True)]
    with_cache, without = map(significant, speeds)
    more = compared.without.multiplications / compared.with_cache.multiplications
    return Drawing(
        _times(names, seconds),
        title=title,
        note=f"Bars: median of {one.n_runs} runs on this machine; lines: from the first to the third quartile. Without "
        f"a cache, {number_text(more)} times the multiplications take {slower:.1f} times as long: {without} "
        f"GFLOP/s instead of {with_cache}.{unsteady(seconds)}",
        alt="; ".join(f"{name}: {quartiles(s)}" for name, s in zip(names, seconds, strict=True))
        + f". {compared.n_tokens} tokens without a cache take {slower:.1f} times as long.",
        table={
            "": names, **time_columns(seconds), "times as long": [1.0, round(slower, 1)],
            "GFLOP/s": [with_cache, without],
        },
    )  # fmt: skip


def quartiles(seconds: Spread) -> str:
    """Format a median time with its quartiles: "3.44 ms (quartiles 3.40–3.61)"."""
    return f"{_ms(seconds.median)} (quartiles {1e3 * seconds.low:.2f}–{1e3 * seconds.high:.2f})"


def unsteady(seconds: Iterable[Spread]) -> str:
    """Return a sentence that counts the measurements whose quartiles are far apart; "" if there are none."""
    unsteady_ones = [not each.steady for each in seconds]
    wide, n = sum(unsteady_ones), len(unsteady_ones)
    if not wide:
        return ""
    ranges = (
        "Each range between quartiles is"
        if wide == n
        else f"{wide} of {n} ranges between quartiles {'is' if wide == 1 else 'are'}"
    )
    return f" {ranges} wide, perhaps because other programs ran meanwhile: measure again."


def time_columns(seconds: Sequence[Spread]) -> dict[str, list[float]]:
    """Return the columns of a table with the quartiles of times."""
    return {
        "median, ms": [round(1e3 * s.median, 3) for s in seconds],
        "first quartile, ms": [round(1e3 * s.low, 3) for s in seconds],
        "third quartile, ms": [round(1e3 * s.high, 3) for s in seconds],
    }


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.2f} ms"


def _times(names: Sequence[str], times: Sequence[Spread]) -> Chart:
    """Draw milliseconds as bars with their quartiles; the medians stand behind the third quartile."""
    figure = base_figure(60 + 40 * len(names), showlegend=False)
    figure.add_bar(
        x=[1e3 * t.median for t in times], y=list(names), orientation="h", marker={"color": NEUTRAL}, hoverinfo="skip",
        error_x={
            "type": "data", "symmetric": False, "array": [1e3 * (t.high - t.median) for t in times],
            "arrayminus": [1e3 * (t.median - t.low) for t in times], "color": BROWN, "thickness": 2,
        },
    )  # fmt: skip
    figure.add_scatter(
        x=[1e3 * t.high for t in times], y=list(names), mode="text", text=[f" {_ms(t.median)}" for t in times],
        textposition="middle right", cliponaxis=False, hoverinfo="skip",
    )  # fmt: skip
    figure.update_layout(
        xaxis={"title": {"text": "milliseconds"}, "range": [0, 1.35e3 * max(t.high for t in times)]},
        yaxis={**BARE, "autorange": "reversed"},
    )
    return figure


# ---- the five checkpoints


def rate_text(member: Member) -> str:
    """Format the tokens per second of the median step, with the quartiles."""
    rate = member.seconds.per_second(1)
    return f"{rate.median:.0f} tokens per second (quartiles {rate.low:.0f}–{rate.high:.0f})"


def growth(members: Sequence[Member], n_tokens: int) -> Drawing:
    """Draw the growth of the checkpoints' caches on one scale."""
    figure = base_figure(300, legend={"orientation": "h", "y": 1.15})
    n = max(len(member.ids) for member in members)
    x = [n_tokens, n_tokens + n]
    for member in members:
        style = kind_style(member.model.partition("-")[0])
        figure.add_scatter(
            x=x, y=[member.token_bytes * t for t in x], mode="lines", name=FAMILY[member.model],
            line={"color": style["colour"], "dash": DASHES[member.model], "width": 2},
            hovertemplate="%{x} tokens: %{y:,} B<extra>" + FAMILY[member.model] + "</extra>",
        )  # fmt: skip
    figure.update_layout(
        xaxis={"title": {"text": "tokens"}}, yaxis={"title": {"text": "bytes cached"}, "rangemode": "tozero"}
    )
    most, least = max(members, key=lambda m: m.token_bytes), min(members, key=lambda m: m.token_bytes)
    return Drawing(
        figure,
        title=f"{FAMILY[most.model]} caches {most.token_bytes:,} B per token, {FAMILY[least.model]} "
        f"{least.token_bytes:,} B",
        note=f"The five trained checkpoints continue the same text by {count(n, 'token')}. All layers, in float32.",
        more="The bytes are counted in the live caches.",
        alt="; ".join(f"{FAMILY[m.model]} caches {m.token_bytes:,} B per token" for m in members) + ".",
        table={
            "model": [FAMILY[m.model] for m in members], "bytes per token": [m.token_bytes for m in members],
            f"bytes after {x[1]} tokens": [m.token_bytes * x[1] for m in members],
        },
    )  # fmt: skip


def family_times(members: Sequence[Member]) -> Drawing:
    """Draw the milliseconds of each checkpoint's decode step, measured here."""
    fastest = min(members, key=lambda m: m.seconds.median)
    slowest = max(members, key=lambda m: m.seconds.median)
    apart = slowest.seconds.median / fastest.seconds.median
    names, seconds = [FAMILY[m.model] for m in members], [m.seconds for m in members]
    rates = [s.per_second(1) for s in seconds]
    title = f"Measured here: {FAMILY[slowest.model]}'s step takes {apart:.1f} times {FAMILY[fastest.model]}'s"
    if fastest.seconds.overlaps(slowest.seconds):
        title = (
            f"Measured: medians {1e3 * fastest.seconds.median:.2f} to {_ms(slowest.seconds.median)}, within the spread"
        )
    return Drawing(
        _times(names, seconds),
        title=title,
        note=f"Times are of whole steps, not only of reading the cache. {_against(members)} Here a step reads "
        "more bytes of weights than of cache.",
        more="A step is the forward pass, the filters and the sampling. Bars: median of "
        f"{seconds[0].n_runs} steps, the models in turn; lines: from the first to the third quartile."
        f"{unsteady(seconds)}",
        alt="; ".join(f"{name}: {quartiles(s)}" for name, s in zip(names, seconds, strict=True))
        + f". The slowest takes {apart:.1f} times the fastest.",
        table={
            "model": names, **time_columns(seconds), "tokens per second": [round(r.median) for r in rates],
            "first to third quartile": [f"{r.low:.0f}–{r.high:.0f}" for r in rates],
            "cache bytes per token": [m.token_bytes for m in members],
        },
    )  # fmt: skip


def _against(members: Sequence[Member]) -> str:
    """Say whose step is faster or slower than that of the largest cache, by more than the spread."""
    most = max(members, key=lambda m: m.token_bytes)
    by_finding: dict[str, list[str]] = {"faster": [], "slower": [], "within the spread (no difference shown)": []}
    for member in members:
        if member is not most:
            same = member.seconds.overlaps(most.seconds)
            finding = "faster" if member.seconds.median < most.seconds.median else "slower"
            by_finding["within the spread (no difference shown)" if same else finding].append(FAMILY[member.model])
    findings = "; ".join(f"{listed(names)} {finding}" for finding, names in by_finding.items() if names)
    return f"Compared with {FAMILY[most.model]}, which caches the most: {findings}."
