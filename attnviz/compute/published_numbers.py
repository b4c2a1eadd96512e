"""Placeholders for what a published model and accelerators need, by formula; a part of `PLACEHOLDERS`.

They depend on the settings of the Cost page alone, so they are computed without a model that runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from attnviz.config import ConfigError, ModelConfig
from attnviz.cost import (
    PRECISIONS,
    Answer,
    count_parameters,
    expanded_cache_bytes,
    kv_cache_bytes,
    load_described,
    weight_bytes,
    with_its_scales,
)
from attnviz.cost.cached import cached_in_layer, state_bytes
from attnviz.cost.decode import attention_flops
from attnviz.cost.placed import without_windows
from attnviz.cost.sums import mixers
from attnviz.cost.two_forms import TwoForms, absorbed_mixer
from attnviz.cost.units import bytes_text, context_text
from attnviz.cost.variants import with_heads
from attnviz.figures.cost.reading import DIGITS, read_text
from attnviz.phrases import count

if TYPE_CHECKING:
    from attnviz.compute.view import View
    from attnviz.cost import DecodeStep
    from attnviz.mechanisms import Mixer

MISSING = "–"
MOST_SEQUENCES = 100_000  # tried until a step is no longer limited by memory bandwidth
BF16 = 2  # bytes
LINK = 50e9  # bytes per second: a network of 400 Gb/s, or what 16 lanes of PCIe 5 give in practice
NUMBERS = ((1e12, "trillion"), (1e9, "billion"), (1e6, "million"), (1e3, "thousand"))


class Placeholder(NamedTuple):
    """What a placeholder stands for, and its value for a view. of_text: it needs a model that runs on a text."""

    meaning: str
    value: Callable[[View], str]
    of_text: bool = True


def _answer(view: View) -> Answer:
    from attnviz.compute import cost

    return cost.answer(view)


def _model(view: View) -> ModelConfig:
    return _answer(view).serving.model


def _step(view: View) -> DecodeStep:
    """Return a decode step of the chosen sequences, at the chosen context."""
    return _answer(view).serving.step(view.settings.batch)


def _cache(model: ModelConfig, view: View) -> int:
    """Return the bytes of a model's cache at the chosen context, sequences and precision."""
    s = view.settings
    bits, block = PRECISIONS[s.precision]
    return kv_cache_bytes(model, s.context, s.batch, bits, block_size=block)


def _with(view: View, n_kv_heads: int | None) -> ModelConfig | None:
    """Return the model with this number of KV heads, None for as many as query heads.

    None if its layers differ, or if this number does not divide its query heads.
    """
    model = _model(view)
    n = n_kv_heads or model.n_heads
    return None if model.mixed_layers or model.n_heads % n else with_heads(model, n)


def _per_token(model: ModelConfig) -> int:
    """Return the bf16 bytes that one token adds to a cache; a state, which does not grow, is not one of them."""
    return kv_cache_bytes(model, 1) - state_bytes(model)


def _cached_by(view: View, n_kv_heads: int | None) -> str:
    other = _with(view, n_kv_heads)
    return bytes_text(_per_token(other)) if other else MISSING


def _numbers(view: View, n_kv_heads: int | None = 0) -> str:
    """Return the numbers that a layer caches per token; 0: of the model as it is."""
    model = _model(view) if n_kv_heads == 0 else _with(view, n_kv_heads)
    try:
        cached = model is not None and model.mixer.cached() and int(cached_in_layer(model.mixer).value)
    except ConfigError:  # its layers differ
        return MISSING
    return f"{cached:,}" if cached else MISSING


def _expanded(view: View) -> str:
    size = expanded_cache_bytes(_model(view), 1)
    return MISSING if size is None else bytes_text(size)


def _first_expanded(view: View) -> str:
    mixer = absorbed_mixer(_model(view))
    found = TwoForms(mixer, view.settings.context).first_expanded if mixer else None
    return MISSING if found is None else f"{found:,}"


def _times_expanded(view: View) -> str:
    """Return by what factor the expanded form takes more FLOPs for one new token than the absorbed one."""
    mixer = absorbed_mixer(_model(view))
    if mixer is None:
        return MISSING
    flops = TwoForms(mixer, view.settings.context).flops(1)
    return f"{flops['expanded'] / flops['absorbed']:.0f}"


