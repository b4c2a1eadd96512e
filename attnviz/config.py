"""Configurations of an attention layer and of a model: frozen dataclasses that validate themselves.

Standard library only.

Names follow the field: `n_kv_heads` is a count, `group_size = n_heads / n_kv_heads` is how many query heads
share one key/value head. "Groups" is never used for a count, since the literature uses it for each of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from typing import Any

from attnviz.checks import ConfigError, number, one_of, shown, switch, whole
from attnviz.facts import LATENT_FIELDS, config_fields, refuse_unknown
from attnviz.mechanisms import GATED, QK_NORMS, Dense, Experts, Grouped, Latent, Layer, Mechanism, Mixer

ATTENTION_KINDS = ("mha", "gqa", "mqa", "mla")
FFN_KINDS = ("swiglu", "geglu", "gelu", "relu")
POSITION_KINDS = ("rope", "learned", "alibi", "none")
NORM_KINDS = ("rmsnorm", "layernorm")
ROPE_LAYOUTS = ("half", "interleaved")
SHIPPED = {"mha": "MHA", "gqa-4": "GQA-4", "gqa-2": "GQA-2", "mqa": "MQA", "mla": "MLA"}  # checkpoints: id -> name
RUN_FIELDS = (
    "position", "max_context", "rope_theta", "rope_theta_windowed", "rope_scaling", "rope_layout", "rotary_fraction",
    "causal", "sliding_window", "full_layers", "n_sinks",
    "id", "name", "family", "year", "dtype",
)  # fmt: skip  # fields that `with_config` may change on loaded weights: how a model is run, and its names


def divisors(n: int) -> tuple[int, ...]:
    """Return the divisors of n, largest first: the numbers of KV heads that n query heads can share."""
    return tuple(d for d in range(n, 0, -1) if n % d == 0)


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
        if self.n_heads % self.n_kv_heads:
            raise ConfigError(
                f"n_kv_heads must divide n_heads: {self.n_heads} query heads can share "
                f"{', '.join(map(str, divisors(self.n_heads)))} KV heads, not {self.n_kv_heads}"
            )
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


def attention_kind(n_heads: int, n_kv_heads: int) -> str:
    """Return "mha", "gqa" or "mqa" for these numbers of heads. A single head is MHA."""
    if n_kv_heads == n_heads:
        return "mha"
    return "mqa" if n_kv_heads == 1 else "gqa"


@dataclass(frozen=True)
class MoEConfig:
    """Mixture-of-experts feed-forward: number and sizes of the experts, and how many layers are dense instead."""

    n_routed_experts: int
    experts_per_token: int
    d_ff_expert: int
    n_shared_experts: int = 0
    n_dense_layers: int = 0
    dense_d_ff: int | Any = None
    router_bias: bool = False
    expert_bias: bool = False
    router_score_correction_bias: bool = False  # a buffer for load balancing, not a parameter
    shared_d_ff: int | None = None  # of the shared experts together, if not n_shared_experts times d_ff_expert
    shared_gate: bool = False  # one number per token scales the shared experts

    def __post_init__(self) -> None:
        for name in ("n_routed_experts", "experts_per_token", "d_ff_expert"):
            whole(f"moe.{name}", getattr(self, name))
        for name in ("n_shared_experts", "n_dense_layers"):
            whole(f"moe.{name}", getattr(self, name), low=0)
        for name in ("dense_d_ff", "shared_d_ff"):
            if getattr(self, name) is not None:
                whole(f"moe.{name}", getattr(self, name))
        for name in ("router_bias", "expert_bias", "router_score_correction_bias", "shared_gate"):
            switch(f"moe.{name}", getattr(self, name))
        if self.experts_per_token > self.n_routed_experts:
            raise ConfigError(
                f"moe.experts_per_token must be at most n_routed_experts = {self.n_routed_experts}, "
                f"not {self.experts_per_token}"
            )

    @classmethod
    def from_dict(cls, facts: object) -> MoEConfig:
        """Build from the `moe` part of published facts. ConfigError names an unknown or missing field."""
        if not isinstance(facts, dict):
            raise ConfigError(f"moe must be a mapping of names to values, not {shown(facts)}")
        refuse_unknown(facts, tuple(f.name for f in fields(cls)), "moe.")
        missing: dict[str, Any] = dict.fromkeys(("n_routed_experts", "experts_per_token", "d_ff_expert"))
        return cls(**missing | facts)


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
    # layers that the fields above do not describe, because they differ in more than the window and the experts
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
        if self.attention == "mla":
            self._check_latent()
        else:
            self._check_not_latent()
        if self.mixed_layers and len(self.mixed_layers) != self.n_layers:
            raise ConfigError(f"mixed_layers must have n_layers = {self.n_layers} layers, not {len(self.mixed_layers)}")

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
        return cls(**given)

    def _fill_in_defaults(self) -> None:
        whole("n_layers", self.n_layers)
        latent = self.attention == "mla"
        if latent and self.head_dim is None and self.qk_nope_head_dim and self.qk_rope_head_dim:
            object.__setattr__(self, "head_dim", self.qk_nope_head_dim + self.qk_rope_head_dim)
        layer = AttentionConfig(self.d_model, self.n_heads, self.n_kv_heads, self.head_dim)
        object.__setattr__(self, "n_kv_heads", layer.n_kv_heads)
        object.__setattr__(self, "head_dim", layer.head_dim)
        if self.attention is None:
            object.__setattr__(self, "attention", layer.kind)
        elif not latent and self.attention != layer.kind:
            raise ConfigError(
                f"attention is {self.attention!r}, but {self.n_heads} query heads over "
                f"{self.n_kv_heads} KV heads are {layer.kind!r}"
            )
        if self.d_ff is None:  # 8/3 of d_model as usual for SwiGLU, rounded up to a multiple of 8
            object.__setattr__(self, "d_ff", -(-self.d_model * 8 // 24) * 8)

    def _check_numbers(self) -> None:
        whole("d_ff", self.d_ff)
        whole("vocab_size", self.vocab_size)
        for name in ("learned_position_rows", "max_context", "sliding_window", "year", *LATENT_FIELDS):
            if getattr(self, name) is not None:
                whole(name, getattr(self, name))
        if self.rotary_fraction is not None:
            number("rotary_fraction", self.rotary_fraction, 0, 1)
        for name in ("rope_theta", "rope_theta_windowed"):
            if (theta := getattr(self, name)) is not None:
                number(name, theta, 1, 10**12)
                if theta == 1:
                    raise ConfigError(f"{name} must be above 1, or all pairs rotate equally, not {theta!r}")
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
        one_of("ffn", self.ffn, FFN_KINDS)
        one_of("position", self.position, POSITION_KINDS)
        one_of("norm", self.norm, NORM_KINDS)
        one_of("norms_per_layer", self.norms_per_layer, (1, 2, 4))
        one_of("rope_layout", self.rope_layout, ROPE_LAYOUTS)
        one_of("attention", self.attention, ATTENTION_KINDS)
        if self.qk_norm is not None:
            one_of("qk_norm", self.qk_norm, QK_NORMS)
        for name in (f.name for f in fields(self) if f.type == "bool"):
            switch(name, getattr(self, name))
        for name in ("id", "name", "family", "dtype"):
            if not isinstance(getattr(self, name), str | None):
                raise ConfigError(f"{name} must be text, not {shown(getattr(self, name))}")
        if self.position == "learned" and self.learned_position_rows is None:
            raise ConfigError("learned_position_rows must be given with position 'learned'")

    def _check_latent(self) -> None:
        for name in ("kv_lora_rank", "qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim"):
            whole(name, getattr(self, name))
        for name in ("qkv_bias", "o_bias"):
            if getattr(self, name):
                raise ConfigError(f"{name} must be false with attention 'mla', whose projections carry no biases")
        if self.head_dim != self.qk_nope_head_dim + self.qk_rope_head_dim:
            raise ConfigError(
                f"head_dim must be qk_nope_head_dim + qk_rope_head_dim = "
                f"{self.qk_nope_head_dim + self.qk_rope_head_dim}, not {self.head_dim}"
            )

    def _check_not_latent(self) -> None:
        for name in LATENT_FIELDS:
            if getattr(self, name) is not None:
                raise ConfigError(f"{name} belongs to attention 'mla', and this model's is {self.attention!r}")

    @cached_property
    def layers(self) -> tuple[Layer, ...]:
        """The layers, from first to last; equal ones are one object."""
        return self.mixed_layers or tuple(self._uniform_layers())

    @cached_property
    def layer_counts(self) -> tuple[tuple[int, Layer], ...]:
        """The different layers in order of their first occurrence, each with the number of layers equal to it."""
        objects = {id(layer): layer for layer in self.layers}  # comparing thousands of equal layers would take long
        found: Counter[Layer] = Counter()
        for key, n in Counter(map(id, self.layers)).items():
            found[objects[key]] += n
        return tuple((n, layer) for layer, n in found.items())

    @property
    def mixer(self) -> Mixer:
        """The first layer's mixer: that of all layers, up to its window, unless there are `mixed_layers`."""
        return self.layers[0].mixers[0]

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
            key = (self.sliding_window is not None and i not in full, i < n_dense)
            if key not in built:
                windowed, dense = key
                theta = self.rope_theta_windowed if windowed and self.rope_theta_windowed else self.rope_theta
                built[key] = Layer(
                    (self._mixer(windowed), self._feed_forward(dense)), self.norms_per_layer, self.parallel_block,
                    theta if self.position == "rope" else None,
                )  # fmt: skip
            yield built[key]

    def _mixer(self, windowed: bool) -> Mixer:
        """Build the attention of a layer from the fields, with or without the sliding window."""
        seen = (self.n_heads, self.sliding_window if windowed else None, self.n_sinks if windowed else 0)
        if self.attention == "mla":
            return Latent(
                *seen, kv_lora_rank=self.kv_lora_rank, qk_nope_head_dim=self.qk_nope_head_dim,
                qk_rope_head_dim=self.qk_rope_head_dim, v_head_dim=self.v_head_dim, q_lora_rank=self.q_lora_rank,
                sink_logits=self.attention_sinks,
            )  # fmt: skip
        return Grouped(
            *seen, n_kv_heads=self.n_kv_heads, head_dim=self.head_dim, qkv_bias=self.qkv_bias, o_bias=self.o_bias,
            qk_norm=self.qk_norm, sink_logits=self.attention_sinks,
        )  # fmt: skip

    def _feed_forward(self, dense: bool) -> Mechanism:
        """Build a layer's feed-forward from the fields: dense, or the experts."""
        gated, moe = self.ffn in GATED, self.moe
        if moe is None:
            return Dense(self.d_ff, gated, self.ffn_bias)
        if dense:
            return Dense(moe.dense_d_ff or self.d_ff, gated, self.ffn_bias)
        return Experts(
            moe.n_routed_experts, moe.experts_per_token, moe.d_ff_expert, moe.n_shared_experts, gated,
            moe.router_bias, moe.expert_bias, moe.shared_d_ff, moe.shared_gate,
        )  # fmt: skip

    @property
    def layer(self) -> AttentionConfig:
        """Attention of one layer (for MLA: its query heads, each with its own expanded keys)."""
        return AttentionConfig(self.d_model, self.n_heads, self.n_kv_heads, self.head_dim, self.qkv_bias, self.o_bias)

    @property
    def group_size(self) -> int:
        return self.layer.group_size

    @property
    def rotary_dim(self) -> int:
        """Number of a head's dimensions that RoPE rotates (the first ones); 0 without RoPE."""
        if self.position != "rope":
            return 0
        if self.attention == "mla":
            return self.qk_rope_head_dim
        fraction = 1.0 if self.rotary_fraction is None else self.rotary_fraction
        return int(self.head_dim * fraction) // 2 * 2

    @property
    def score_root(self) -> float:
        """The number whose square root divides q·k: head_dim, or Gemma's query_pre_attn_scalar."""
        return self.head_dim if self.attention_scale is None else round(self.attention_scale**-2, 6)

    @property
    def scale_text(self) -> str:
        """The divisor of q·k as text: "√64"."""
        return f"√{self.score_root:g}"

    def window_of(self, layer: int) -> int | None:
        """Return the window of a layer: keys a query may attend to, its own included; None without a window."""
        return None if layer in self.full_layers else self.sliding_window

    def with_kv_heads(self, n_kv_heads: int) -> ModelConfig:
        """Return the same model with another number of KV heads; MLA is converted, without its latents."""
        no_latents: dict[str, Any] = dict.fromkeys(LATENT_FIELDS)
        return replace(self, n_kv_heads=n_kv_heads, attention=None, **no_latents)

    def to_dict(self) -> dict:
        """Return the fields that differ from the defaults, as stored in a checkpoint's metadata."""
        plain = asdict(self)
        return {f.name: plain[f.name] for f in fields(self) if plain[f.name] != f.default}
