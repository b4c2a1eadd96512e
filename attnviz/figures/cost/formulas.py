"""The equations under the figures, with the user's own numbers put in. LaTeX.

L layers, C d_model, H query heads, K KV heads, D head_dim, S tokens, B sequences, b bits a number, w window;
for MLA R kv_lora_rank, P qk_rope_head_dim.
"""

from __future__ import annotations

from collections.abc import Sequence

from attnviz.config import ModelConfig
from attnviz.cost import Accelerator, DecodeStep, MemoryPlan, count_parameters, kv_cache_bytes
from attnviz.cost.cache import SCALE_BITS
from attnviz.cost.units import bytes_text
from attnviz.figures.phrases import tex


def lines(*parts: str) -> str:
    """An equation that goes on in the next line at each of its equals signs: a phone is narrow."""
    first, *rest = parts
    return r"\begin{aligned} & " + first + "".join(rf"\\ & {part}" for part in rest) + r" \end{aligned}"


def attention_formula(model: ModelConfig) -> str:
    """The weights of one layer's attention."""
    c, total = model, count_parameters(model).attention_per_layer
    if c.attention == "mla":
        return sum_formula(count_parameters(c).attention)
    products = 2 * c.d_model * (c.n_heads + c.n_kv_heads) * c.head_dim
    rest = rf" + \underbrace{{{tex(total - products)}}}_{{\text{{biases, norms, sinks}}}}" if total > products else ""
    return lines(
        r"\underbrace{2\,C H D}_{W_q, W_o} + \underbrace{2\,C K D}_{W_k, W_v}",
        rf"= 2\cdot{c.d_model}\cdot{c.n_heads}\cdot{c.head_dim} + 2\cdot{c.d_model}\cdot{c.n_kv_heads}\cdot"
        rf"{c.head_dim}{rest}",
        rf"= {tex(total)}",
    )


def sum_formula(parts: dict[str, int]) -> str:
    """Parts, each with its name below, three in a line, and what they add up to."""
    terms = [rf"\underbrace{{{tex(n)}}}_{{\text{{{part}}}}}" for part, n in parts.items()]
    rows = [" + ".join(terms[i : i + 3]) for i in range(0, len(terms), 3)]
    return lines(rows[0], *(f"+ {row}" for row in rows[1:]), rf"= {tex(sum(parts.values()))}")


def cache_formula(
    model: ModelConfig, n_tokens: int, batch_size: int = 1, bits: float = 16, block_size: int | None = None
) -> str:
    """The bytes of a cache: in symbols, in numbers, and what it comes to."""
    total = kv_cache_bytes(model, n_tokens, batch_size, bits, block_size=block_size)
    batch = r"B\cdot " if batch_size > 1 else ""
    return lines(
        rf"{batch}{_tokens_symbols(model, n_tokens)}\cdot {_token_symbols(model, block_size)}",
        f"= {cache_numbers_tex(model, n_tokens, batch_size, bits, block_size)}",
        rf"= {tex(total)}\text{{ B}}" + (rf" = \text{{{bytes_text(total)}}}" if total >= 1024 else ""),
    )


def cache_numbers_tex(
    model: ModelConfig, n_tokens: int, batch_size: int = 1, bits: float = 16, block_size: int | None = None
) -> str:
    """The product with the numbers in it."""
    batch = rf"{tex(batch_size)}\cdot" if batch_size > 1 else ""
    return rf"{batch}{_tokens_numbers(model, n_tokens)}\cdot {_token_numbers(model, bits, block_size)}"


def totals_formula(named: dict[str, ModelConfig], n_tokens: int) -> str:
    """A line for every model."""
    products = (
        rf"{cache_numbers_tex(model, n_tokens)} = {tex(kv_cache_bytes(model, n_tokens))}" for model in named.values()
    )
    return lines(*(rf"\text{{{name}: }}{product}\text{{ B}}" for name, product in zip(named, products, strict=True)))


def fit_formula(plan: MemoryPlan) -> str:
    """How many users fit."""
    return lines(
        r"\left\lfloor\tfrac{\text{memory} - \text{weights} - \text{reserve}}{\text{cache of one}}\right\rfloor",
        rf"= \left\lfloor\tfrac{{{tex(plan.memory)} - {tex(plan.weights)} - {tex(plan.reserve)}}}"
        rf"{{{tex(plan.cache_of_one)}}}\right\rfloor",
        rf"= {tex(plan.n_users)}",
    )


