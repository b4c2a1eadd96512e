"""Open a model in Hugging Face's format: config.json, tokenizer.json, and safetensors in one or several files.

Weights are held in memory in their stored precision and converted to float32 for computation. No code from a folder is
run: neither pickles nor a model's own modules.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from attnviz.checkpoints import refusals
from attnviz.checkpoints.architectures import (
    Architecture,
    as_ours,
    is_no_weight,
    n_layers_in,
    named,
    read_config,
    size_fields,
    stored_shape,
)
from attnviz.checkpoints.refusals import ADAPTER, INDEX, ONE_FILE
from attnviz.checkpoints.stored import stored
from attnviz.checkpoints.weights import Entry, entries, refuse_pointer
from attnviz.checks import ConfigError, split_code, with_code
from attnviz.config import ModelConfig
from attnviz.modules import Transformer
from attnviz.text import Tokenizer

OUTPUT = "lm_head.weight"
GENERATION = "generation_config.json"
MAX_JSON = 100_000_000  # bytes of a config.json, an index or a tokenizer.json


class OpenError(ConfigError):
    """A model that cannot be opened. The message is one sentence for the user, with lines to run if these help."""


def open_folder(folder: Path) -> tuple[Transformer, Tokenizer]:
    """Open the model in this folder."""
    with _as_sentence(folder):
        config, architecture = _config(folder)
        return _model(folder, config, architecture), open_tokenizer(folder)


def open_config(folder: Path) -> ModelConfig:
    """Read a model's configuration without its weights. Raises OpenError."""
    with _as_sentence(folder):
        return _config(folder)[0]


def open_tokenizer(folder: Path) -> Tokenizer:
    """Read a model's tokenizer. Raises OpenError."""
    with _as_sentence(folder):
        path = folder / "tokenizer.json"
        if not path.is_file():
            raise ConfigError(refusals.no_tokenizer(folder))
        refuse_pointer(path)
        if path.stat().st_size > MAX_JSON:
            raise ConfigError(f"tokenizer.json is larger than {MAX_JSON / 1e6:.0f} MB")
        try:
            return Tokenizer(path, end_ids(folder))
        except Exception as error:  # noqa: BLE001 (tokenizers raises plain Exception)
            raise ConfigError(f"tokenizer.json cannot be read ({error})") from None


def end_ids(folder: Path) -> frozenset[int]:
    """Return the ids after which the model's generation stops (eos_token_id); none if the folder declares none.

    Those of generation_config.json, which transformers reads too, or else those of config.json.
    """
    for name in (GENERATION, "config.json"):
        with suppress(ConfigError):  # neither file is needed for a tokenizer
            declared = _json(folder / name).get("eos_token_id")
            ids = declared if isinstance(declared, list) else [declared]
            if found := frozenset(i for i in ids if type(i) is int):
                return found
    return frozenset()


def weight_files(folder: Path) -> list[Path]:
    """Return a model's weight files: the only one, or those named in the index; as in transformers, one file wins."""
    if (folder / ONE_FILE).is_file():
        return [folder / ONE_FILE]
    if (folder / INDEX).is_file():
        return _indexed(folder)
    raise ConfigError(refusals.no_weights(folder))


def _indexed(folder: Path) -> list[Path]:
    """Return the files that the index names."""
    by_tensor = _json(folder / INDEX).get("weight_map")
    names = list(by_tensor.values()) if isinstance(by_tensor, dict) else []
    if not names or not all(isinstance(n, str) and n == Path(n).name and n.endswith(".safetensors") for n in names):
        raise ConfigError(f"{INDEX} must map tensors to safetensors files beside it")
    names = sorted(set(names))
    if missing := [n for n in names if not (folder / n).is_file()]:
        raise ConfigError(refusals.missing_parts(missing, len(names)))
    return [folder / n for n in names]


@contextmanager
def _as_sentence(folder: Path) -> Iterator[None]:
    try:
        yield
    except OpenError:
        raise
    except (ValueError, ArithmeticError, OSError, KeyError, TypeError, AttributeError) as error:
        reason, code = split_code(str(error))
        reason = " ".join(reason.split()).rstrip(".")
        sentence = f"The model {name_of(folder)} cannot be opened: {reason}"
        raise OpenError(with_code(sentence, code) if code else f"{sentence}.") from None


def name_of(folder: Path) -> str:
    """Return a model's name: that of its folder, or its hub id if the folder is a commit in the hub's cache."""
    in_cache = folder.parent.name == "snapshots" and folder.parent.parent.name.startswith("models--")
    return folder.parent.parent.name.removeprefix("models--").replace("--", "/") if in_cache else folder.name


