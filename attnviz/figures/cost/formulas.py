"""The equations under the figures, built from the user's own values."""

from __future__ import annotations

from collections.abc import Sequence

from attnviz.config import ModelConfig
from attnviz.cost import Accelerator, DecodeStep, MemoryPlan, Prefill, cache, decode_cost
from attnviz.cost.prefill import prefill_attention, prefill_weights
from attnviz.cost.units import bytes_text
from attnviz.equations import (
    Equation,
    Expression,
    Labelled,
    Steps,
    Value,
    function,
    tex_text,
    total,
)
from attnviz.mechanisms import LETTERS, letter


def attention_equation(model: ModelConfig) -> Equation:
    """Return the equation of one layer's attention weights; equal matrices are added once: 2 · C · H · D."""
    C, named = letter("C", model.d_model), dict[Expression, list[str]]()
    matrices, others = model.mixer.matrices(C), model.mixer.added(C)
    for name, weights in matrices.items():
        named.setdefault(weights, []).append(name)
    terms: list[Expression] = [
        Labelled(weights if len(names) == 1 else len(names) * weights, matrix_names(names))
        for weights, names in named.items()
    ]
    if others:
        names = dict.fromkeys("biases" if name in matrices else name for name in others)
        terms.append(Labelled(total(list(others.values())), tex_text(", ".join(names))))
    return Equation(total(terms))


def matrix_names(parts: Sequence[str]) -> str:
    """Return the label of equal matrices, W_q, W_o for "q" and "o", or of one: its part's name."""
    return ", ".join(f"W_{part}" for part in parts) if len(parts) > 1 else tex_text(parts[0])


def by_part(equation: Equation) -> str:
    """Return a sum of labelled terms as LaTeX: each term with its own result, then the sum."""
    rows = []
    for term in equation.right.parts:
        assert isinstance(term, Labelled)
        name, symbols, *rest = Equation(term.inside, name_tex=term.label).sides(tex=True)
        rows += [f"{name} = {symbols}", rf"\quad = {' = '.join(rest)}"]
    return "\n".join([*rows, f"{tex_text('sum')} = {equation.sides(tex=True)[-1]}"])


def sum_equation(parts: dict[str, int]) -> Equation:
    """Return the sum of the parts, each with its name below."""
    return Equation(total([Labelled(Value(n), tex_text(part)) for part, n in parts.items()]), steps=Steps.NUMBERS)


def cache_equation(
    model: ModelConfig,
    n_tokens: int,
    batch_size: int = 1,
    bits: float = 16,
    block_size: int | None = None,
    steps: Steps = Steps.BOTH,
) -> Equation:
    """Return the equation of a cache's bytes, rounded up to whole bytes."""
    n_bytes = cache(model, n_tokens, batch_size, bits, block_size=block_size)
    if not float(n_bytes.value).is_integer():
        n_bytes = function("ceil", n_bytes)
    also = bytes_text(n_bytes.value) if n_bytes.value >= 1024 else ""
    return Equation(n_bytes, unit="B", also=also, steps=steps)


def totals_formula(models: dict[str, ModelConfig], n_tokens: int) -> str:
    """Return each model's bf16 cache as LaTeX: its name, its numbers and its bytes below each other."""
    rows = []
    for name, model in models.items():
        numbers, *rest = cache_equation(model, n_tokens, steps=Steps.NUMBERS).sides(tex=True)
        rows += [tex_text(f"{name}: "), numbers, f"= {' = '.join(rest)}"]
    return "\n".join(rows)


def fit_equation(plan: MemoryPlan) -> Equation:
    """Return the equation of the sequences that fit, or of the missing memory."""
    memory, weights, reserve = letter("M", plan.memory), letter("Mₚ", plan.weights), letter("Mₑ", plan.reserve)
    if not plan.weights_fit:
        return Equation(weights - memory, "missing", r"\text{missing}", unit="B")
    if plan.free < 0:
        return Equation(weights + reserve - memory, "missing", r"\text{missing}", unit="B")
    return Equation(function("floor", (memory - weights - reserve) / letter("M₁", plan.cache_of_one)), unit="sequences")


def rate_equation(step: DecodeStep, machine: Accelerator) -> Equation:
    """Return the equation of the bound on tokens per second."""
    read = _weight_bytes(step) + _cache_bytes(step)
    slower = function("max", read / _bandwidth(machine), _flops(step) / _peak(machine))
    return Equation(letter("B", step.batch_size) / slower, unit="tokens per second")


def prefill_equations(model: ModelConfig, prompt: Prefill, machine: Accelerator) -> tuple[Equation, ...]:
    """Return the equations of the attention's FLOPs, all FLOPs, and the least seconds to the first token."""
    attention = Equation(
        prefill_attention(model, prompt.n_tokens), "Fₐ", "F_a", unit="FLOPs", scientific=True,
        meaning=LETTERS["Fₐ"][0],
    )  # fmt: skip
    weights = prefill_weights(model, prompt.n_tokens)
    flops = Equation(
        weights + letter("Fₐ", prompt.attention_flops, scientific=True), "f", unit="FLOPs", scientific=True,
        meaning="FLOPs of the prompt",
    )  # fmt: skip
    arithmetic = Value(prompt.flops, "f", "FLOPs of the prompt", scientific=True) / _peak(machine)
    reading = letter("Mₚ", prompt.weight_bytes, "bytes of weights read", scientific=True) / _bandwidth(machine)
    return attention, flops, Equation(function("max", arithmetic, reading), unit="s")


def intensity_equations(model: ModelConfig, step: DecodeStep, n_tokens: int) -> tuple[Equation, Equation]:
    """Return the equations of a decode step's FLOPs and of its FLOPs per byte read, at n_tokens per sequence."""
    flops = Equation(
        decode_cost(model, n_tokens, step.batch_size), "f", unit="FLOPs", scientific=True, meaning="FLOPs per step"
    )
    intensity = _flops(step) / (_weight_bytes(step) + _cache_bytes(step))
    return flops, Equation(intensity, unit="FLOPs per byte")


def _bandwidth(machine: Accelerator) -> Value:
    return letter("β", machine.bandwidth, scientific=True)


def _peak(machine: Accelerator) -> Value:
    return letter("Π", machine.flops, f"peak {machine.arithmetic} FLOP/s", scientific=True)


def _weight_bytes(step: DecodeStep) -> Value:
    return letter("Mₚ", step.weight_bytes, "bytes of weights read", scientific=True)


def _cache_bytes(step: DecodeStep) -> Value:
    return letter("Mₖ", step.cache_bytes, scientific=True)


def _flops(step: DecodeStep) -> Value:
    return letter("f", step.flops, "FLOPs per step", scientific=True)
