"""The equations under the figures, built from the user's own values."""

from __future__ import annotations

from attnviz.config import ModelConfig
from attnviz.cost import Accelerator, DecodeStep, MemoryPlan, Prefill, cache, decode_cost
from attnviz.cost.prefill import prefill_attention, prefill_weights
from attnviz.cost.units import bytes_text
from attnviz.cost.weights import attention_parameters
from attnviz.equations import Equation, Labelled, Steps, Value, function, tex_lines, tex_text, total
from attnviz.mechanisms import LETTERS, letter


def attention_equation(model: ModelConfig) -> Equation:
    """Return the equation of the parameters of one layer's attention; equal matrices are added once: 2 · C · H · D."""
    return Equation(attention_parameters(model))


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
    page: int = 1,
) -> Equation:
    """Return the equation of a cache's bytes, rounded up to whole bytes."""
    n_bytes = cache(model, n_tokens, batch_size, bits, block_size=block_size, page=page)
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
    if plan.free < 0:
        return Equation(plan.missing(), "missing", r"\text{missing}", unit="B")
    return Equation(plan.sequences(), unit="sequences")


def rate_equation(step: DecodeStep, machine: Accelerator) -> Equation:
    """Return the equation of the bound on tokens per second."""
    return Equation(step.rate(machine), unit="tokens per second")


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
    return attention, flops, Equation(prompt.least_seconds(machine), unit="s")


def intensity_equations(model: ModelConfig, step: DecodeStep, n_tokens: int) -> tuple[Equation, Equation]:
    """Return the equations of a decode step's FLOPs and of its FLOPs per byte read, at n_tokens per sequence."""
    flops = Equation(
        decode_cost(model, n_tokens, step.batch_size), "f", unit="FLOPs", scientific=True, meaning="FLOPs per step"
    )
    return flops, Equation(step.intensity_cost(), unit="FLOPs per byte")


def breaking_lines(*equations: Equation) -> str:
    """Return equations as LaTeX whose brackets do not grow, so that long sums in them can break over lines."""
    return tex_lines(*equations).replace(r"\left(", "(").replace(r"\right)", ")")
