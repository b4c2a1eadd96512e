"""The equations under the figures, built from the user's own values."""

from __future__ import annotations

from attnviz.config import ModelConfig
from attnviz.cost import Accelerator, DecodeStep, MemoryPlan, Prefill, cached_tokens, count_parameters
from attnviz.cost.cache import SCALE_BITS
from attnviz.cost.decode import multiplied_weights
from attnviz.cost.units import bytes_text
from attnviz.equations import (
    MULTIPLIED,
    Equation,
    Expression,
    Labelled,
    Steps,
    Style,
    Value,
    function,
    tex_text,
    total,
)

TERMS_PER_LINE = 3  # of a long sum, to fit on a phone


def attention_equation(model: ModelConfig) -> Equation:
    """Return the equation of the weights in one layer's attention."""
    c, n = model, count_parameters(model).attention_per_layer
    if c.attention == "mla":
        return Equation(
            total([Labelled(_latent_part(c, part), tex_text(part)) for part in count_parameters(c).attention])
        )
    width, head_dim = Value(c.d_model, "C", "d_model"), Value(c.head_dim, "D", "head_dim")
    products: list[Expression] = [
        Labelled(2 * width * Value(c.n_heads, "H", "query heads") * head_dim, "W_q, W_o"),
        Labelled(2 * width * _kv_heads(c) * head_dim, "W_k, W_v"),
    ]
    rest = n - int(total(products).value)
    if rest:
        products.append(Labelled(Value(rest), r"\text{biases, norms, sinks}"))
    return Equation(total(products))


def _latent_part(c: ModelConfig, part: str) -> Expression:
    """Return the weights of one part of MLA, named as in `count_parameters`."""
    width, heads = Value(c.d_model, "C", "d_model"), Value(c.n_heads, "H", "heads")
    latent, rope = Value(c.kv_lora_rank, "R", "kv_lora_rank"), Value(c.qk_rope_head_dim, "P", "qk_rope_head_dim")
    nope, value = Value(c.qk_nope_head_dim, "N", "qk_nope_head_dim"), Value(c.v_head_dim, "V", "v_head_dim")
    compressed = Value(c.q_lora_rank or 0, "Q", "q_lora_rank")
    return {
        "q down": width * compressed,
        "q up": compressed * heads * (nope + rope),
        "q": width * heads * (nope + rope),
        "kv down": width * (latent + rope),
        "kv up": latent * heads * (nope + value),
        "o": heads * value * width,
        "latent norms": latent + compressed if c.q_lora_rank else latent,
        "sinks": heads,
    }[part]


def by_part(equation: Equation) -> str:
    """Return a sum of labelled terms as LaTeX: each term with its own result, then the sum."""
    rows = []
    for term in equation.right.parts:
        assert isinstance(term, Labelled)
        name, symbols, *rest = Equation(term.inside, name_tex=term.label).sides(tex=True)
        rows += [f"& {name} = {symbols}", rf"& \quad = {' = '.join(rest)}"]
    rows.append(rf"& {tex_text('sum')} = {equation.sides(tex=True)[-1]}")
    return r"\begin{aligned} " + r" \\ ".join(rows) + r" \end{aligned}"


def sum_equation(parts: dict[str, int]) -> Equation:
    """Return the sum of the parts, each with its name below."""
    return Equation(total([Labelled(Value(n), tex_text(part)) for part, n in parts.items()]), steps=Steps.NUMBERS)


def wrapped(equation: Equation) -> str:
    """Return a sum of named numbers as LaTeX, a few terms per line."""
    left, result = equation.sides(tex=True)
    terms = left.split(" + ")
    rows = [" + ".join(terms[i : i + TERMS_PER_LINE]) for i in range(0, len(terms), TERMS_PER_LINE)]
    return r"\begin{aligned} & " + r" \\ & + ".join(rows) + rf" \\ & = {result} \end{{aligned}}"


def cache_equation(
    model: ModelConfig,
    n_tokens: int,
    batch_size: int = 1,
    bits: float = 16,
    block_size: int | None = None,
    steps: Steps = Steps.BOTH,
) -> Equation:
    """Return the equation of a cache's bytes, rounded up to whole bytes."""
    tokens = cached_tokens_expression(model, n_tokens)
    if batch_size > 1:
        tokens = Value(batch_size, "B", "sequences") * tokens
    n_bytes: Expression = tokens * _bytes_per_token(model, bits, block_size)
    if not float(n_bytes.value).is_integer():
        n_bytes = function("ceil", n_bytes)
    also = bytes_text(n_bytes.value) if n_bytes.value >= 1024 else ""
    return Equation(n_bytes, unit="B", also=also, steps=steps)


