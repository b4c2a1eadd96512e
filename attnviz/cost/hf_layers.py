"""What the readers of config.json share that describe each layer: sizes, kinds of layers, mixers, feed-forwards."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from attnviz.checks import ConfigError, shown
from attnviz.config import ModelConfig, MoEConfig
from attnviz.cost.hf_fields import Fields, whole_field
from attnviz.cost.hf_layer_kinds import SLIDING, kinds
from attnviz.cost.hf_readers import kv_heads
from attnviz.mechanisms import Dense, Experts, Grouped, Latent, Layer, Mechanism, Mixer

Parts = tuple[Mechanism, ...]


def sizes(f: Fields, n_layers: int | None = None) -> dict[str, Any]:
    """Read the sizes that most decoders have; n_layers: if it is read already."""
    n_heads, d_model = f.size("num_attention_heads"), f.size("hidden_size")
    head_dim = f.size_or(max(d_model // n_heads, 1), "head_dim")
    return {
        "n_layers": n_layers or f.size("num_hidden_layers"),
        "d_model": d_model,
        "n_heads": n_heads,
        "n_kv_heads": kv_heads(f, n_heads, "num_key_value_heads"),
        "head_dim": head_dim,
        **outside(f),
    }


def outside(f: Fields, context_name: str = "max_position_embeddings") -> dict[str, Any]:
    """Read what lies outside the layers: the vocabulary, the context, and whether the embeddings are tied."""
    context = f.optional(context_name)
    if context is not None:
        whole_field(context_name, context)
    return {
        "vocab_size": f.size("vocab_size"), "max_context": context, "tie_embeddings": f.flag("tie_word_embeddings"),
    }  # fmt: skip


def sparse_layers(f: Fields, n_layers: int, otherwise: Callable[[int], bool]) -> list[bool]:
    """Read which layers have experts: from `mlp_layer_types`, else by the architecture's rule."""
    found = kinds(f, n_layers, lambda i: "sparse" if otherwise(i) else "dense", ("dense", "sparse"), "mlp_layer_types")
    return [kind == "sparse" for kind in found]


def after(f: Fields, name: str, default: int | None = None) -> Callable[[int], bool]:
    """Return the rule by which all layers but the first ones have experts; their number is this field's."""
    n = f.optional(name)
    n = default if n is None else n
    if isinstance(n, bool) or not isinstance(n, int) or n < 0:
        raise ConfigError(f"{name} must be a whole number of layers, not {shown(n)}")
    return lambda i: i >= n


def attention(f: Fields, s: dict[str, Any], window: int | None = None, **more: Any) -> Grouped:
    """Return grouped-query attention of these sizes."""
    given = {"n_kv_heads": s["n_kv_heads"], "head_dim": s["head_dim"]} | more
    return Grouped(given.pop("n_heads", s["n_heads"]), window, **given)


def window_of(f: Fields, name: str = "sliding_window") -> int:
    """Read the window of a model that has layers with one."""
    return f.size(name)


def windowed(
    f: Fields, s: dict[str, Any], types: Sequence[str], name: str = "sliding_window", **more: Any
) -> list[Parts]:
    """Return the attention of each layer, with or without the window."""
    found: dict[str, Parts] = {}
    for kind in dict.fromkeys(types):
        found[kind] = (attention(f, s, window_of(f, name) if kind == SLIDING else None, **more),)
    return [found[kind] for kind in types]


def dense(f: Fields, name: str = "intermediate_size", *, gated: bool = True, bias: bool = False) -> Parts:
    return (Dense(f.size(name), gated, bias),)


def experts(
    f: Fields, n: str, d_ff: str = "moe_intermediate_size", k: str = "num_experts_per_tok", **more: Any
) -> Parts:
    """Return a mixture of experts of this width, each token routed to k of n."""
    n_experts, per_token = f.size(n), f.size(k)
    if per_token > n_experts:
        raise ConfigError(f"{k} must be at most {n} = {n_experts:,}, not {per_token:,}")
    return (Experts(n_experts, per_token, f.size(d_ff), **more),)


def shared_width(f: Fields, name: str, d_ff: str = "moe_intermediate_size") -> int | None:
    """Return the width of `name` shared experts together; None if there are none."""
    n = f.optional(name)
    if n is None or n == 0:
        return None
    whole_field(name, n)
    return n * f.size(d_ff)


def optional_size(f: Fields, name: str) -> int | None:
    """Read a whole number; None if it is null, 0 or absent."""
    n = f.optional(name)
    if n is None or n == 0:
        return None
    whole_field(name, n)
    return n


def chosen(sparse: Sequence[bool], mixture: Callable[[], Parts], others: Callable[[], Parts]) -> list[Parts]:
    """Return each layer's feed-forward; fields of a kind that no layer has are not read."""
    one = {True: mixture() if True in sparse else (), False: others() if False in sparse else ()}
    return [one[each] for each in sparse]


