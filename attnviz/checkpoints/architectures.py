"""Hugging Face architectures that can be run: config.json -> `ModelConfig`, and the mapping of tensor names.

Sizes are read by `attnviz.cost`, which counts more architectures than can be run. This file reads the fields that
affect results but not sizes: activations, scales, soft caps, RoPE.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from attnviz.checkpoints.refusals import other_kind
from attnviz.checks import ConfigError, shown
from attnviz.config import ModelConfig
from attnviz.cost.hf_config import read_hf_config
from attnviz.modules.rope_scaling import FIELDS_OF, RopeScaling, scaled_rope_frequencies

TRAINED = "original_max_position_embeddings"
SILU, GELU_TANH = ("silu", "swish"), ("gelu_new", "gelu_pytorch_tanh")
Facts = dict[str, Any]


@dataclass(frozen=True)
class Architecture:
    """Rules for reading one architecture's configuration and tensors."""

    model_type: str
    base: str  # the class without the output layer
    run: Callable[[Facts, ModelConfig], dict[str, Any]]  # the fields that affect results but not sizes
    names: dict[str, str]  # our name -> name in the file, for each part of a tensor's name
    gain_from_one: bool = False  # norms are stored as weight - 1
    fused: bool = False  # GPT-2: q, k and v are one tensor, and weights of linear layers are transposed

    @property
    def prefix(self) -> str:
        """The start of the tensors' names in the files, unless the base model was saved alone."""
        return "transformer." if self.fused else "model."

    @property
    def layers_field(self) -> str:
        """The field of config.json with the number of layers."""
        return "n_layer" if self.fused else "num_hidden_layers"


# ---- config.json


def read_config(facts: Facts) -> tuple[ModelConfig, Architecture]:
    """Parse a config.json. ConfigError names an architecture or a field that is not supported."""
    named = facts.get("architectures")
    name = named[0] if isinstance(named, list) and named else _by_type(facts.get("model_type"))
    architecture = next((a for full, a in ARCHITECTURES.items() if name in (full, a.base)), None)
    if architecture is None:
        raise ConfigError(
            f"the architecture {shown(name)}{other_kind(facts.get('model_type'))} is not supported; supported: "
            f"{', '.join(ARCHITECTURES)}.{_is_counted(facts)}"
        )
    if facts.get("model_type") not in (None, architecture.model_type):
        raise ConfigError(
            f"architectures names {name}, but model_type is {shown(facts['model_type'])} and not "
            f"{architecture.model_type!r}; correct one of the two in config.json"
        )
    if facts.get("auto_map"):
        raise ConfigError("auto_map is given: this model comes with its own code, which is never run")
    decoder = {**facts, "model_type": architecture.model_type, "architectures": None}  # run as ForCausalLM
    model = read_hf_config(decoder).model
    run = architecture.run(facts, model)
    try:
        config = replace(model, dtype=facts.get("dtype") or facts.get("torch_dtype"), **run)
        _check_scaling(config)
    except ConfigError as error:
        raise ConfigError(_with_their_fields(str(error), facts, architecture.model_type)) from None
    return config, architecture


def _is_counted(facts: Facts) -> str:
    """Return a sentence on the Cost page if it can count a model that cannot be run, else ""."""
    try:
        is_known = read_hf_config(facts).known
    except ConfigError:
        return ""
    counts = "The Cost page counts its parameters and cache: paste its config.json there, under “Paste a model”"
    return f" {counts}" if is_known else ""


def _check_scaling(config: ModelConfig) -> None:
    """Raise ConfigError if RoPE cannot be scaled, be a text inside the training context or beyond it."""
    scaling = RopeScaling.of(config.rope_scaling, config.max_context)
    if scaling is not None:
        for length in (None, (scaling.original_max_position_embeddings or 0) + 1):
            scaled_rope_frequencies(config.rotary_dim, config.rope_theta, scaling, length)


