"""The answer on top of the Cost page in words, as a bar, and as lists of models and of accelerators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from attnviz.cost import PRECISIONS, Answer, attention_name, count_parameters, with_its_scales
from attnviz.cost.units import bytes_text, context_text, count_text
from attnviz.equations import Equation
from attnviz.figures.cost.captions import beyond_context, crowd_text, is_beyond, short_name
from attnviz.figures.cost.formulas import breaking_lines, cache_equation, fit_equation
from attnviz.figures.cost.placing import PARALLEL, placing, uneven_text
from attnviz.figures.cost.rates import rate_text, rounded_rate
from attnviz.figures.cost.reading import limit_text, memory_text
from attnviz.figures.drawing import escaped
from attnviz.figures.markup import meanings
from attnviz.figures.theme import BROWN, DARK_PETROL, FAINT, NEUTRAL, PETROL
from attnviz.phrases import count, listed

ROW = 38  # pixels
LARGEST_SPLIT = 64  # most sequences that are drawn one by one
COLOURS = "To scale: weights grey, caches blue-green, the reserve brown."
ROOM_OF_LABEL = 0.16  # share of the bar that a piece's name needs below it


def sentence(answer: Answer) -> str:
    """State what is needed, of it weights and caches, whether it fits and by how much, how many would, how fast."""
    serving = answer.serving
    rate = speed(answer) if answer.fits else ""
    placed = placing(serving, answer.n_sequences)
    said = f"{need(answer)} {fit(answer)}{rate}", placed, beyond_context(serving.model, serving.n_tokens)
    return " ".join(filter(None, said)).strip()


def need(answer: Answer) -> str:
    """State the need and its parts."""
    serving, n = answer.serving, answer.n_sequences
    one = f", {bytes_text(answer.plan.cache_of_one)} each" if n > 1 else ""
    weights, kept = bytes_text(answer.plan.weights), answer.cached - answer.state
    cached = (
        [f"{bytes_text(kept)} of cache in {with_its_scales(serving.precision)}"] if kept or not answer.state else []
    )
    cached += [f"{bytes_text(answer.state)} of state"] if answer.state else []
    where = f" on each of {serving.count:,} accelerators" if serving.count > 1 else ""
    pieces = [f"{weights} of weights in {with_its_scales(serving.weights)}", *cached]
    return (
        f"**{escaped(short_name(serving.model))} needs {bytes_text(answer.needed)}{where}**: {listed(pieces)} for "
        f"{crowd_text(serving.n_tokens, n)}{one}."
    )


def fit(answer: Answer) -> str:
    """State whether it fits and by how much, and how many sequences or accelerators would."""
    serving, plan = answer.serving, answer.plan
    on_each = " on each" if serving.count > 1 else ""
    memory = memory_text(serving.accelerator)
    if not serving.accelerator.is_typed:
        memory = f"{escaped(_machine(answer))}: {memory}"
    kept = f" beside a reserve of {serving.reserve:.0%}" if plan.reserve else ""
    uneven = uneven_text(serving)
    if answer.fits:
        refused = f" in memory, but **{uneven}**" if uneven else ""
        return (
            f"**It fits**{refused} ({memory}) with {bytes_text(answer.spare)} to spare{on_each}{kept}; at most "
            f"{count(answer.most, 'such sequence')} fit{'s' * (answer.most == 1)} at once."
        )
    refused = f", and **{uneven}**" if uneven else ""
    missing = (
        f"**It does not fit**{refused} ({memory}): {bytes_text(-answer.spare)} more would be needed{on_each}{kept}"
    )
    return f"{missing}. {_what_would(answer)}"


def _what_would(answer: Answer) -> str:
    """State what would fit in its place: fewer sequences, a shorter context, more accelerators."""
    plan, serving = answer.plan, answer.serving
    more = _how_many(answer)
    if not plan.weights_fit:
        return f"The weights alone are larger than the memory{' of each' if serving.count > 1 else ''}; {more}"
    if plan.free < 0:
        return f"The weights leave no room for the reserve; {more}"
    if answer.most:
        return f"{count(answer.most, 'such sequence')} would fit; {more}"
    if plan.n_tokens:
        return f"Not one sequence of this length fits; one of {context_text(plan.n_tokens)} would. {more}"
    return f"Not even one token fits beside the weights; {more}"


def _how_many(answer: Answer) -> str:
    """State how many accelerators would hold it; if no number does, how many with the other parallelism."""
    serving, n = answer.serving, answer.smallest_number
    way = f", with {PARALLEL[serving.parallel]}" if serving.count == 1 else ""  # for more it is said below
    if n is not None:
        return f"{_machines(answer, n)} would hold it{way}."
    other = next(each for each in PARALLEL if each != serving.parallel)
    there = Answer(replace(serving, parallel=other), answer.n_sequences).smallest_number
    instead = "" if there is None else f"; {_machines(answer, there)} would with {PARALLEL[other]}"
    return f"no number of accelerators that divides the heads evenly would hold it{way}{instead}."


def speed(answer: Answer) -> str:
    """State the bound on the tokens per second, a space before it; "" where the bandwidth is not known."""
    rate = answer.tokens_per_second
    if rate is None:
        return ""
    n, serving = answer.n_sequences, answer.serving
    together = f" for all {n:,} together" if n > 1 else ""
    bound = f"at most about {rate_text(rate)} tokens per second{together}"
    return f" Decoding: {bound}; {limit_text(serving, serving.step(n))}."


def panel(answer: Answer) -> dict:
    """Return the `to_scale` payload: weights, caches, reserve and what is left, in a memory to scale."""
    pieces = _pieces(answer)
    whole = max(answer.plan.memory, sum(size for _, size, _, _ in pieces))
    rects: list[list] = []
    labels: list[list] = []
    unlabelled: list[str] = []
    x = 0.0
    for name, size, colour, opacity in pieces:
        width = size / whole
        here = answer.serving.here(answer.n_sequences)
        n = here if name == "cache" and here <= LARGEST_SPLIT else 1
        text = f"{name}: {bytes_text(size)}"
        rects += [[x + i * width / n, 0, width / n, 1, colour, opacity, text] for i in range(n)]
        if width >= ROOM_OF_LABEL:
            each = f" = {n} × {bytes_text(size / n)}" if n > 1 and width >= 2 * ROOM_OF_LABEL else ""
            labels.append([x + width / 2, 1, "below", name, f"{bytes_text(size)}{each}"])
        else:
            unlabelled.append(f"{name} {bytes_text(size)}")
        x += width
    edge = answer.plan.memory / whole
    if edge < 1:
        memory = bytes_text(answer.plan.memory)
        rects.append([edge - 0.002, -0.15, 0.004, 1.3, "currentColor", 1, f"memory: {memory}"])
        if all(abs(edge - label[0]) >= ROOM_OF_LABEL for label in labels):
            labels.append([max(edge, ROOM_OF_LABEL / 3), 1, "below", "memory", memory])
        else:
            unlabelled.append(f"memory {memory}")
    room = f"{'left over' if answer.fits else 'missing'}{' on each' if answer.serving.count > 1 else ''}"
    return {
        "title": f"{'Fits' if answer.fits else 'Does not fit'}: {bytes_text(abs(answer.spare))} {room}",
        "note": _colours(answer),
        "alt": f"{listed(f'{name} {bytes_text(size)}' for name, size, _, _ in pieces)}, in a memory of "
        f"{bytes_text(answer.plan.memory)}.",
        "width": 1, "height": 1, "row": ROW, "line": "", "legend": "",
        "rects": rects, "labels": labels,
        "rest": f"Also in the bar: {' · '.join(unlabelled)}." if unlabelled else "",
    }  # fmt: skip


def calculation(answer: Answer) -> tuple[str, str]:
    """Return the equations of the cache, the need and the sequences that fit as LaTeX, and their letters."""
    s, plan = answer.serving, answer.plan
    bits, block = PRECISIONS[s.precision]
    equations = (
        cache_equation(s.allocated, s.n_tokens, 1, bits, block, page=s.page),
        Equation(plan.needed(answer.n_sequences), unit="B", also=bytes_text(answer.needed)),
        fit_equation(plan),
    )
    return breaking_lines(*equations), meanings(*equations)


def _pieces(answer: Answer) -> list[tuple[str, int, str, float]]:
    """Return the pieces of the bar in their order: name, bytes, colour, opacity."""
    plan = answer.plan
    pieces = [
        ("weights", plan.weights, NEUTRAL, 1.0),
        ("state", answer.state, DARK_PETROL, 1.0),
        ("cache", answer.cached - answer.state, PETROL, 1.0),
        ("reserve", plan.reserve, BROWN, 0.4),
        ("left over", max(answer.spare, 0), FAINT, 0.4),
    ]
    return [piece for piece in pieces if piece[1]]


def _colours(answer: Answer) -> str:
    n = answer.serving.count
    return COLOURS if n == 1 else f"One of the {n:,} accelerators. {COLOURS}"


def memory_note(answer: Answer) -> str:
    """Explain the memory in GiB, with its source."""
    a = answer.serving.accelerator
    known = "" if a.is_typed else f"{_machine(answer)}: {memory_text(a)}. "
    source = f" Reported by {a.reported_by}." if a.reported_by else ""
    sold = f" The {a.data_sheet_gb / a.count:g} GB of its data sheet are GiB." if a.reported_by else ""
    return f"{known}1 GiB = 2³⁰ bytes.{sold}{source}"


def _machine(answer: Answer) -> str:
    return answer.serving.accelerator.name


def _machines(answer: Answer, n: int) -> str:
    """Name this many of the accelerator, the number never alone: sequences are counted beside it."""
    return f"{n:,} × {escaped(answer.serving.accelerator.of_one)}"


def models_list(answers: Sequence[Answer]) -> dict[str, list]:
    """Return the columns of the list of models on one accelerator."""
    models = [answer.serving.model for answer in answers]
    return {
        "model": [short_name(model) for model in models],
        **_answer_columns(answers),
        "parameters": [count_text(count_parameters(model).total) for model in models],
        "attention": [attention_name(model) for model in models],
        **_part_columns(answers),
        "made for": [None if m.max_context is None else context_text(m.max_context) for m in models],
    }


def accelerators_list(answers: Sequence[Answer]) -> dict[str, list]:
    """Return the columns of the list of accelerators for one model."""
    return {
        "accelerator": [_machine(answer) for answer in answers],
        **_answer_columns(answers),
        f"memory{_on_each(answers)}, GiB": [round(answer.plan.memory / 2**30, 1) for answer in answers],
        **_part_columns(answers),
        "needed of them": [answer.smallest_number for answer in answers],
    }


def _answer_columns(answers: Sequence[Answer]) -> dict[str, list]:
    """Return what a list is read for, directly after the name: a phone shows the first two. No speed without room."""
    rates = [answer.tokens_per_second if answer.fits else None for answer in answers]
    return {
        "fits": ["✓" if answer.fits else "–" for answer in answers],
        "tokens/s at most": [None if rate is None else rounded_rate(rate) for rate in rates],
        f"needs{_on_each(answers)}, GiB": [round(answer.needed / 2**30, 2) for answer in answers],
        **_uneven_column(answers),
    }


def _uneven_column(answers: Sequence[Answer]) -> dict[str, list]:
    """Return whether the heads can be divided, where that is asked of several accelerators."""
    uneven = [bool(uneven_text(answer.serving)) for answer in answers]
    return {"heads divide evenly": ["–" if each else "✓" for each in uneven]} if any(uneven) else {}


def _part_columns(answers: Sequence[Answer]) -> dict[str, list]:
    each = _on_each(answers)
    return {
        f"weights{each}, GiB": [round(answer.plan.weights / 2**30, 2) for answer in answers],
        f"cache and state{each}, GiB": [round(answer.cached / 2**30, 2) for answer in answers],
        "sequences that fit": [answer.most for answer in answers],
    }


def _on_each(answers: Sequence[Answer]) -> str:
    return " on each" if answers[0].serving.count > 1 else ""


def _served(answer: Answer) -> str:
    """Name the precision of the weights and the sequences: "weights in bf16 and 8 K tokens"."""
    crowd = crowd_text(answer.serving.n_tokens, answer.n_sequences)
    return f"weights in {with_its_scales(answer.serving.weights)} and {crowd}"


def models_finding(answers: Sequence[Answer]) -> str:
    """State how many models fit and which is the largest, as a title."""
    asked, fitting = answers[0], [answer for answer in answers if answer.fits]
    crowd = _served(asked)
    if not fitting:
        return f"{_machine(asked)}: none of {count(len(answers), 'model')} fits with {crowd}"
    beyond = sum(is_beyond(answer.serving.model, answer.serving.n_tokens) for answer in fitting)
    made = (
        f", {beyond} of them beyond the context {'it was' if beyond == 1 else 'they were'} made for" if beyond else ""
    )
    return (
        f"{_machine(asked)}: {len(fitting)} of {count(len(answers), 'model')} fit with {crowd}{made}; the largest is "
        f"{short_name(fitting[0].serving.model)}"
    )


def accelerators_finding(answers: Sequence[Answer]) -> str:
    """State how many accelerators hold the model and which is the fastest, as a title."""
    holding = [answer for answer in answers if answer.fits]
    first = answers[0]
    name, crowd = short_name(first.serving.model), _served(first)
    if not holding:
        return f"None of {len(answers)} choices holds {name} with {crowd}"
    said = f"{len(holding)} of {len(answers)} hold{'s' * (len(holding) == 1)} {name} with {crowd}"
    rate = holding[0].tokens_per_second
    if rate is None:
        return said
    return f"{said}; highest bound: {_machine(holding[0])}, about {rate_text(rate)} tokens per second"
