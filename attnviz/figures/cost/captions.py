"""Texts of the Cost page: its sentences on the selected and the pasted model, and texts that several figures share."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from attnviz.config import ModelConfig
from attnviz.cost import (
    PRECISIONS,
    attention_name,
    bits_with_scales,
    count_parameters,
    expanded_cache_bytes,
    kv_cache_bytes,
    with_its_scales,
)
from attnviz.cost.hf_config import Description
from attnviz.cost.precisions import SCALE_BITS
from attnviz.cost.units import bytes_text, context_text, tokens_text
from attnviz.cost.variants import with_latent
from attnviz.figures.drawing import escaped
from attnviz.phrases import count, listed

LIKE = {"int4": ", as in llama.cpp's q4_0", "int8": ", as in llama.cpp's q8_0"}
MAX_NAMES, MAX_NAME = 40, 40  # of the fields of a pasted file, and their characters


def saving_text(full: ModelConfig, selected: ModelConfig, n_tokens: int, batch_size: int, precision: str) -> str:
    """State in one sentence the cache of a model as MHA, and how much of it and of the parameters the selected has."""
    bits, block = PRECISIONS[precision]
    before, after = (kv_cache_bytes(m, n_tokens, batch_size, bits, block_size=block) for m in (full, selected))
    crowd = f"**{crowd_text(n_tokens, batch_size)}** in {with_its_scales(precision)}"
    text = f"For {crowd}, {attention_name(full)} caches **{bytes_text(before)}**"
    if selected == full:
        return f"{text}."
    share = count_parameters(selected).total / count_parameters(full).total
    return (
        f"{text} and the selected {attention_name(selected)} **{bytes_text(after)}**: {after / before:.1%} "
        f"of the cache, with {share:.1%} of the parameters."
    )


def counted_text(
    n_models: int, parameters: Sequence[str], caches: Sequence[str], precision: str, *, windowed: bool
) -> str:
    """State what was counted in live tensors, and whether the formulas agree.

    parameters, caches: names of the models for which a formula gives another number, that of the cache for all tokens.
    windowed: whether the caches drawn are of fewer tokens.
    """
    counted = (
        f"{n_models} live models were built with one layer each, since all layers have the same shapes; their "
        "parameters and the bytes of their bf16 caches were counted"
    )
    drawn = (
        ""
        if precision == "bf16"
        else f" The bytes drawn in {with_its_scales(precision)} come from the formula, not from a count."
    )
    if parameters:
        return (
            f"{counted}. The parameters by formula differ for {listed(parameters)}: see the numbers under each figure."
        )
    if caches:
        return (
            f"{counted}. The parameters are those of the formulas; the bytes of the caches differ for "
            f"{listed(caches)}.{drawn}"
        )
    window = (
        ", the cache's for all tokens, since the live modules also keep those outside the window. The caches drawn by "
        "formula hold the window alone in windowed layers, so they are smaller"
        if windowed else ""
    )  # fmt: skip
    return f":material/check: {counted}; the formulas give the same numbers{window}.{drawn}"


def description_texts(model: Description) -> list[str]:
    """Return a sentence each on what was used of a config.json, assumed, not counted and ignored."""
    if model.counted:
        return [model.counted]
    default = "transformers' default is" if model.known else "Llama's default is"
    texts = [
        f"**Used from config.json**: {_fields(model.used) or 'nothing'}.",
        f"**Not in config.json, so {default} assumed**: {_fields(model.assumed)}."
        if model.assumed
        else "Nothing had to be assumed.",
    ]
    if not model.known and model.unused:
        names = [escaped(name[:MAX_NAME]) for name in model.unused[:MAX_NAMES]]
        texts.append(f"**Not used in the count**: {', '.join(names)}{' …' * (len(model.unused) > MAX_NAMES)}.")
    if not model.known and "tie_word_embeddings" in model.assumed:
        n_tied = model.model.vocab_size * model.model.d_model
        texts.append(
            f"The file does not say whether the embeddings are tied. If they are, the model has {n_tied:,} fewer "
            "parameters."
        )
    if model.model.head_rows is not None:
        rows, C = model.model.head_rows, model.model.d_model
        head = f"a head of {count(rows, 'row')}, {count(rows * (C + model.model.lm_head_bias), 'parameter')}"
        texts.append(
            f"This class has no output layer over the vocabulary{f', but {head}' if rows else ''}: it predicts no "
            "next token."
        )
    if model.uncounted:
        left_out = "; ".join(f"{what} (`{name}`)" for name, what in model.uncounted.items())
        texts.append(f"**Not counted**: {left_out}.")
    if model.stored_as:
        texts.append(f"Stored precision ({escaped(model.stored_as)}) is ignored; choose the cache's above.")
    return texts


def _fields(fields: Mapping[str, object]) -> str:
    """Format names and values: "`hidden_size` 4096"; a list only by its length."""
    return ", ".join(f"`{name}`{_value(value)}" for name, value in fields.items())


def _value(value: object) -> str:
    if not isinstance(value, list | tuple):
        return f" {json.dumps(value)}"
    return f" (a list of {len(value):,})" if value else ": empty"


def short_name(model: ModelConfig) -> str:
    """Return the model's name without the part in brackets: "GPT-2 small"."""
    return model.name.partition(" (")[0]