def stacked(
    s: dict[str, Any], mixers: Sequence[Parts], feeds: Sequence[Parts] | Parts, n_norms: int = 2, **more: Any
) -> dict[str, Any]:
    """Return the arguments of `ModelConfig` for layers of a mixer and a feed-forward each."""
    parallel, layers = more.pop("parallel", False), dict[tuple[Parts, Parts], Layer]()
    if feeds and isinstance(feeds[0], Mechanism):
        feeds = [feeds] * len(mixers)  # type: ignore[list-item]
    found = []
    for pair in zip(mixers, feeds, strict=True):
        if pair not in layers:
            layers[pair] = Layer((*pair[0], *pair[1]), n_norms, parallel)  # type: ignore[index, misc]
        found.append(layers[pair])  # type: ignore[index]
    return plain({**s, "mixed_layers": tuple(found), **more})


def plain(given: dict[str, Any]) -> dict[str, Any]:
    """Return the same model without `mixed_layers` where `ModelConfig`'s other fields describe its layers.

    A model so described can be compared with other types of attention.
    """
    if given.get("other_parts") or given.get("norm_weights") is False:
        return given
    fields = _fields_of(given["mixed_layers"])
    if fields is None:
        return given
    simple = {name: value for name, value in given.items() if name != "mixed_layers"} | fields
    try:
        found = ModelConfig(**simple)
    except ConfigError:
        return given
    same = [_costed(layer) for layer in found.layers] == [_costed(layer) for layer in given["mixed_layers"]]
    return simple if same else given


def _costed(layer: Layer) -> Layer:
    """Return a layer without what costs nothing: its rotation, a scale."""
    parts = tuple(part.costed if isinstance(part, Mixer) else part for part in layer.parts)
    return replace(layer, parts=parts, rope_theta=None, rope_scaled=True)


def _fields_of(layers: Sequence[Layer]) -> dict[str, Any] | None:
    """Return the fields of `ModelConfig` that would build layers like these, None if none could."""
    first, mixers = layers[0], [layer.parts[0] for layer in layers]
    if not all(
        len(layer.parts) == 2 and type(mixer) is type(mixers[0]) for layer, mixer in zip(layers, mixers, strict=True)
    ):
        return None
    windows = {mixer.window for mixer in mixers if isinstance(mixer, Grouped | Latent)} - {None}
    if (not windows and not isinstance(mixers[0], Grouped | Latent)) or len(windows) > 1:
        return None
    full = tuple(i for i, mixer in enumerate(mixers) if mixer.window is None)  # type: ignore[attr-defined]
    found = {"sliding_window": next(iter(windows), None), "full_layers": full if windows else (),
             "norms_per_layer": first.n_norms, "parallel_block": first.parallel}  # fmt: skip
    attended, feeds = _attention_fields(mixers[0]), _feed_fields([layer.parts[1] for layer in layers])
    return None if attended is None or feeds is None else found | attended | feeds


def _attention_fields(mixer: Mechanism) -> dict[str, Any] | None:
    if type(mixer) is Latent:
        names = ("q_lora_rank", "kv_lora_rank", "qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim")
        return {
            "attention": "mla", "n_heads": mixer.n_heads, "n_kv_heads": None, "head_dim": None,
            "attention_sinks": mixer.sink_logits, **{name: getattr(mixer, name) for name in names},
        }  # fmt: skip
    if type(mixer) is Grouped:
        heads = ("n_heads", "n_kv_heads", "head_dim", "qkv_bias", "o_bias", "qk_norm")
        return {"attention_sinks": mixer.sink_logits} | {name: getattr(mixer, name) for name in heads}
    return None


def _feed_fields(feeds: Sequence[Mechanism]) -> dict[str, Any] | None:
    one, n_dense = feeds[-1], sum(isinstance(feed, Dense) for feed in feeds)
    narrow = feeds[0] if isinstance(feeds[0], Dense) else None
    if isinstance(one, Dense):
        return {"d_ff": one.d_ff, "ffn": "swiglu" if one.gated else "gelu", "ffn_bias": one.bias}
    if not isinstance(one, Experts):
        return None
    moe = MoEConfig(
        one.n_routed, one.per_token, one.d_ff, one.n_shared, n_dense, narrow.d_ff if narrow else None, one.router_bias,
        one.expert_bias, False, one.shared_d_ff, one.shared_gate,
    )  # fmt: skip
    bias = {"ffn_bias": narrow.bias} if narrow else {}
    return {"moe": moe, "ffn": "swiglu" if one.gated else "gelu", **bias}


def by_kind(types: Sequence[str], build: Mapping[str, Callable[[], Parts]]) -> list[Parts]:
    """Return each layer's mixers, each kind built once; fields of a kind that no layer has are not read."""
    found = {kind: build[kind]() for kind in dict.fromkeys(types)}
    return [found[kind] for kind in types]
