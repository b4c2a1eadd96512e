"""Published models that teach something side by side, each comparison with one sentence whose numbers are computed."""

from __future__ import annotations

from dataclasses import dataclass

from attnviz.config import ModelConfig
from attnviz.cost.cache import expanded_cache_bytes, kv_cache_bytes
from attnviz.cost.parameters import count_parameters
from attnviz.cost.presets import load_presets
from attnviz.cost.units import bytes_text, tokens_text

_PAIRS = (  # name, ids, tokens at which to look, the sentence ({a} and {b} are the first and the second model)
    (
        "MHA and GQA", ("llama-2-7b", "llama-3-8b"), 8192,
        "{b.kv} KV heads where there were {a.kv}: Llama 3 8B is the larger model and leaves {b.bytes} bytes a token, "
        "{share:.0%} of Llama 2 7B's {a.bytes}.",
    ),
    (
        "Larger and cheaper", ("llama-2-13b", "llama-2-70b"), 4096,
        "Llama 2 70B has {growth:.1f} times the parameters of the 13B and {share:.0%} of its cache: {b.bytes} bytes a "
        "token against {a.bytes}, because only the 70B shares its KV heads.",
    ),
    (
        "One year of Command R", ("command-r-v01", "command-r-08-2024"), 131_072,
        "Same depth, same width, {b.kv} KV heads for {a.kv}: {a.bytes} bytes a token became {b.bytes}, "
        "{share:.1%} of it at any context.",
    ),
    (
        "One KV head", ("falcon-7b", "palm-540b"), 2048,
        "MQA at both ends: PaLM 540B has {growth:.0f} times the parameters of Falcon 7B and {ratio:.0f} times its "
        "cache, {b.bytes} bytes a token against {a.bytes}.",
    ),
    (
        "GQA and MLA", ("llama-3.1-405b", "deepseek-v3"), 131_072,
        "DeepSeek-V3 leaves {b.bytes} bytes a token, {share:.0%} of Llama 3.1 405B's {a.bytes}; with the keys and "
        "values of its own heads expanded it would be {b.expanded}.",
    ),
    (
        "Half the heads", ("deepseek-v3", "kimi-k2"), 131_072,
        "Kimi K2 has {b.heads} heads and DeepSeek-V3 {a.heads}, and both leave {b.bytes} bytes a token: a latent does "
        "not know how many heads read it.",
    ),
    (
        "Windows", ("gemma-3-27b", "qwen3-32b"), 131_072,
        "Gemma 3 27B leaves {a.bytes} bytes a token, more than Qwen3 32B's {b.bytes}; at {tokens} tokens it keeps "
        "{a.total} where no window would take {a.without}, and Qwen3 {b.total}.",
    ),
    (
        "A small model's appetite", ("phi-3-mini-4k", "llama-3-8b"), 2048,
        "Llama 3 8B has {growth:.1f} times the parameters of Phi-3 mini, which leaves {back:.0f} times as many bytes a "
        "token, {a.bytes} against {b.bytes}: it has {a.kv} KV heads.",
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Pair:
    """Two models to look at together, at a context that shows it, and what there is to see."""

    name: str
    ids: tuple[str, str]
    n_tokens: int
    sentence: str


@dataclass(frozen=True)
class _Figures:
    """What a sentence may say of one model."""

    kv: int
    heads: int
    bytes: str
    total: str
    without: str
    expanded: str


def instructive_pairs() -> list[Pair]:
    """The comparisons, in an order that leads from MHA to windows."""
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
    expanded = f"{expanded_cache_bytes(model, 1):,}" if model.attention == "mla" else ""
    total = bytes_text(kv_cache_bytes(model, n_tokens))
    return _Figures(model.n_kv_heads, model.n_heads, f"{one:,}", total, bytes_text(one * n_tokens), expanded)