def _json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise ConfigError(f"there is no {path.name}")
    refuse_pointer(path)
    if path.stat().st_size > MAX_JSON:
        raise ConfigError(f"{path.name} is larger than {MAX_JSON / 1e6:.0f} MB")
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ConfigError(f"{path.name} is not valid JSON ({error})") from None
    if not isinstance(facts, dict):
        raise ConfigError(f"{path.name} must contain a JSON object")
    return facts


def _config(folder: Path) -> tuple[ModelConfig, Architecture]:
    if (folder / ADAPTER).is_file() and not (folder / "config.json").is_file():
        raise ConfigError(refusals.adapter(folder))
    facts = _json(folder / "config.json")
    found = read_config(facts)
    quantised = facts.get("quantization_config")
    if quantised and not refusals.is_converted(quantised):
        raise ConfigError(refusals.quantised(quantised, folder))
    return found


def _model(folder: Path, config: ModelConfig, architecture: Architecture) -> Transformer:
    in_files = entries(weight_files(folder))
    _refuse_other_layers(in_files, config, architecture)
    with torch.device("meta"):  # allocates no memory for weights that are replaced at once
        model = Transformer(config)
    wanted = _names(in_files, model, architecture)
    tensors = {name: in_files[name].read(name) for name in dict.fromkeys(wanted.values())}
    if config.tie_embeddings and OUTPUT in in_files:
        _refuse_another_output(in_files, wanted["embed.weight"], tensors[wanted["embed.weight"]])
    for ours, theirs in wanted.items():
        module, _, name = ours.rpartition(".")
        tensor = as_ours(ours, tensors[theirs], architecture, config)
        model.get_submodule(module)._parameters[name] = stored(tensor)
    return model.eval()


def _refuse_other_layers(in_files: dict[str, Entry], config: ModelConfig, architecture: Architecture) -> None:
    """Raise ConfigError before a model is built with another number of layers than the weights have."""
    n = n_layers_in(in_files)
    if n and n != config.n_layers:
        raise ConfigError(f"{architecture.layers_field} is {config.n_layers:,} in config.json, and the weights have "
                          f"{n:,} layers; correct one of the two")  # fmt: skip


def _names(in_files: dict[str, Entry], model: Transformer, architecture: Architecture) -> dict[str, str]:
    """Map the names of a model's parameters to those in the files, whose shapes fit. Raises ConfigError."""
    is_base = not any(name.startswith(architecture.prefix) for name in in_files)
    parameters = dict(model.named_parameters())
    wanted = named(parameters, architecture, is_base)
    _refuse_others(set(in_files), set(wanted.values()))
    if is_base and OUTPUT in wanted.values() and OUTPUT not in in_files:
        raise ConfigError(f"its weights are those of the base model ({architecture.base}) without the output layer "
                          f"{OUTPUT}; save the whole model (…ForCausalLM)")  # fmt: skip
    for ours, theirs in wanted.items():
        shape = stored_shape(ours, tuple(parameters[ours].shape), architecture)
        _check_shape(theirs, in_files, shape, size_fields(ours, architecture))
    return wanted


def _check_shape(name: str, in_files: dict[str, Entry], shape: tuple[int, ...], fields: str) -> None:
    """Raise ConfigError if a tensor is missing or has another shape than by these fields of config.json."""
    if name not in in_files:
        raise ConfigError(f"the tensor {name} is missing")
    if in_files[name].shape != shape:
        raise ConfigError(f"the tensor {name} must have the shape {shape}, not {in_files[name].shape}: config.json and "
                          f"the weights disagree on {fields}")  # fmt: skip


def _refuse_another_output(in_files: dict[str, Entry], name: str, embeddings: Tensor) -> None:
    """Raise ConfigError if the output layer of tied embeddings is stored too, and is no copy of them."""
    _check_shape(OUTPUT, in_files, tuple(embeddings.shape), "tie_word_embeddings")
    output = in_files[OUTPUT].read(OUTPUT)
    dtype = torch.promote_types(output.dtype, embeddings.dtype)
    if not torch.equal(output.to(dtype), embeddings.to(dtype)):
        raise ConfigError(f"tie_word_embeddings is true, but {OUTPUT} differs from {name}; set it to false in "
                          "config.json")  # fmt: skip


def _refuse_others(names: set[str], wanted: set[str]) -> None:
    extra = sorted(name for name in names - wanted if not is_no_weight(name))
    if extra:
        raise ConfigError(f"the tensor {extra[0]} does not belong to this architecture")