def _with_their_fields(message: str, facts: Facts, model_type: str) -> str:
    """Replace this project's field names in an error message by those of the file."""
    scaling = "rope_scaling" if facts.get("rope_scaling") else "rope_parameters"
    if model_type == "gemma3_text" and scaling == "rope_parameters":
        scaling = "rope_parameters.full_attention"
    if facts.get(TRAINED) is not None:
        message = message.replace(f"rope_scaling.{TRAINED}", TRAINED)
    theirs = {
        "norm_eps": "layer_norm_epsilon" if model_type == "gpt2" else "rms_norm_eps",
        "attention_softcap": "attn_logit_softcapping",
        "logit_softcap": "final_logit_softcapping",
        "rope_scaling": scaling,
    }
    return re.sub(rf"\b({'|'.join(theirs)})\b", lambda found: theirs[found[0]], message)


def _by_type(model_type: object) -> object:
    return next((name for name, a in ARCHITECTURES.items() if a.model_type == model_type), model_type)


def _must(facts: Facts, name: str, allowed: tuple, default: object) -> None:
    """Raise ConfigError for a value with which the model would compute something else."""
    if facts.get(name, default) not in allowed:
        raise ConfigError(f"{name} must be {' or '.join(map(str, allowed))} to be run here, not {shown(facts[name])}")


def _llama(facts: Facts, model: ModelConfig) -> dict[str, Any]:
    _must(facts, "hidden_act", SILU, "silu")
    return {"norm_eps": facts.get("rms_norm_eps", 1e-6), **_rope(_rope_of(facts), model)}


def _gpt2(facts: Facts, model: ModelConfig) -> dict[str, Any]:
    _must(facts, "activation_function", GELU_TANH, "gelu_new")
    _must(facts, "scale_attn_weights", (True,), True)
    _must(facts, "scale_attn_by_inverse_layer_idx", (False,), False)
    return {"norm_eps": facts.get("layer_norm_epsilon", 1e-5)}


def _gemma2(facts: Facts, model: ModelConfig) -> dict[str, Any]:
    return {**_gemma(facts, model), **_rope(_rope_of(facts), model)}


def _gemma(facts: Facts, model: ModelConfig) -> dict[str, Any]:
    """Read what Gemma 2 and Gemma 3 share."""
    _must(facts, "hidden_activation", (*GELU_TANH, None), "gelu_pytorch_tanh")
    return {
        "norm_eps": facts.get("rms_norm_eps", 1e-6),
        "embedding_scale": math.sqrt(model.d_model),
        "attention_scale": _above("query_pre_attn_scalar", facts.get("query_pre_attn_scalar", 256), 0) ** -0.5,
        "attention_softcap": facts.get("attn_logit_softcapping", 50.0),
        "logit_softcap": facts.get("final_logit_softcapping", 30.0),
    }


def _gemma3(facts: Facts, model: ModelConfig) -> dict[str, Any]:
    _must(facts, "use_bidirectional_attention", (False, None), False)
    full, windowed = _by_layer(facts)
    if windowed.get("rope_type", windowed.get("type", "default")) != "default":
        raise ConfigError(f"rope_parameters.sliding_attention must be unscaled, not {shown(windowed)}")
    # transformers has a field for a cap on Gemma 3's scores, and never applies it
    caps = {"final_logit_softcapping": None} | facts | {"attn_logit_softcapping": None}
    theta = _above("rope_theta", windowed["rope_theta"], 1)
    return {**_gemma(caps, model), **_rope(full, model), "rope_theta_windowed": theta}


def _by_layer(facts: Facts) -> tuple[Facts, Facts]:
    """Return Gemma 3's RoPE parameters of the layers without and with a window, completed as by transformers."""
    given = _mapping(facts, "rope_parameters")
    full = _mapping(given, "full_attention") if given else {"rope_type": "default"}
    full = {"rope_theta": _given(facts, "rope_theta", 1_000_000.0)} | full | _mapping(facts, "rope_scaling")
    theta = _given(facts, "rope_local_base_freq", 10_000.0)
    return full, {"rope_theta": theta} | _mapping(given, "sliding_attention")