def cached_tokens_expression(model: ModelConfig, n_tokens: int) -> Expression:
    """Return the cached tokens, summed over the layers; windowed layers cache the window's tokens and the sinks."""
    layers, tokens = Value(model.n_layers, "L", "layers"), Value(n_tokens, "S", "tokens")
    n_full = len(set(model.full_layers))
    if model.sliding_window is None or n_full == model.n_layers:
        return layers * tokens
    nearest: Expression = Value(model.sliding_window, "W", "window")
    if model.n_sinks:
        nearest = nearest + Value(model.n_sinks, "A", "attention-sink tokens")
    sliding = function("min", tokens, nearest)
    if not n_full:
        return layers * sliding
    full = Value(n_full, "F", "layers without a window")
    return full * tokens + (layers - full) * sliding


def totals_formula(models: dict[str, ModelConfig], n_tokens: int) -> str:
    """Return each model's bf16 cache as LaTeX: its name, its numbers and its bytes below each other, for phones."""
    rows = []
    for name, model in models.items():
        numbers, *rest = cache_equation(model, n_tokens, steps=Steps.NUMBERS).sides(tex=True)
        tokens = cached_tokens_expression(model, n_tokens).within(Style(tex=True, symbols=False), MULTIPLIED)
        lines = [tokens, numbers.removeprefix(tokens)] if model.sliding_window else [numbers]
        rows += [f"& {line}" for line in (tex_text(f"{name}: "), *lines, f"= {' = '.join(rest)}")]
    return r"\begin{aligned} " + r" \\ ".join(rows) + r" \end{aligned}"


def fit_equation(plan: MemoryPlan) -> Equation:
    """Return the equation of the sequences that fit, or of the missing memory."""
    memory, weights = Value(plan.memory, "M", "bytes of memory"), Value(plan.weights, "W", "bytes of weights")
    reserve = Value(plan.reserve, "E", "bytes in reserve")
    if not plan.weights_fit:
        return Equation(weights - memory, "missing", r"\text{missing}", unit="B")
    if plan.free < 0:
        return Equation(weights + reserve - memory, "missing", r"\text{missing}", unit="B")
    one = Value(plan.cache_of_one, "C", "bytes of one sequence's cache")
    return Equation(function("floor", (memory - weights - reserve) / one), unit="sequences")


def rate_equation(step: DecodeStep, machine: Accelerator) -> Equation:
    """Return the equation of the bound on tokens per second."""
    read = _weight_bytes(step) + _cache_bytes(step)
    slower = function("max", read / _bandwidth(machine), _flops(step) / _peak(machine))
    return Equation(Value(step.batch_size, "B", "sequences") / slower, unit="tokens per second")


def prefill_equations(model: ModelConfig, prompt: Prefill, machine: Accelerator) -> tuple[Equation, ...]:
    """Return the equations of the attention's FLOPs, all FLOPs, and the least seconds to the first token."""
    heads, head_dim = Value(model.n_heads, "H", "query heads"), Value(model.head_dim, "D", "head_dim")
    per_pair = 4 * heads * head_dim
    if model.attention == "mla":
        per_pair = 2 * heads * (head_dim + Value(model.v_head_dim, "V", "v_head_dim"))
    attention = Equation(
        per_pair * _pairs(model, prompt), "Fₐ", "F_a", unit="FLOPs", scientific=True,
        meaning="FLOPs of scores and weighted sums",
    )  # fmt: skip
    layers = Value(
        prompt.layer_weights, "Nₗ", "weights multiplied per token, without the output layer", scientific=True, tex="N_l"
    )
    output = Value(prompt.output_weights, "Nₒ", "weights of the output layer", scientific=True, tex="N_o")
    flops = Equation(
        2 * layers * Value(prompt.n_tokens, "S", "tokens of the prompt") + 2 * output
        + Value(prompt.attention_flops, "Fₐ", "FLOPs of scores and weighted sums", scientific=True, tex="F_a"),
        "F", unit="FLOPs", scientific=True, meaning="FLOPs of the prompt",
    )  # fmt: skip
    arithmetic = Value(prompt.flops, "F", "FLOPs of the prompt", scientific=True) / _peak(machine)
    reading = Value(prompt.weight_bytes, "W", "bytes of weights read", scientific=True) / _bandwidth(machine)
    return attention, flops, Equation(function("max", arithmetic, reading), unit="s")


