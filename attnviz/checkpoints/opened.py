"""Open a model in Hugging Face's format: config.json, tokenizer.json, and safetensors in one or several files.

Weights are held in memory in their stored precision and converted to float32 for computation. No code from a folder is
run: neither pickles nor a model's own modules.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

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
from attnviz.checkpoints.stored import stored
from attnviz.checkpoints.weights import Entry, entries, refuse_pointer
from attnviz.checks import ConfigError
from attnviz.config import ModelConfig
from attnviz.modules import Transformer
from attnviz.text import Tokenizer

INDEX, ONE_FILE = "model.safetensors.index.json", "model.safetensors"
ADAPTER = "adapter_config.json"
IS_ADAPTER = (
    f"it is an adapter ({ADAPTER}) and not a whole model; merge it into its base model first, in Python with "
    "merge_and_unload() and save_pretrained()"
)
OUTPUT = "lm_head.weight"
MAX_JSON = 100_000_000  # bytes of a config.json, an index or a tokenizer.json


class OpenError(ConfigError):
    """A model that cannot be opened. The message is one sentence for the user."""


def open_model(path_or_hub_id: str | Path) -> tuple[Transformer, Tokenizer]:
    """Open a model from a folder, or from a hub id, downloading it if it is not cached; in evaluation mode.

    OpenError names a missing file, an unsupported field or a tensor of the wrong shape.
    """
    from attnviz.checkpoints import hub

    folder = hub.folder_of(path_or_hub_id)
    return open_folder(folder)


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
            raise ConfigError("there is no tokenizer.json, the only tokenizer file that is read. Write it in Python: "
                              "AutoTokenizer.from_pretrained(folder).save_pretrained(folder)")  # fmt: skip
        refuse_pointer(path)
        if path.stat().st_size > MAX_JSON:
            raise ConfigError(f"tokenizer.json is larger than {MAX_JSON / 1e6:.0f} MB")
        try:
            return Tokenizer(path)
        except Exception as error:  # tokenizers raises plain Exception
            raise ConfigError(f"tokenizer.json cannot be read ({error})") from None


def weight_files(folder: Path) -> list[Path]:
    """Return a model's weight files: the only one, or those named in the index; as in transformers, one file wins."""
    if (folder / ONE_FILE).is_file():
        return [folder / ONE_FILE]
    if (folder / INDEX).is_file():
        return _indexed(folder)
    raise ConfigError(_why_no_weights(folder))


def _indexed(folder: Path) -> list[Path]:
    """Return the files that the index names."""
    by_tensor = _json(folder / INDEX).get("weight_map")
    names = list(by_tensor.values()) if isinstance(by_tensor, dict) else []
    if not names or not all(isinstance(n, str) and n == Path(n).name and n.endswith(".safetensors") for n in names):
        raise ConfigError(f"{INDEX} must map tensors to safetensors files beside it")
    names = sorted(set(names))
    missing = next((n for n in names if not (folder / n).is_file()), None)
    if missing:
        raise ConfigError(f"{missing}, named in {INDEX}, is missing")
    return [folder / n for n in names]


def _why_no_weights(folder: Path) -> str:
    """Return why a folder has neither of the usual weight files, and what to do about it."""
    names = sorted(path.name for path in folder.iterdir())
    others = [name for name in names if name.endswith(".safetensors")]
    if ADAPTER in names:
        return IS_ADAPTER
    if len(others) == 1:
        return f"there is {others[0]} but no {ONE_FILE}; rename it, or add the {INDEX} that names it"
    if others:
        return f"there are {others[0]} and others, but no {INDEX}, which names them; copy it into the folder"
    pickles = [name for name in names if name.endswith((".bin", ".pt", ".pth", ".ckpt"))]
    if pickles:
        return (f"its weights are in {pickles[0]}, a pickle, which can run code when it is loaded. Only safetensors "
                "are opened. If you trust the file, convert it in Python: "
                "AutoModelForCausalLM.from_pretrained(folder).save_pretrained(folder)")  # fmt: skip
    return f"there is neither {ONE_FILE} nor {INDEX}"