def _token_symbols(model: ModelConfig, block_size: int | None) -> str:
    """Bytes of one token in one layer: b bits a number, and a scale for every begun block of each vector."""
    heads, widths = ("", ("R", "P")) if model.attention == "mla" else (r"2\,K\cdot", ("D",))
    numbers = rf"({' + '.join(widths)})" if len(widths) > 1 else widths[0]
    return rf"{heads}\tfrac{{{numbers}\,b{_scales(widths, block_size)}}}{{8}}"


def _token_numbers(model: ModelConfig, bits: float, block_size: int | None) -> str:
    if model.attention == "mla":
        heads, widths = "", [model.kv_lora_rank, model.qk_rope_head_dim]
    else:
        heads, widths = rf"2\cdot{model.n_kv_heads}\cdot", [model.head_dim]
    numbers = rf"({' + '.join(map(str, widths))})" if len(widths) > 1 else str(widths[0])
    return rf"{heads}\tfrac{{{numbers}\cdot{bits:g}{_scales(widths, block_size)}}}{{8}}"


def _scales(widths: Sequence[object], block_size: int | None) -> str:
    if block_size is None:
        return ""
    blocks = " + ".join(rf"\lceil {width}/{block_size}\rceil" for width in widths)
    return rf" + {SCALE_BITS}\,({blocks})" if len(widths) > 1 else rf" + {SCALE_BITS}\,{blocks}"


def _tokens_symbols(model: ModelConfig, n_tokens: int) -> str:
    """Tokens held over all layers, sliding layers apart from full ones."""
    n_full, n_sliding = _layers(model, n_tokens)
    if not n_sliding:
        return r"L\cdot S"
    return rf"({n_full}\,S + {n_sliding}\,w)" if n_full else rf"{n_sliding}\,w"


def _tokens_numbers(model: ModelConfig, n_tokens: int) -> str:
    n_full, n_sliding = _layers(model, n_tokens)
    if not n_sliding or model.sliding_window is None:
        return rf"{n_full}\cdot{tex(n_tokens)}"
    sliding = rf"{n_sliding}\cdot{tex(model.sliding_window)}"
    return rf"({n_full}\cdot{tex(n_tokens)} + {sliding})" if n_full else sliding


def _layers(model: ModelConfig, n_tokens: int) -> tuple[int, int]:
    """Layers that hold all tokens, and those whose window is shorter than the text."""
    if model.sliding_window is None or model.sliding_window >= n_tokens:
        return model.n_layers, 0
    n_full = len(set(model.full_layers))
    return n_full, model.n_layers - n_full


def decode_formula(step: DecodeStep, machine: Accelerator) -> str:
    """The bound on tokens a second."""
    n_bytes = step.weight_bytes + step.cache_bytes
    return lines(
        r"B \,/ \max\!\left(\tfrac{\text{bytes}}{\text{bandwidth}}, \tfrac{\text{FLOPs}}{\text{FLOP/s}}\right)",
        rf"= {tex(step.batch_size)} \,/ \max\!\left(\tfrac{{{_power(n_bytes)}}}{{{_power(machine.bandwidth)}}}, "
        rf"\tfrac{{{_power(step.flops)}}}{{{_power(machine.flops)}}}\right)\text{{s}}",
        rf"= {tex(round(step.tokens_per_second(machine)))}\text{{ tokens a second}}",
    )


def _power(value: float) -> str:
    """Three digits and a power of ten."""
    digits, exponent = f"{value:.2e}".split("e")
    return rf"{digits}\cdot 10^{{{int(exponent)}}}"


def intensity_formula(step: DecodeStep) -> str:
    """FLOPs a byte read."""
    return lines(
        r"\tfrac{\text{FLOPs}}{\text{weights} + \text{caches}}",
        rf"= \tfrac{{{_power(step.flops)}}}{{{_power(step.weight_bytes)} + {_power(step.cache_bytes)}}}",
        rf"= {step.intensity:.3g}\text{{ FLOPs a byte for }}B = {tex(step.batch_size)}",
    )