def _rope_of(facts: Facts) -> Facts:
    """Return the RoPE parameters of a config.json in the current or the older format, completed as by transformers."""
    given = _mapping(facts, "rope_scaling") or _mapping(facts, "rope_parameters")
    beside = {"rope_theta": _given(facts, "rope_theta", 10_000.0)}
    trained = facts.get(TRAINED)
    return beside | given | ({} if trained is None else {TRAINED: trained})


def _rope(given: Facts, model: ModelConfig) -> dict[str, Any]:
    _must(given, "partial_rotary_factor", (1,), 1)
    kind = given.get("rope_type", given.get("type", "default"))
    if kind not in ("default", *FIELDS_OF):
        raise ConfigError(f"rope_type must be one of default, {', '.join(FIELDS_OF)} to be run here, not {shown(kind)}")
    if kind == "dynamic" or given.get(TRAINED) is None:  # transformers' dynamic NTK never reads the field
        given = given | {TRAINED: model.max_context}
    used = () if kind == "default" else FIELDS_OF[kind]
    numbers = {name: given[name] for name in used if given.get(name) is not None}
    pairs = tuple((name, tuple(v) if isinstance(v, list) else v) for name, v in numbers.items())
    scaling = None if kind == "default" else (("rope_type", kind), *pairs)
    return {"rope_theta": _above("rope_theta", given["rope_theta"], 1), "rope_scaling": scaling}


def _mapping(facts: Facts, name: str) -> Facts:
    """Return a field that is a mapping; an empty one if it is null or missing."""
    value = _given(facts, name, {})
    if not isinstance(value, dict):
        raise ConfigError(f"{name} must be a mapping of names to values, not {shown(value)}")
    return value


def _given(facts: Facts, name: str, default: object) -> Any:
    """Return a field; the default if it is null or missing."""
    return default if facts.get(name) is None else facts[name]


def _above(name: str, value: object, low: float) -> float:
    """Return a field as a float; ConfigError unless it is a finite number above `low`."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not low < value < math.inf:
        raise ConfigError(f"{name} must be a number above {low}, not {shown(value)}")
    return float(value)


# ---- tensors

_LLAMA = {
    "embed": "model.embed_tokens", "blocks": "model.layers", "norm": "model.norm", "attn_norm": "input_layernorm",
    "attn": "self_attn", "ffn_norm": "post_attention_layernorm", "ffn": "mlp",
}  # fmt: skip
_GEMMA = _LLAMA | {
    "attn_post_norm": "post_attention_layernorm", "ffn_norm": "pre_feedforward_layernorm",
    "ffn_post_norm": "post_feedforward_layernorm",
}  # fmt: skip
_GPT2 = {
    "embed.weight": "wte.weight", "embed.positions": "wpe.weight", "blocks": "h", "norm": "ln_f", "attn_norm": "ln_1",
    "ffn_norm": "ln_2", "ffn": "mlp", "o_proj": "c_proj", "up_proj": "c_fc", "down_proj": "c_proj",
}  # fmt: skip
_FUSED = ("q_proj", "k_proj", "v_proj")

ARCHITECTURES = {
    "LlamaForCausalLM": Architecture("llama", "LlamaModel", _llama, _LLAMA),
    "MistralForCausalLM": Architecture("mistral", "MistralModel", _llama, _LLAMA),
    "Qwen2ForCausalLM": Architecture("qwen2", "Qwen2Model", _llama, _LLAMA),
    "Qwen3ForCausalLM": Architecture("qwen3", "Qwen3Model", _llama, _LLAMA),
    "GPT2LMHeadModel": Architecture("gpt2", "GPT2Model", _gpt2, _GPT2, fused=True),
    "Gemma2ForCausalLM": Architecture("gemma2", "Gemma2Model", _gemma2, _GEMMA, gain_from_one=True),
    "Gemma3ForCausalLM": Architecture("gemma3_text", "Gemma3TextModel", _gemma3, _GEMMA, gain_from_one=True),
}
_HEADS, _KV_HEADS = ("num_attention_heads", "head_dim"), ("num_key_value_heads", "head_dim")
_SIZES = {  # part of our name -> the fields that set the shape, besides the width
    "embed.": ("vocab_size",), "lm_head": ("vocab_size",), "ffn.": ("intermediate_size",),
    "q_proj": _HEADS, "o_proj": _HEADS, "k_proj": _KV_HEADS, "v_proj": _KV_HEADS,
}  # fmt: skip
_GPT2_SIZES = {"embed.weight": ("vocab_size",), "embed.positions": ("n_positions",), "ffn.": ("n_inner",)}
NO_WEIGHTS = ("rotary_emb.inv_freq", "attn.bias", "attn.masked_bias", "lm_head.weight")  # buffers, and a tied copy


def their_name(ours: str, architecture: Architecture) -> str:
    """Return a tensor's name in the files: "blocks.1.attn.q_proj.weight" is in "h.1.attn.c_attn.weight"."""
    names = architecture.names
    if ours in names:
        return names[ours]
    parts = ["c_attn" if architecture.fused and part in _FUSED else names.get(part, part) for part in ours.split(".")]
    return ".".join(parts)