@contextmanager
def _as_sentence(folder: Path) -> Iterator[None]:
    try:
        yield
    except OpenError:
        raise
    except (ValueError, ArithmeticError, OSError, KeyError, TypeError, AttributeError) as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise OpenError(f"The model {folder.name} cannot be opened: {reason}.") from None


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
        raise ConfigError(IS_ADAPTER)
    return read_config(_json(folder / "config.json"))


def _model(folder: Path, config: ModelConfig, architecture: Architecture) -> Transformer:
    found = entries(weight_files(folder))
    _refuse_other_layers(found, config, architecture)
    with torch.device("meta"):  # allocates no memory for weights that are replaced at once
        model = Transformer(config)
    wanted = _names(found, model, architecture)
    tensors = {name: found[name].read(name) for name in dict.fromkeys(wanted.values())}
    if config.tie_embeddings and OUTPUT in found:
        _refuse_another_output(found, wanted["embed.weight"], tensors[wanted["embed.weight"]])
    for ours, theirs in wanted.items():
        module, _, name = ours.rpartition(".")
        tensor = as_ours(ours, tensors[theirs], architecture, config)
        model.get_submodule(module)._parameters[name] = stored(tensor)
    return model.eval()


def _refuse_other_layers(found: dict[str, Entry], config: ModelConfig, architecture: Architecture) -> None:
    """Raise ConfigError before a model is built with another number of layers than the weights have."""
    n = n_layers_in(found)
    if n and n != config.n_layers:
        raise ConfigError(f"{architecture.layers_field} is {config.n_layers:,} in config.json, and the weights have "
                          f"{n:,} layers; correct one of the two")  # fmt: skip


def _names(found: dict[str, Entry], model: Transformer, architecture: Architecture) -> dict[str, str]:
    """Map the names of a model's parameters to those in the files, whose shapes fit. Raises ConfigError."""
    is_base = not any(name.startswith(architecture.prefix) for name in found)
    parameters = dict(model.named_parameters())
    wanted = named(parameters, architecture, is_base)
    _refuse_others(set(found), set(wanted.values()))
    if is_base and OUTPUT in wanted.values() and OUTPUT not in found:
        raise ConfigError(f"its weights are those of the base model ({architecture.base}) without the output layer "
                          f"{OUTPUT}; save the whole model (…ForCausalLM)")  # fmt: skip
    for ours, theirs in wanted.items():
        shape = stored_shape(ours, tuple(parameters[ours].shape), architecture)
        _check_shape(theirs, found, shape, size_fields(ours, architecture))
    return wanted


def _check_shape(name: str, found: dict[str, Entry], shape: tuple[int, ...], fields: str) -> None:
    """Raise ConfigError if a tensor is missing or has another shape than by these fields of config.json."""
    if name not in found:
        raise ConfigError(f"the tensor {name} is missing")
    if found[name].shape != shape:
        raise ConfigError(f"the tensor {name} must have the shape {shape}, not {found[name].shape}: config.json and "
                          f"the weights disagree on {fields}")  # fmt: skip


def _refuse_another_output(found: dict[str, Entry], name: str, embeddings: Tensor) -> None:
    """Raise ConfigError if the output layer of tied embeddings is stored too, and is no copy of them."""
    _check_shape(OUTPUT, found, tuple(embeddings.shape), "tie_word_embeddings")
    output = found[OUTPUT].read(OUTPUT)
    dtype = torch.promote_types(output.dtype, embeddings.dtype)
    if not torch.equal(output.to(dtype), embeddings.to(dtype)):
        raise ConfigError(f"tie_word_embeddings is true, but {OUTPUT} differs from {name}; set it to false in "
                          "config.json")  # fmt: skip


def _refuse_others(found: set[str], wanted: set[str]) -> None:
    extra = sorted(name for name in found - wanted if not is_no_weight(name))
    if extra:
        raise ConfigError(f"the tensor {extra[0]} does not belong to this architecture")