def _of_mixer(view: View, size: Callable[[Mixer], int | None]) -> str:
    """Return a size of the mixer of all layers; a dash where it has none, or the layers differ."""
    try:
        found = size(_model(view).mixer)
    except ConfigError:  # its layers differ
        return MISSING
    return f"{found:,}" if found else MISSING


def _query_latent(view: View) -> str:
    rank = count_parameters(_model(view)).attention.get("q down", 0) // _model(view).d_model
    return f"{rank:,}" if rank else MISSING


def _full_queries(view: View) -> str:
    model = _model(view)
    width = 0 if model.mixed_layers else model.mixer.axes().get("H·D", 0)
    return _in_words(model.n_layers * model.d_model * width) if width else MISSING


def _equal_kv_heads(view: View) -> str:
    one_head = _with(view, 1)
    return f"{_per_token(_model(view)) / _per_token(one_head):.3g}" if one_head else MISSING


def _layers(view: View, chosen: Callable[[Mixer], bool]) -> str:
    found = [(n, mixer) for n, mixer in mixers(_model(view)) if mixer.cached() or mixer.state() or mixer.reads_cache]
    return str(sum(n for n, mixer in found if chosen(mixer)))


def _state_tokens(view: View) -> str:
    model = _model(view)
    n_states = sum(n for n, mixer in mixers(model) if mixer.state())
    n_caches = sum(n for n, mixer in mixers(model) if mixer.cached())
    if not (n_states and n_caches):
        return MISSING
    return f"{round(state_bytes(model) / n_states / (_per_token(model) / n_caches)):,}"


def _readers(view: View) -> str:
    return str(sum(layer.shares_cache_of is not None for layer in _model(view).layers))


def _top_k(view: View) -> str:
    kept = [mixer.top_k for _, mixer in mixers(_model(view)) if mixer.top_k]
    return f"{kept[0]:,}" if kept else MISSING


def _window(view: View) -> str:
    windows = _model(view).windows
    return f"{min(windows):,}" if windows else MISSING


