"""Configurations of an attention layer and of a model: frozen dataclasses that validate themselves.

Standard library only.

Names follow the field: `n_kv_heads` is a count, `group_size = n_heads / n_kv_heads` is how many query heads
share one key/value head. "Groups" is never used for a count, since the literature uses it for each of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

from attnviz.checks import ConfigError, number, one_of, shown, switch, whole
from attnviz.facts import config_fields
from attnviz.mechanisms import (
    ACTIVATIONS,
    GATED,
    MIXERS,
    OWN_FIELDS,
    QK_NORMS,
    Dense,
    Experts,
    Layer,
    Mechanism,
    Mixer,
    MoEConfig,
    attention_kind,
    changed_fields,
    check_sharing,
    check_theta,
    divisors,
    layers_from,
)

__all__ = ["AttentionConfig", "ConfigError", "MoEConfig", "ModelConfig", "attention_kind", "divisors"]

T = TypeVar("T")
POSITION_KINDS = ("rope", "learned", "alibi", "none")
NORM_KINDS = ("rmsnorm", "layernorm")
ROPE_LAYOUTS = ("half", "interleaved")
# Checkpoints, id -> name: those that pages compare, which differ in their KV heads or latents alone, and all.
FAMILY = {"mha": "MHA", "gqa-4": "GQA-4", "gqa-2": "GQA-2", "mqa": "MQA", "mla": "MLA"}
SHIPPED = {**FAMILY, "hybrid": "Hybrid", "sparse": "Sparse", "sinks": "Learned sinks", "shared": "Shared cache"}
RUN_FIELDS = (
    "position", "max_context", "rope_theta", "rope_theta_windowed", "rope_scaling", "rope_layout", "rotary_fraction",
    "causal", "sliding_window", "full_layers", "n_sinks",
    "id", "name", "family", "year", "dtype",
)  # fmt: skip  # fields that `with_config` may change on loaded weights: how a model is run, and its names
PER_LAYER = ("rope_theta", "rope_theta_windowed", "rotary_fraction", "sliding_window", "full_layers", "n_sinks")


@dataclass(frozen=True)
class AttentionConfig:
    """One attention layer with `n_heads` query heads that read `n_kv_heads` key/value heads.

    `head_dim` is a separate field: in Qwen3, Gemma or PaLM it is not `d_model / n_heads`.
    `n_kv_heads=None` means one for every query head (MHA). Fields typed `int | Any` may be given as None.
    """

    d_model: int
    n_heads: int
    n_kv_heads: int | Any = None
    head_dim: int | Any = None
    qkv_bias: bool = False
    out_bias: bool = False
    dropout: float = 0.0

    def __post_init__(self) -> None:
        whole("d_model", self.d_model)
        whole("n_heads", self.n_heads)
        if self.n_kv_heads is None:
            object.__setattr__(self, "n_kv_heads", self.n_heads)
        whole("n_kv_heads", self.n_kv_heads)
        check_sharing(self.n_heads, self.n_kv_heads)
        if self.head_dim is None:
            if self.d_model % self.n_heads:
                raise ConfigError(
                    f"d_model must be a multiple of n_heads unless head_dim is given, "
                    f"and {self.d_model} is not a multiple of {self.n_heads}"
                )
            object.__setattr__(self, "head_dim", self.d_model // self.n_heads)
        whole("head_dim", self.head_dim)
        if not 0.0 <= self.dropout < 1.0:
            raise ConfigError(f"dropout must be at least 0 and below 1, not {self.dropout!r}")

    @property
    def group_size(self) -> int:
        """Number of query heads per KV head."""
        return self.n_heads // self.n_kv_heads

    @property
    def kind(self) -> str:
        """Attention type, "mha", "gqa" or "mqa", which differ only in the number of KV heads."""
        return attention_kind(self.n_heads, self.n_kv_heads)

    @property
    def kv_head_of(self) -> tuple[int, ...]:
        """The KV head that each query head reads: head h reads `h // group_size` (interleaved, not tiled)."""
        return tuple(h // self.group_size for h in range(self.n_heads))


@dataclass(frozen=True)
class ModelConfig:
    """Configuration of a decoder-only model: everything that determines its parameters, its KV cache and how it runs.

    The live `Transformer` runs most of it and refuses the rest by name; `attnviz.cost` counts all of it.
    `attention` is derived from the numbers of heads, but "mla" must be given. Fields typed `| Any` may be None: the
    default is then filled in, or the field belongs to a type of attention or position that this model does not have.
    """

    n_layers: int
    d_model: int
    n_heads: int
    n_kv_heads: int | Any = None
    head_dim: int | Any = None
    d_ff: int | Any = None
    vocab_size: int = 2048
    attention: str | Any = None
    # the feed-forward
    ffn: str = "swiglu"
    ffn_bias: bool = False
    moe: MoEConfig | None = None
    # embeddings and biases
    tie_embeddings: bool = True
    qkv_bias: bool = False
    o_bias: bool = False
    lm_head_bias: bool = False
    head_rows: int | None = None  # of a head in place of the output layer: a classifier's labels; 0: no head at all
    embedding_scale: float | None = None  # factor on embeddings, sqrt(d_model) in Gemma
    logit_softcap: float | None = None  # c · tanh(logits / c)
    # positions
    position: str = "rope"
    learned_position_rows: int | None = None
    max_context: int | Any = None
    rope_theta: float | Any = 10000.0
    rope_theta_windowed: float | None = None  # theta of the layers with a window, if different; never scaled
    rope_scaling: Any = None  # pairs (name, value), so that a config stays hashable, or a `RopeScaling`
    rope_layout: str = "half"
    rotary_fraction: float | None = 1.0
    # mask
    causal: bool = True
    sliding_window: int | None = None  # keys a query may attend to, its own included
    full_layers: tuple[int, ...] = ()  # layers without the window
    n_sinks: int = 0  # attention-sink tokens: first tokens that stay visible outside the window
    attention_sinks: bool = False  # one learned sink logit per head
    # scores
    attention_scale: float | None = None  # factor on q·k; 1 / sqrt(head_dim) by default
    attention_softcap: float | None = None  # c · tanh(score / c), before the mask
    # norms
    norm: str = "rmsnorm"
    norm_eps: float = 1e-6
    norm_bias: bool = False
    norms_per_layer: int = 2  # 4: also after each part, before it is added to the residual stream (Gemma 2)
    embedding_norm: bool = False
    qk_norm: str | None = None  # "head": size head_dim; "width": over all heads at once
    parallel_block: bool = False
    # latent attention (MLA), arXiv 2405.04434
    q_lora_rank: int | Any = None
    kv_lora_rank: int | Any = None
    qk_rope_head_dim: int | Any = None
    qk_nope_head_dim: int | Any = None
    v_head_dim: int | Any = None
    # layers that differ in more than the window and the experts; the fields above that describe one layer, with its
    # window and base of RoPE, then have no effect. In a model that runs, n_heads is the most of any layer
    mixed_layers: tuple[Layer, ...] = ()
    other_parts: tuple[Mechanism, ...] = ()  # weights beside the layers, such as per-layer embeddings
    norm_weights: bool = True  # false: the norms scale nothing
    # names
    id: str = ""
    name: str = ""
    family: str = ""
    year: int | None = None
    dtype: str | None = None

    def __post_init__(self) -> None:
        self._fill_in_defaults()
        self._check_numbers()
        self._check_kinds()
        self._check_attention()
        self._check_layers()

    @classmethod
    def from_dict(cls, facts: dict) -> ModelConfig:
        """Build from one entry of published facts, in the format of `presets.json` or by the fields' own names.

        Sources, notes and counts in the entry are ignored. ConfigError names an unknown or invalid field.
        """
        given = config_fields(facts, tuple(f.name for f in fields(cls)))
        for name in ("n_layers", "d_model", "n_heads"):
            whole(name, given.get(name))
        if given.get("moe") is not None:
            given["moe"] = MoEConfig.from_dict(given["moe"])
        if given.get("mixed_layers") is not None:
            given["mixed_layers"] = layers_from(given["mixed_layers"])
        return cls(**given)

    def _fill_in_defaults(self) -> None:
        whole("n_layers", self.n_layers)
        kind = MIXERS.get(self.attention) if isinstance(self.attention, str) else None
        if self.head_dim is None and kind:
            object.__setattr__(self, "head_dim", kind.head_dim_of(self))
        layer = AttentionConfig(self.d_model, self.n_heads, self.n_kv_heads, self.head_dim)
        object.__setattr__(self, "n_kv_heads", layer.n_kv_heads)
        object.__setattr__(self, "head_dim", layer.head_dim)
        if self.attention is None:
            object.__setattr__(self, "attention", layer.kind)
        elif kind in (None, MIXERS[layer.kind]) and self.attention != layer.kind:
            raise ConfigError(
                f"attention is {self.attention!r}, but {self.n_heads} query heads over "
                f"{self.n_kv_heads} KV heads are {layer.kind!r}"
            )
        if self.d_ff is None:  # 8/3 of d_model as usual for SwiGLU, rounded up to a multiple of 8
            object.__setattr__(self, "d_ff", -(-self.d_model * 8 // 24) * 8)

    def _check_numbers(self) -> None:
        whole("d_ff", self.d_ff)
        whole("vocab_size", self.vocab_size)
        for name in ("learned_position_rows", "max_context", "sliding_window", "year", *OWN_FIELDS):
            if getattr(self, name) is not None:
                whole(name, getattr(self, name))
        if self.rotary_fraction is not None:
            number("rotary_fraction", self.rotary_fraction, 0, 1)
        for name in ("rope_theta", "rope_theta_windowed"):
            check_theta(name, getattr(self, name))
        for name in ("embedding_scale", "logit_softcap", "attention_scale", "attention_softcap", "norm_eps"):
            if getattr(self, name) is not None:
                number(name, getattr(self, name), 1e-20, 1e9)
        whole("n_sinks", self.n_sinks, low=0)
        if self.head_rows is not None:
            whole("head_rows", self.head_rows, low=0)
            if self.tie_embeddings:
                raise ConfigError("tie_embeddings must be false with head_rows, which replaces the output layer")
        for layer in self.full_layers:
            whole("full_layers", layer, low=0, high=self.n_layers - 1)
        if self.moe is not None and self.moe.n_dense_layers > self.n_layers:
            raise ConfigError(
                f"moe.n_dense_layers must be at most n_layers = {self.n_layers}, not {self.moe.n_dense_layers}"
            )

    def _check_kinds(self) -> None:
        one_of("ffn", self.ffn, ACTIVATIONS)
        one_of("position", self.position, POSITION_KINDS)
        one_of("norm", self.norm, NORM_KINDS)
        one_of("norms_per_layer", self.norms_per_layer, (1, 2, 4))
        one_of("rope_layout", self.rope_layout, ROPE_LAYOUTS)
        one_of("attention", self.attention, tuple(MIXERS))
        if self.qk_norm is not None:
            one_of("qk_norm", self.qk_norm, QK_NORMS)
        for name in (f.name for f in fields(self) if f.type == "bool"):
            switch(name, getattr(self, name))
        for name in ("id", "name", "family", "dtype"):
            if not isinstance(getattr(self, name), str | None):
                raise ConfigError(f"{name} must be text, not {shown(getattr(self, name))}")
        if self.position == "learned" and self.learned_position_rows is None:
            raise ConfigError("learned_position_rows must be given with position 'learned'")

    def _check_attention(self) -> None:
        kind = MIXERS[self.attention]
        kind.of(self, windowed=False)
        for owner, other in MIXERS.items():
            for name in other.own_fields:
                if other is not kind and getattr(self, name) is not None:
                    raise ConfigError(f"{name} belongs to attention {owner!r}, and this model's is {self.attention!r}")

    def _check_layers(self) -> None:
        if self.mixed_layers and len(self.mixed_layers) != self.n_layers:
            raise ConfigError(f"mixed_layers must have n_layers = {self.n_layers} layers, not {len(self.mixed_layers)}")
        for i, layer in enumerate(self.mixed_layers):
            if not isinstance(layer, Layer):
                raise ConfigError(f"mixed_layers[{i}] must be a Layer, not {shown(layer)}")
            for name in ("shares_cache_of", "shares_weights_of"):
                if (other := getattr(layer, name)) is not None and other >= i:
                    raise ConfigError(f"mixed_layers[{i}].{name} must be an earlier layer, not {other}")

    @cached_property
    def layers(self) -> tuple[Layer, ...]:
        """The layers, from first to last; equal ones are one object."""
        if not self.mixed_layers:
            return tuple(self._uniform_layers())
        rotates = self.position == "rope"
        known: dict[Layer, Layer] = {}
        given = (layer if rotates else replace(layer, rope_theta=None) for layer in self.mixed_layers)
        return tuple(known.setdefault(layer, layer) for layer in given)

    @cached_property
    def layer_counts(self) -> tuple[tuple[int, Layer], ...]:
        """The different layers in order of their first occurrence, each with the number of layers equal to it."""
        objects = {id(layer): layer for layer in self.layers}  # comparing thousands of equal layers would take long
        counts: Counter[Layer] = Counter()
        for key, n in Counter(map(id, self.layers)).items():
            counts[objects[key]] += n
        return tuple((n, layer) for layer, n in counts.items())

    @property
    def mixer(self) -> Mixer:
        """The mixer of all layers, up to its window and whose keys it reads. ConfigError where they differ in more."""
        if not self.mixed_layers:
            return self.layers[0].mixer
        return self._agreed("mixer", [mixer.alone for _, layer in self.layer_counts for mixer in layer.mixers])

    def _agreed(self, what: str, values: Iterable[T]) -> T:
        """Return the value of all layers. ConfigError where they differ."""
        first, *others = dict.fromkeys(values)
        if others:
            raise ConfigError(f"the layers of this model differ in their {what}, and each has to be asked for its own")
        return first

    @property
    def experts(self) -> Experts | None:
        """The first layer's experts that has some; None in a model without."""
        found = (part for _, layer in self.layer_counts for part in layer.feed_forwards if isinstance(part, Experts))
        return next(found, None)

    def _uniform_layers(self) -> Iterator[Layer]:
        """Build each different layer once: layers differ in their window and in having experts or not."""
        full, n_dense = set(self.full_layers), self.n_layers if self.moe is None else self.moe.n_dense_layers
        built: dict[tuple[bool, bool], Layer] = {}
        for i in range(self.n_layers):
            key = windowed, _ = i not in full, i < n_dense
            if key not in built:
                own_theta = windowed and self.rope_theta_windowed is not None
                theta = self.rope_theta_windowed if own_theta else self.rope_theta
                theta = theta if self.position == "rope" else None
                parts = MIXERS[self.attention].of(self, windowed), self._feed_forward(i)
                built[key] = Layer(parts, self.norms_per_layer, self.parallel_block, theta, rope_scaled=not own_theta)
            yield built[key]

    def _feed_forward(self, layer: int) -> Dense | Experts:
        dense = Dense(self.d_ff, self.ffn in GATED, self.ffn_bias)
        return dense if self.moe is None else self.moe.feed_forward(layer, dense)

    @property
    def group_size(self) -> int:
        return self.mixer.group_size

    @property
    def rotary_dim(self) -> int:
        """Number of a head's dimensions that RoPE rotates in all layers; 0 without RoPE."""
        if self.mixed_layers:
            return self._agreed("rotation", [layer.rotary_dim for layer in self.layers])
        return self.mixer.rotary_dim if self.position == "rope" else 0

    @property
    def windows(self) -> tuple[int, ...]:
        """The windows of the layers that have one, each once."""
        found = (mixer.window for _, layer in self.layer_counts for mixer in layer.mixers)
        return tuple(dict.fromkeys(window for window in found if window is not None))

    def with_kv_heads(self, n_kv_heads: int) -> ModelConfig:
        """Return the same model with another number of KV heads; MLA is converted, without its latents."""
        return self.with_attention(n_kv_heads=n_kv_heads)

    def run_as(self, *, window: int | None = None, n_sinks: int = 0, theta: float | None = None) -> ModelConfig:
        """Return the same model with this window in its layers, and this base of RoPE; None: its own.

        Weights stay valid. Layers with a base of their own for their window stay the only ones with a window.
        """
        if self.mixed_layers:
            layers = tuple(layer.run_as(window, n_sinks, theta) for layer in self.mixed_layers)
            return replace(self, mixed_layers=layers)
        chosen: dict[str, Any] = {}
        if window is not None:
            full = self.full_layers if self.rope_theta_windowed is not None else ()
            chosen |= {"sliding_window": window, "n_sinks": n_sinks, "full_layers": full}
        if theta is not None:
            windowed = {} if self.rope_theta_windowed is None else {"rope_theta_windowed": theta}
            chosen |= {"rope_theta": theta} | windowed
        return replace(self, **chosen)

    def with_attention(self, **fields: Any) -> ModelConfig:
        """Return the same model with other attention fields; those of one mixer alone have to be given again."""
        if self.mixed_layers:
            raise ConfigError("the attention of mixed_layers cannot be changed in all layers at once")
        others: dict[str, Any] = {"attention": None, **dict.fromkeys(OWN_FIELDS)}
        return replace(self, **others | fields)

    def to_dict(self) -> dict:
        """Return the fields that differ from the defaults, as stored in a checkpoint's metadata."""
        given = changed_fields(self)
        if self.mixed_layers:
            given["mixed_layers"] = [layer.to_dict() for layer in self.mixed_layers]
        if self.other_parts:
            raise ConfigError("other_parts cannot be written to a checkpoint's metadata")
        return {name: asdict(value) if is_dataclass(value) else value for name, value in given.items()}  # type: ignore[arg-type]