def as_ours(ours: str, tensor: Tensor, architecture: Architecture, config: ModelConfig) -> Tensor:
    """Convert a tensor of the file to our layout: a view, except for norms stored as weight - 1."""
    if architecture.gain_from_one and ours.endswith("norm.weight"):
        return tensor.float() + 1
    if not architecture.fused or not any(part.endswith("_proj") for part in ours.split(".")):
        return tensor
    part = next((i for i, name in enumerate(_FUSED) if f".{name}." in ours), None)
    if part is not None:  # (C, 3 C), or a bias of (3 C,)
        tensor = tensor.narrow(-1, part * config.d_model, config.d_model)
    return tensor.T if tensor.ndim == 2 else tensor


def is_no_weight(name: str) -> bool:
    """Check whether a tensor of a file is a buffer, or the output layer's copy of tied embeddings."""
    return name.endswith(NO_WEIGHTS)


def stored_shape(ours: str, shape: tuple[int, ...], architecture: Architecture) -> tuple[int, ...]:
    """Return the shape that the tensor must have in the file."""
    if not architecture.fused or "_proj" not in ours:
        return shape
    shape = tuple(reversed(shape))
    return (*shape[:-1], 3 * shape[-1]) if any(f".{name}." in ours for name in _FUSED) else shape


def named(names: Iterable[str], architecture: Architecture, is_base: bool) -> dict[str, str]:
    """Map each tensor's name in our module to its name in the files.

    is_base: the base model was saved without its output layer, under names without a prefix.
    """
    prefix = "" if is_base else architecture.prefix
    theirs = {ours: their_name(ours, architecture).removeprefix(architecture.prefix) for ours in names}
    return {ours: name if ours.startswith("lm_head") else prefix + name for ours, name in theirs.items()}


def n_layers_in(names: Iterable[str]) -> int:
    """Return the number of layers that the names of tensors in the files count up to."""
    layers = (re.search(r"(?:^|[.])(?:layers|h)[.](\d{1,9})[.]", name) for name in names)
    return max((int(layer[1]) + 1 for layer in layers if layer), default=0)


def size_fields(ours: str, architecture: Architecture) -> str:
    """Return the fields of config.json that set a tensor's shape: "hidden_size or intermediate_size"."""
    width, sizes = ("n_embd", _GPT2_SIZES) if architecture.fused else ("hidden_size", _SIZES)
    if ours.endswith(("q_norm.weight", "k_norm.weight")):
        return "head_dim"
    return " or ".join((width, *next((fields for part, fields in sizes.items() if part in ours), ())))