def _wavelengths(view: View) -> list[float]:
    """Return RoPE's wavelengths in tokens, shortest first, without scaling; [] where layers differ or have none, and
    for a config.json, of which the base is not read."""
    model = _model(view)
    if model.id not in load_described():
        return []
    try:
        n, theta = model.rotary_dim, model.rope_theta
    except ConfigError:
        return []
    return [2 * math.pi * theta ** (2 * i / n) for i in range(n // 2)] if theta and n else []


def _longest(view: View) -> str:
    wavelengths = _wavelengths(view)
    if not wavelengths:
        return MISSING
    return _in_words(wavelengths[-1]) if wavelengths[-1] >= 1e6 else f"{round(wavelengths[-1], -2):,.0f}"


def _slow_pairs(view: View) -> str:
    wavelengths, most = _wavelengths(view), _model(view).max_context
    return str(sum(each > most for each in wavelengths)) if wavelengths and most else MISSING


def _turning_batch(view: View) -> str:
    """Return the fewest sequences whose step is limited by arithmetic; a dash if caches keep it from turning."""
    serving = _answer(view).serving

    def turned(n: int) -> bool:
        return serving.step(n).bound_by(serving.machine) == "compute"

    if not serving.work_known or not turned(MOST_SEQUENCES):
        return MISSING
    low, high = 0, MOST_SEQUENCES
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if turned(middle) else (middle, high)
    return f"{high:,}"


def _shares(view: View) -> tuple[int, int]:
    """Return the bytes per token on one of the accelerators, and on all of them together."""
    serving = _answer(view).serving
    one = _per_token(serving.held)
    return one, one * serving.count


def _attention_share(view: View) -> str:
    prompt = _answer(view).serving.prefill()
    return f"{100 * prompt.attention_flops / prompt.flops:.2g}%"


def _vectors_bytes(view: View) -> int:
    """Return the bf16 bytes of one layer's q, k, v and output for the chosen context."""
    model = _model(view)
    return view.settings.context * (2 * model.n_heads + 2 * model.n_kv_heads) * model.head_dim * BF16


def _own_parts(model: ModelConfig | None, parts: tuple[str, ...]) -> str:
    """Return the parameters of some matrices of its attention in all layers."""
    if model is None:
        return MISSING
    of_layer = count_parameters(model).attention
    return _in_words(model.n_layers * sum(of_layer.get(part, 0) for part in parts))


def _times(x: float) -> str:
    """Write a factor with two digits: "8", "57", "1.8"."""
    return f"{x:.0f}" if x >= 10 or float(x).is_integer() else f"{x:.1f}"


def _times_smaller(view: View) -> str:
    other = _with(view, None)
    return _times(_per_token(other) / _per_token(_model(view))) if other else MISSING


def _even(view: View) -> str:
    """Return from how many tokens on the cache is as large as the weights."""
    model = _model(view)
    cached = _per_token(model)
    return _in_words(math.ceil(weight_bytes(model) / cached)) if cached else MISSING


def _in_words(n: float) -> str:
    """Write a count as one says it, with three digits: "8.03 billion"."""
    size, word = next(((s, w) for s, w in NUMBERS if n >= s), (1.0, ""))
    return f"{n / size:,.3g} {word}".strip()


def _milliseconds(seconds: float) -> str:
    return f"{1e3 * seconds:,.3g} ms"


PUBLISHED = {name: Placeholder(meaning, value, of_text=False) for name, meaning, value in (
    ("context", 'The context chosen on the cost page: "32 K tokens"',
     lambda view: context_text(view.settings.context)),
    ("batch", 'The sequences at once chosen on the cost page: "1 sequence"',
     lambda view: count(view.settings.batch, "sequence")),
    ("precision", "The precision of the cache chosen on the cost page, with its scales",
     lambda view: with_its_scales(view.settings.precision)),
    ("published", "The model chosen on the cost page", lambda view: _model(view).name),
    ("published_layers", "Its layers", lambda view: str(_model(view).n_layers)),
    ("published_heads", "Its query heads", lambda view: str(_model(view).n_heads)),
    ("published_kv_heads", "Its KV heads, counted", lambda view: count(_model(view).n_kv_heads, "KV head")),
    ("published_group_size", "Query heads that read one of them",
     lambda view: str(_model(view).n_heads // _model(view).n_kv_heads)),
    ("published_head_dim", "Its head_dim", lambda view: str(_model(view).head_dim)),
    ("published_sqrt_head_dim", "The square root of it", lambda view: f"{_model(view).head_dim ** 0.5:.1f}"),
    ("published_d_model", "Its d_model", lambda view: f"{_model(view).d_model:,}"),
    ("published_d_ff", "The width of its feed-forward", lambda view: f"{_model(view).d_ff:,}"),
    ("published_max_context", 'The context that it is made for: "8 K tokens"',
     lambda view: context_text(_model(view).max_context or 0)),
    ("published_parameters", 'Its parameters: "8.03 billion"',
     lambda view: _in_words(count_parameters(_model(view)).total)),
    ("published_active", "Those of them that are used for one token",
     lambda view: _in_words(count_parameters(_model(view)).used_per_token)),
    ("published_kv_parameters", "Those of its key and value projections",
     lambda view: _own_parts(_model(view), ("k", "v"))),
    ("published_kv_parameters_mha", "Those of its key and value projections if it were MHA",
     lambda view: _own_parts(_with(view, None), ("k", "v"))),
    ("published_cache", "Bytes that it caches per token, bf16", lambda view: f"{_per_token(_model(view)):,} B"),
    ("published_cache_short", 'The same with a binary unit: "128 KiB"',
     lambda view: bytes_text(_per_token(_model(view)))),
    ("published_cache_mha", "What it would cache per token as MHA, bf16", lambda view: _cached_by(view, None)),
    ("published_cache_gqa_8", "What it would cache per token as GQA with 8 KV heads, bf16",
     lambda view: _cached_by(view, 8)),
    ("published_cache_mqa", "What it would cache per token as MQA, bf16", lambda view: _cached_by(view, 1)),
    ("published_cache_expanded", "What it would cache per token if its latents were kept as keys and values, bf16",
     _expanded),
    ("published_times_smaller", "By what factor its cache is smaller than as MHA", _times_smaller),
    ("published_numbers", "Numbers that one layer caches per token", _numbers),
    ("published_numbers_mqa", "Numbers that one layer would cache per token as MQA", lambda view: _numbers(view, 1)),
    ("published_cache_at_context", "Its cache at the chosen context, sequences and precision",
     lambda view: bytes_text(_cache(_model(view), view))),
    ("published_cache_unwindowed", "The same if its windowed layers cached all tokens",
     lambda view: bytes_text(_cache(without_windows(_model(view)), view))),
    ("published_state", "Bytes of its states and convolutions per sequence, at any context",
     lambda view: bytes_text(state_bytes(_model(view)))),
    ("published_weights", 'Its weights in bf16: "15.0 GiB"', lambda view: bytes_text(weight_bytes(_model(view)))),
    ("published_weights_gb", 'Its weights in bf16, decimal: "16.1 GB"',
     lambda view: bytes_text(weight_bytes(_model(view)), binary=False)),
    ("published_even", "Tokens, of all sequences together, whose cache is as large as its weights, both bf16", _even),
    ("published_window", "Tokens of its sliding window", _window),
    ("published_windowed_layers", "Its layers with a sliding window",
     lambda view: _layers(view, lambda mixer: mixer.window is not None)),
    ("published_full_layers", "Its layers that attend to, and cache, all tokens",
     lambda view: _layers(view, lambda mixer: mixer.window is None and not mixer.state())),
    ("published_state_tokens", "Tokens of the cache of one of its full layers that take as much as one layer's state",
     _state_tokens),
    ("published_state_layers", "Its layers that keep a state instead of a cache",
     lambda view: _layers(view, lambda mixer: bool(mixer.state()))),
    ("published_reading_layers", "Its layers that read the cache of an earlier layer", _readers),
    ("published_top_k", "Keys per query that its indexer keeps", _top_k),
    ("published_theta", "Its base of RoPE",
     lambda view: f"{_model(view).rope_theta:,.0f}" if _wavelengths(view) else MISSING),
    ("published_pairs", "Pairs of dimensions that RoPE rotates in each of its heads",
     lambda view: str(len(_wavelengths(view)) or MISSING)),
    ("published_longest_wavelength", "The wavelength of its slowest pair, in tokens, without scaling", _longest),
    ("published_slow_pairs", "Its pairs that do not complete a rotation within the context that it is made for",
     _slow_pairs),
    ("published_latent", "Numbers of its latent", lambda view: _of_mixer(view, lambda mixer: mixer.axes().get("R"))),
    ("published_query_latent", "Numbers of the latent that its queries go through, if they do", _query_latent),
    ("published_query_parameters", "Parameters of its query projections",
     lambda view: _own_parts(_model(view), ("q", "q down", "q up"))),
    ("published_query_parameters_full", "What they would be if its queries did not go through a latent",
     _full_queries),
    ("published_rope_key", "Dimensions of its shared RoPE key",
     lambda view: _of_mixer(view, lambda mixer: mixer.axes().get("P"))),
    ("published_value_dim", "The width of its values, which comparisons of MLA with MHA, GQA and MQA give their heads",
     lambda view: _of_mixer(view, lambda mixer: mixer.value_dim)),
    ("published_equal_kv_heads", "KV heads, as wide as its values, that would cache as much as its latent and RoPE key",
     _equal_kv_heads),
    ("published_scores", "Bytes of one layer's scores for the chosen context, all query heads, bf16",
     lambda view: bytes_text(_model(view).n_heads * view.settings.context**2 * BF16)),
    ("published_vectors", "Bytes of one layer's queries, keys, values and outputs for the chosen context, bf16",
     lambda view: bytes_text(_vectors_bytes(view))),
    ("published_pairs_scored", "Query–key pairs of one head when a text of the chosen context is generated",
     lambda view: _in_words(view.settings.context * (view.settings.context + 1) // 2)),
    ("published_attention_flops", "FLOPs of scores and weighted sums for one new token at the chosen context",
     lambda view: f"{_in_words(attention_flops(_model(view), view.settings.context))} FLOPs"),
    ("published_attention_share", "Their share of the FLOPs of a prompt of the chosen context", _attention_share),
    ("published_first_expanded", "New tokens from which expanding MLA's latents takes fewer FLOPs than absorbing",
     _first_expanded),
    ("published_times_expanded", "By what factor expanding takes more FLOPs than absorbing, for one new token",
     _times_expanded),
    ("weights_on_one", "Its weights on one of the chosen accelerators, in the chosen precision",
     lambda view: bytes_text(_answer(view).plan.weights)),
    ("cache_on_one", "Bytes that one of the chosen accelerators caches per token, bf16",
     lambda view: bytes_text(_shares(view)[0])),
    ("cache_on_all", "Bytes that they cache per token together, copies included, bf16",
     lambda view: bytes_text(_shares(view)[1])),
    ("fitting_sequences", "Sequences of the chosen context that fit beside its weights on the chosen accelerators",
     lambda view: f"{_answer(view).most:,}"),
    ("reserve", "The share of their memory that is left free", lambda view: f"{view.settings.reserve}%"),
    ("accelerator", "The chosen accelerators", lambda view: _answer(view).serving.accelerator.name),
    ("accelerators", "Their number", lambda view: str(view.settings.n_machines)),
    ("memory", "Their memory", lambda view: bytes_text(_answer(view).serving.accelerator.memory)),
    ("memory_sold", 'The memory that they are sold with: "80 GB"',
     lambda view: f"{_answer(view).serving.accelerator.data_sheet_gb:g} GB"),
    ("bandwidth", "Their memory bandwidth",
     lambda view: f"{_answer(view).serving.accelerator.bandwidth / 1e12:.3g} TB per second"),
    ("ridge", "FLOPs per byte above which arithmetic is their limit",
     lambda view: f"{_answer(view).serving.machine.ridge:.0f}"),
    ("intensity", "FLOPs per byte of a decode step of the chosen sequences at the chosen context",
     lambda view: f"{_step(view).intensity:.3g}"),
    ("largest_intensity", "What this approaches as sequences are added, since each reads a cache of its own",
     lambda view: f"{_step(view).largest_intensity:.3g}"),
    ("attention_intensity", "FLOPs of scores and weighted sums per byte of cache read",
     lambda view: f"{_answer(view).serving.attention_intensity():.3g}"),
    ("turning_batch", "Sequences from which on a step is limited by arithmetic, at the chosen context",
     _turning_batch),
    ("step_weights", "Bytes of weights that one decode step reads",
     lambda view: bytes_text(_step(view).weight_bytes, digits=DIGITS)),
    ("step_cache", "Bytes of cache that it reads", lambda view: bytes_text(_step(view).cache_bytes, digits=DIGITS)),
    ("step_read", 'Both in words, with the bytes of all weights: "13.98 GiB of the 14.96 GiB of weights (…) and 1 GiB '
     'of cache"', lambda view: read_text(_answer(view).serving, _step(view))),
    ("step_gb", 'Bytes of weights and cache that it reads, decimal: "16.1 GB"',
     lambda view: bytes_text(_step(view).weight_bytes + _step(view).cache_bytes, binary=False)),
    ("step_time", "The least time that it takes, by the roofline",
     lambda view: _milliseconds(_step(view).seconds(_answer(view).serving.machine))),
    ("step_bound", "What limits it: memory or compute",
     lambda view: _step(view).bound_by(_answer(view).serving.machine)),
    ("step_sequence_tokens", "Tokens per second at most, for each of the chosen sequences",
     lambda view: f"{1 / _step(view).seconds(_answer(view).serving.machine):,.0f}"),
    ("prompt_time", "The least time to the first token of a prompt of the chosen context",
     lambda view: _milliseconds(_answer(view).serving.prefill().seconds(_answer(view).serving.machine))),
    ("link", "A link between machines, or to a host's memory, as `link_time` assumes it",
     lambda view: f"{LINK / 1e9:.0f} GB per second"),
    ("link_time", "The time to move the cache of the chosen context and sequences over it",
     lambda view: _milliseconds(_cache(_model(view), view) / LINK)),
    ("decode_bound", "Tokens per second at most, for the chosen sequences together, by the roofline",
     lambda view: f"{_answer(view).tokens_per_second or 0:,.0f}"),
)}  # fmt: skip
