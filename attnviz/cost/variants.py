"""A model with other attentions: every number of KV heads that divides its query heads, and MLA."""

from __future__ import annotations

from collections import Counter

from attnviz.config import ModelConfig, divisors
from attnviz.cost.sums import mixers
from attnviz.mechanisms import MIXERS
from attnviz.phrases import listed

STATE = "state"
KINDS = {kind: kind.upper() for kind in MIXERS} | {STATE: "Linear or recurrent"}  # of a model: name in links -> shown


def kind_of(model: ModelConfig) -> str:
    """Return the type of attention of a model, of most of its layers where they differ; STATE if one keeps a state."""
    found: Counter[str] = Counter()
    for n, mixer in mixers(model):
        if mixer.state():
            return STATE
        found[mixer.kind] += n
    return found.most_common(1)[0][0]


def attention_name(model: ModelConfig) -> str:
    """Return "MHA", "GQA-8", "MQA" or "MLA", or several of these; the name of GQA includes the number of KV heads."""
    return listed(dict.fromkeys(mixer.name for _, mixer in mixers(model)))


def summary(model: ModelConfig) -> str:
    """State what the heads of a layer read, or how many layers have which attention."""
    if not model.mixed_layers:
        return model.mixer.summary()
    mixers = {mixer.name: mixer for layer in model.layers for mixer in layer.mixers}
    names = Counter(mixer.name for layer in model.layers for mixer in layer.mixers)
    text = listed(mixers[name].in_layers(n) for name, n in names.items())
    if n_readers := sum(layer.shares_cache_of is not None for layer in model.layers):
        text += f", {n_readers} of the {model.n_layers} on another layer's cache"
    return text[0].upper() + text[1:]


def with_heads(model: ModelConfig, n_kv_heads: int) -> ModelConfig:
    """Return `model` with MHA, GQA or MQA over `n_kv_heads` KV heads; from MLA, heads are as wide as its values."""
    if model.mixer.shares_kv_heads:
        return model.with_attention(n_kv_heads=n_kv_heads)
    return model.with_attention(n_kv_heads=n_kv_heads, head_dim=model.mixer.value_dim)


def with_latent(model: ModelConfig) -> ModelConfig:
    """Return `model` with MLA in DeepSeek-V2's proportions: a latent of 4 head widths, a RoPE key of half of one.

    The queries stay uncompressed; biases, sinks and norms on q and k are left out (arXiv 2405.04434).
    """
    if not model.mixer.shares_kv_heads:
        return model
    rope_dim = max(2, model.head_dim // 4 * 2)
    return model.with_attention(
        attention="mla", n_kv_heads=model.n_heads, head_dim=model.head_dim + rope_dim, qkv_bias=False, o_bias=False,
        qk_norm=None, attention_sinks=False, kv_lora_rank=4 * model.head_dim,
        qk_nope_head_dim=model.head_dim, qk_rope_head_dim=rope_dim, v_head_dim=model.head_dim,
    )  # fmt: skip


def comparison(model: ModelConfig) -> list[ModelConfig]:
    """Return `model` as MHA, as GQA with every divisor of the query heads, as MQA, as MLA, and as it is if other."""
    usual = [with_heads(model, n) for n in divisors(model.n_heads)] + [with_latent(model)]
    return usual if model in usual else [*usual, model]


def what_if(model: ModelConfig) -> list[ModelConfig]:
    """Return `model` as MHA, as GQA with 8 KV heads (or the next lower possible number), as MQA and as MLA."""
    shared = next((n for n in divisors(model.n_heads) if n <= 8 and n < model.n_heads), 1)
    counts = dict.fromkeys((model.n_heads, shared, 1))
    return [with_heads(model, n) for n in counts] + [with_latent(model)]