def _pairs(model: ModelConfig, prompt: Prefill) -> Expression:
    """Return the query-key pairs of all layers: L·S·(S + 1) / 2, or with windows their number."""
    if _has_windows(model):
        return Value(prompt.pairs, "p", "query–key pairs in all layers, within the windows", scientific=True)
    layers, tokens = Value(model.n_layers, "L", "layers"), Value(prompt.n_tokens, "S", "tokens of the prompt")
    return layers * tokens * (tokens + 1) / 2


def intensity_equations(model: ModelConfig, step: DecodeStep, n_tokens: int) -> tuple[Equation, Equation]:
    """Return the equations of a decode step's FLOPs and of its FLOPs per byte read, at n_tokens per sequence."""
    weights = Value(multiplied_weights(model), "N", "weights multiplied per token", scientific=True)
    per_token = 2 * weights + _flops_per_key(model) * _keys(model, n_tokens)
    flops = Equation(
        Value(step.batch_size, "B", "sequences") * per_token, "F", unit="FLOPs", scientific=True,
        meaning="FLOPs per step",
    )  # fmt: skip
    intensity = _flops(step) / (_weight_bytes(step) + _cache_bytes(step))
    return flops, Equation(intensity, unit="FLOPs per byte")


def _flops_per_key(model: ModelConfig) -> Expression:
    """Return the FLOPs of one query and key in all heads: score and weighted sum; for MLA in its absorbed form."""
    heads = Value(model.n_heads, "H", "query heads")
    if model.attention != "mla":
        return 4 * heads * Value(model.head_dim, "D", "head_dim")
    latent = Value(model.kv_lora_rank, "R", "kv_lora_rank, width of the latent")
    return 2 * heads * (2 * latent + Value(model.qk_rope_head_dim, "P", "qk_rope_head_dim, width of the RoPE key"))


def _keys(model: ModelConfig, n_tokens: int) -> Expression:
    """Return the keys that one new token attends to in all layers: L·S, or with windows their number."""
    if _has_windows(model):
        found = cached_tokens(model, n_tokens)
        return Value(found, "n", "keys that one token attends to in all layers, within the windows")
    return Value(model.n_layers, "L", "layers") * Value(n_tokens, "S", "tokens")


def _has_windows(model: ModelConfig) -> bool:
    return model.sliding_window is not None and len(set(model.full_layers)) < model.n_layers


def _kv_heads(c: ModelConfig) -> Value:
    return Value(c.n_kv_heads, "K", "KV heads")


def _bytes_per_token(c: ModelConfig, bits: float, block_size: int | None) -> Expression:
    """Return the bytes cached per token and layer: the numbers, and a scale for every full or partial block."""
    if c.attention == "mla":
        latent = Value(c.kv_lora_rank, "R", "kv_lora_rank, width of the latent")
        widths = [latent, Value(c.qk_rope_head_dim, "P", "qk_rope_head_dim, width of the RoPE key")]
    else:
        widths = [Value(c.head_dim, "D", "head_dim")]
    size = bits / 8
    size = int(size) if size.is_integer() else size  # whole numbers stay exact, however large the product
    stored = total(widths) * Value(size, "b", "bytes per number", digits=1 if size == 0.5 else None)
    if block_size is not None:
        stored = stored + SCALE_BITS // 8 * total([function("ceil", width / block_size) for width in widths])
    return stored if c.attention == "mla" else 2 * _kv_heads(c) * stored


def _bandwidth(machine: Accelerator) -> Value:
    return Value(machine.bandwidth, "β", "bytes per second", scientific=True, tex=r"\beta")


def _peak(machine: Accelerator) -> Value:
    return Value(machine.flops, "P", f"peak {machine.arithmetic} FLOP/s", scientific=True)


def _weight_bytes(step: DecodeStep) -> Value:
    return Value(step.weight_bytes, "W", "bytes of weights read", scientific=True)


def _cache_bytes(step: DecodeStep) -> Value:
    return Value(step.cache_bytes, "C", "bytes of caches read", scientific=True)


def _flops(step: DecodeStep) -> Value:
    return Value(step.flops, "F", "FLOPs per step", scientific=True)
