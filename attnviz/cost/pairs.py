"""Pairs of published models to compare, each with one sentence whose numbers are computed."""

from __future__ import annotations

from dataclasses import dataclass

from attnviz.config import ModelConfig
from attnviz.cost.cached import expanded_cache_bytes, kv_cache_bytes
from attnviz.cost.presets import load_presets
from attnviz.cost.units import bytes_text, tokens_text
from attnviz.cost.weights import count_parameters

_PAIRS = (  # name, ids, context in tokens, the sentence ({a} and {b} are the first and the second model)
    (
        "MHA and GQA", ("llama-2-7b", "llama-3-8b"), 8192,
        "{b.kv} KV heads instead of {a.kv}: Llama 3 8B has {growth:.2f} times the parameters of Llama 2 7B and caches "
        "{b.bytes} bytes per token, {share:.0%} of its {a.bytes}.",
    ),
    (
        "Larger and cheaper", ("llama-2-13b", "llama-2-70b"), 4096,
        "Llama 2 70B has {growth:.1f} times the parameters of the 13B and {share:.0%} of its cache: {b.bytes} bytes "
        "per token against {a.bytes}. Only the 70B shares its KV heads.",
    ),
    (
        "Two versions of Command R", ("command-r-v01", "command-r-08-2024"), 131_072,
        "Same depth, same width, {b.kv} KV heads in the version of August 2024 instead of {a.kv}: {b.bytes} bytes per "
        "token, {share:.1%} of the first version's {a.bytes}.",
    ),
    (
        "One KV head", ("falcon-7b", "palm-540b"), 2048,
        "Both are MQA: PaLM 540B has {growth:.0f} times the parameters of Falcon 7B and {ratio:.0f} times its "
        "cache, {b.bytes} bytes per token against {a.bytes}.",
    ),
    (
        "GQA and MLA", ("llama-3.1-405b", "deepseek-v3"), 131_072,
        "DeepSeek-V3 caches {b.bytes} bytes per token, {share:.0%} of Llama 3.1 405B's {a.bytes}; with each head's "
        "keys and values expanded it would cache {b.expanded}.",
    ),
    (
        "Half the heads", ("deepseek-v3", "kimi-k2"), 131_072,
        "Kimi K2 has {b.heads} heads and DeepSeek-V3 {a.heads}; both cache {b.bytes} bytes per token. The size of "
        "MLA's latent does not depend on the number of heads.",
    ),
    (
        "Windows", ("gemma-3-27b", "qwen3-32b"), 131_072,
        "Gemma 3 27B caches {a.bytes} bytes for one token, more than Qwen3 32B's {b.bytes}. At {tokens} tokens its "
        "cache takes {a.total} with windows, {a.without} without; Qwen3's takes {b.total}.",
    ),
    (
        "Small model, large cache", ("phi-3-mini-4k", "llama-3-8b"), 2048,
        "Llama 3 8B has {growth:.1f} times the parameters of Phi-3 mini, which caches {back:.0f} times as many bytes "
        "per token, {a.bytes} against {b.bytes}: it has {a.kv} KV heads, and Llama 3 has {b.kv}.",
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Pair:
    """Two models to compare, the context at which to compare them, and the finding."""

    name: str
    ids: tuple[str, str]
    n_tokens: int
    sentence: str


@dataclass(frozen=True)
class _Figures:
    """The numbers of one model that a sentence may contain."""

    kv: int
    heads: int
    bytes: str
    total: str
    without: str
    expanded: str


def instructive_pairs() -> list[Pair]:
    """Return the comparisons, ordered from MHA to sliding windows."""
    return [Pair(name, ids, n, _sentence(ids, n, text)) for name, ids, n, text in _PAIRS]


def _sentence(ids: tuple[str, str], n_tokens: int, text: str) -> str:
    a, b = (load_presets()[id] for id in ids)
    cost_a, cost_b = kv_cache_bytes(a, 1), kv_cache_bytes(b, 1)
    return text.format(
        a=_figures(a, n_tokens),
        b=_figures(b, n_tokens),
        share=cost_b / cost_a,
        ratio=cost_b / cost_a,
        back=cost_a / cost_b,
        growth=count_parameters(b).total / count_parameters(a).total,
        tokens=tokens_text(n_tokens),
    )


def _figures(model: ModelConfig, n_tokens: int) -> _Figures:
    one = kv_cache_bytes(model, 1)
    expanded = expanded_cache_bytes(model, 1)
    total = bytes_text(kv_cache_bytes(model, n_tokens))
    return _Figures(
        model.n_kv_heads, model.n_heads, f"{one:,}", total, bytes_text(one * n_tokens), f"{expanded or 0:,}"
    )