def crowd_text(n_tokens: int, batch_size: int) -> str:
    """Format a batch: "128 K tokens", "3 sequences of 128 K tokens"."""
    return context_text(n_tokens) if batch_size == 1 else f"{batch_size:,} sequences of {context_text(n_tokens)}"


def written(n: int | None) -> str:
    """Format a number for a table; "–" if it is missing."""
    return "–" if n is None else f"{n:,}"


def is_beyond(model: ModelConfig, n_tokens: int) -> bool:
    """Check whether this is more than the context that the model was published with."""
    return model.max_context is not None and n_tokens > model.max_context


def beyond_context(model: ModelConfig, *n_tokens: int) -> str:
    """Return a warning if the model is shown beyond its context, else ""."""
    beyond = [context_text(n) for n in sorted(set(n_tokens)) if is_beyond(model, n)]
    if not beyond:
        return ""
    verb = "is" if len(beyond) == 1 else "are"
    return (
        f"**{short_name(model)} was made for {context_text(model.max_context)}; {listed(beyond)} {verb} beyond that.** "
    )


def beyond_note(models: Sequence[ModelConfig], n_tokens: int) -> str:
    """Name at most three models that are shown beyond their context; count more."""
    n = sum(is_beyond(m, n_tokens) for m in models)
    if n <= 3:
        return beyond_text(models, n_tokens)
    return f"{context_text(n_tokens)} is beyond the context of {n} of these {len(models)} models."


def beyond_text(models: Sequence[ModelConfig], n_tokens: int) -> str:
    """Name the models that are shown beyond their context; "" if there are none."""
    over = [f"{short_name(m)} ({tokens_text(m.max_context)})" for m in models if is_beyond(m, n_tokens)]
    return f"{context_text(n_tokens)} is beyond the context of {listed(over)}." if over else ""


def cached_tokens_text(model: ModelConfig) -> str:
    """Describe the tokens that a windowed layer caches: "16 tokens of the window and 4 attention-sink tokens"."""
    sinks = f" and {count(model.n_sinks, 'attention-sink token')}" if model.n_sinks else ""
    return f"{model.sliding_window:,} token{'s' * (model.sliding_window != 1)} of the window{sinks}"


def precision_name(precision: str) -> str:
    """Name a precision in a list of them: "int4, scale per 32"; "bf16"."""
    bits, block = PRECISIONS[precision]
    return f"int{bits}, scale per {block}" if block else precision


def precision_note(precision: str) -> str:
    """Describe the assumed storage of a cache in a quantised precision; "" if it is not quantised."""
    bits, block = PRECISIONS[precision]
    if block:
        return (
            f"Assumed for {precision}: {bits} bits per number and one {SCALE_BITS}-bit scale per {block} numbers of a "
            f"vector{LIKE.get(precision, '')}. Other formats add a zero point."
        )
    if precision == "fp8":
        return (
            "Assumed for fp8: one scale per tensor, which is not counted; other formats store one per head or per "
            "token."
        )
    return ""


def weights_note(precision: str) -> str:
    """Describe how weights in this precision are counted."""
    everything = "Weights: all parameters, including idle experts"
    bits, block = PRECISIONS[precision]
    if block:
        each = f"{bits} and a {SCALE_BITS}-bit scale per {block} weights"
        return f"{everything}, assumed at {bits_with_scales(precision):g} bits ({each}), embeddings and norms included."
    if precision == "fp8":
        return f"{everything}, assumed at 8 bits without scales, embeddings and norms included."
    return f"{everything}, in {precision}."


def latent_widths(model: ModelConfig) -> str:
    """Return the widths that MLA caches per token: "kv_lora_rank 96 and qk_rope_head_dim 12"."""
    return f"kv_lora_rank {model.kv_lora_rank} and qk_rope_head_dim {model.qk_rope_head_dim}"


def latent_note(model: ModelConfig) -> str:
    """Describe the MLA widths that this page compares: the model's own, or those of the what-if."""
    widths = latent_widths(with_latent(model))
    if not model.mixer.shares_kv_heads:
        return f"{widths}, the model's own"
    return f"{widths}, in DeepSeek-V2's proportions (a latent of 4 head widths, a RoPE key of half a width)"


def heads_note(model: ModelConfig, n_tokens: int | None = None) -> str:
    """State the head_dim with which an MLA model is compared as MHA, GQA and MQA; "" for a model without latents.

    With n_tokens, also what its own heads would cache of so many tokens.
    """
    if model.mixer.shares_kv_heads:
        return ""
    D, V = model.head_dim, model.mixer.value_dim
    said = f"MHA, GQA and MQA have head_dim {V}, that of its values, as in the DeepSeek-V2 paper"
    if n_tokens is None:
        return f"{said}."
    own = bytes_text(expanded_cache_bytes(model, n_tokens) or 0, digits=4)
    return f"{said}; its own heads (keys of {D}): {own}."


def what_if_note(model: ModelConfig) -> str:
    """State that the MLA in a figure is not a trained model; "" if the model itself has MLA."""
    return "" if not model.mixer.shares_kv_heads else "MLA is a what-if, not a trained checkpoint."
