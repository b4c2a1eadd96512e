"""Reader of a Hugging Face config.json: the `ModelConfig` it describes, the fields used and assumed, uncounted parts.

A missing field gets the default of the architecture's configuration class in transformers, as when transformers loads
the file; `Description.assumed` names each. RoPE settings, token ids and numeric details change neither the parameters
nor the bytes of the cache, and are not read.
"""

from __future__ import annotations

from dataclasses import dataclass

from attnviz.checks import ConfigError, shown
from attnviz.config import ModelConfig
from attnviz.cost.hf_architectures import ALIASES, ARCHITECTURES, CLASSES, LAYERED, TIED_BY_EITHER, Architecture
from attnviz.cost.hf_fields import Fields
from attnviz.cost.hf_heads import name_in, read_head
from attnviz.cost.hf_llama_like import LLAMA_LIKE, unlike_llama
from attnviz.cost.hf_unknown import refuse_unknown_fields

MARKS = ("model_type", "architectures", "text_config", "hidden_size", "num_hidden_layers", "n_embd")
LONGEST_METHOD = 40  # characters
TEXT_PARTS = ("text_config", "llm_config", "language_config")  # the decoder's part of a multimodal model's config.json
OTHER_PARTS = {
    "vision_config": "the image encoder and its projector",
    "audio_config": "the audio encoder and its projector",
    "num_nextn_predict_layers": "the layers for multi-token prediction, which plain decoding does not run",
    "mtp_num_hidden_layers": "the layers for multi-token prediction, which plain decoding does not run",
    "num_mtp_layers": "the layers for multi-token prediction, which plain decoding does not run",
    "num_mtp_modules": "the layers for multi-token prediction, which plain decoding does not run",
}
CHECKED = (  # fields that decide whether an unknown architecture is counted, or that change no number
    *MARKS, "hidden_act", "sliding_window", "use_sliding_window", "layer_types", "quantization_config", "rms_norm_eps",
    "transformers_version", "use_cache", "id2label", "label2id", "num_labels",
)  # fmt: skip
KNOWN = sorted(ARCHITECTURES | ALIASES)


class UnknownArchitecture(ConfigError):
    """No reader knows this architecture, and it cannot be counted as a Llama."""


@dataclass(frozen=True)
class Description:
    """The model that a config.json describes. used, assumed: field names of the file and their values."""

    model: ModelConfig
    architecture: str  # its model_type
    used: dict[str, object]
    assumed: dict[str, object]
    uncounted: dict[str, str]  # field -> the uncounted part of the model that it describes
    known: bool = True  # False: an unknown architecture, counted as if it were Llama's
    unused: tuple[str, ...] = ()  # fields of the file that the count does not use
    stored_as: str = ""  # the quantisation of the stored weights, which changes no count
    counted: str = ""  # who counted it, and how, where no reader did


def is_hf_config(facts: object) -> bool:
    """Check whether this is a config.json and not a configuration in this project's own fields."""
    return isinstance(facts, dict) and any(name in facts for name in MARKS)


def read_hf_config(config: dict) -> Description:
    """Read a config.json; ConfigError names the field that is missing, impossible or unknown, as in the file."""
    part = next((name for name in TEXT_PARTS if config.get(name) is not None), None)
    decoder = config if part is None else config[part]
    if not isinstance(decoder, dict):
        raise ConfigError(f"{part} must be a mapping of names to values, not {shown(decoder)}")
    if part is not None and config.get("tie_word_embeddings") is not None:
        decoder = decoder | {"tie_word_embeddings": _ties(config, decoder)}
    name = _architecture(decoder) or _architecture(config)
    architecture = _lookup(name, decoder)
    fields = Fields(decoder, architecture.defaults, architecture.aliases)
    model = architecture.read(fields)
    if ALIASES.get(name, name) in LAYERED:
        refuse_unknown_fields(name, fields, (*CHECKED, *OTHER_PARTS))
    model |= read_head(name, fields, config)
    uncounted = {name: what for name, what in OTHER_PARTS.items() if config.get(name) or decoder.get(name)}
    return Description(
        ModelConfig(name=name, **model), name, fields.used, fields.assumed, uncounted | fields.uncounted,
        known=architecture is not LLAMA_LIKE, unused=tuple(n for n in decoder if _is_unused(n, fields)),
        stored_as=_quantisation(config),
    )  # fmt: skip


def _ties(config: dict, decoder: dict) -> object:
    """Return whether the embeddings are tied: as the file says beside its decoder, which wins over what is inside."""
    either = not config["tie_word_embeddings"] and config.get("model_type") in TIED_BY_EITHER
    return decoder.get("tie_word_embeddings", False) if either else config["tie_word_embeddings"]


def _is_unused(name: str, fields: Fields) -> bool:
    """Check whether a field was neither used nor one that changes no count or was checked."""
    return name not in {*fields.used, *fields.assumed, *CHECKED} and not name.endswith(("_token_id", "dtype"))


def _quantisation(config: dict) -> str:
    """Return the method that the stored weights are quantised with: "fp8"; "" if none is given."""
    stored = config.get("quantization_config")
    return str(stored.get("quant_method") or "quantised")[:LONGEST_METHOD] if isinstance(stored, dict) else ""


def _architecture(config: dict) -> str:
    """Return the model_type, or the one that `architectures` implies; "" if neither is given."""
    if config.get("model_type") is not None:
        if not isinstance(config["model_type"], str):
            raise ConfigError(f"model_type must be text, not {shown(config['model_type'])}")
        return config["model_type"]
    classes = config.get("architectures")
    first = classes[0] if isinstance(classes, list) and classes else ""
    if not isinstance(first, str):
        raise ConfigError(f"architectures must be a list of class names, not {shown(classes)}")
    return CLASSES.get(name_in(first), first)


def _lookup(name: str, decoder: dict) -> Architecture:
    if not name:
        raise ConfigError(
            "config.json must name its architecture: model_type (such as “llama”) or architectures (such as "
            "“LlamaForCausalLM”)"
        )
    architecture = ARCHITECTURES.get(ALIASES.get(name, name))
    if architecture is not None:
        return architecture
    if unlike := unlike_llama(name, decoder):
        raise UnknownArchitecture(
            f"AttnViz does not know the architecture {shown(name)} and cannot count it as a Llama: {unlike}. A decoder "
            "with attention in every layer can be described in this page's own fields instead"
        )
    return LLAMA_LIKE
