"""Open a model in Hugging Face's format: config.json, tokenizer.json, and safetensors in one or several files.

Weights are memory-mapped in their stored precision and converted to float32 for computation. No code from a folder is
run: neither pickles nor a model's own modules.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from attnviz.checkpoints.architectures import Architecture, as_ours, is_no_weight, named, read_config, stored_shape
from attnviz.checkpoints.stored import stored
from attnviz.checks import ConfigError
from attnviz.config import ModelConfig
from attnviz.modules import Transformer
from attnviz.text import Tokenizer

INDEX, ONE_FILE = "model.safetensors.index.json", "model.safetensors"
MAX_JSON = 100_000_000  # bytes of a config.json, an index or a tokenizer.json
DTYPES = (torch.float32, torch.float16, torch.bfloat16)


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
            raise ConfigError("there is no tokenizer.json; other tokenizer files are not supported")
        if path.stat().st_size > MAX_JSON:
            raise ConfigError(f"tokenizer.json is larger than {MAX_JSON / 1e6:.0f} MB")
        try:
            return Tokenizer(path)
        except Exception as error:  # tokenizers raises plain Exception
            raise ConfigError(f"tokenizer.json cannot be read ({error})") from None


def weight_files(folder: Path) -> list[Path]:
    """Return a model's weight files: those named in the index, or the only one."""
    if (folder / INDEX).is_file():
        names = sorted(set(_json(folder / INDEX).get("weight_map", {}).values()))
        if not names or not all(isinstance(n, str) and n == Path(n).name and n.endswith(".safetensors") for n in names):
            raise ConfigError(f"{INDEX} must map tensors to safetensors files beside it")
        missing = next((n for n in names if not (folder / n).is_file()), None)
        if missing:
            raise ConfigError(f"{missing}, named in {INDEX}, is missing")
        return [folder / n for n in names]
    if (folder / ONE_FILE).is_file():
        return [folder / ONE_FILE]
    pickles = sorted(p.name for p in folder.iterdir() if p.suffix in (".bin", ".pt", ".pth", ".ckpt"))
    if pickles:
        raise ConfigError(f"its weights are in {pickles[0]}, a pickle, which can run code when it is loaded; only "
                          "safetensors are opened")  # fmt: skip
    raise ConfigError(f"there is neither {ONE_FILE} nor {INDEX}")


@contextmanager
def _as_sentence(folder: Path) -> Iterator[None]:
    try:
        yield
    except (ConfigError, SafetensorError, OSError, KeyError, TypeError, AttributeError, OverflowError) as error:
        reason = " ".join(str(error).split())
        raise OpenError(f"The model {folder.name} cannot be opened: {reason}.") from None


def _json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise ConfigError(f"there is no {path.name}")
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
    return read_config(_json(folder / "config.json"))


def _model(folder: Path, config: ModelConfig, architecture: Architecture) -> Transformer:
    with torch.device("meta"):  # allocates no memory for weights that are replaced at once
        model = Transformer(config)
    found = _tensors(weight_files(folder))
    prefix = "transformer." if architecture.fused and "transformer.wte.weight" in found else ""
    names = named(config, (name for name, _ in model.named_parameters()), architecture)
    wanted = {ours: name if name.startswith("lm_head") else prefix + name for ours, name in names.items()}
    _refuse_others(set(found), set(wanted.values()))
    for ours, parameter in list(model.named_parameters()):
        theirs = wanted[ours]
        shape = stored_shape(ours, tuple(parameter.shape), architecture)
        if theirs not in found:
            raise ConfigError(f"the tensor {theirs} is missing")
        tensor = found[theirs]
        if tuple(tensor.shape) != shape:
            raise ConfigError(f"the tensor {theirs} must have the shape {shape}, not {tuple(tensor.shape)}")
        if tensor.dtype not in DTYPES:
            raise ConfigError(f"the tensor {theirs} must be float32, float16 or bfloat16, not {tensor.dtype}")
        module, _, name = ours.rpartition(".")
        part = model.get_submodule(module)
        part._parameters[name] = stored(as_ours(ours, tensor, architecture, config))
    return model.eval()


def _tensors(files: list[Path]) -> dict[str, Tensor]:
    """Return all tensors by name, as views of the memory-mapped files; no data is read yet."""
    found: dict[str, Tensor] = {}
    for path in files:
        with safe_open(path, "pt") as file:
            found |= {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    return found


def _refuse_others(found: set[str], wanted: set[str]) -> None:
    extra = sorted(name for name in found - wanted if not is_no_weight(name))
    if extra:
        raise ConfigError(f"the tensor {extra[0]} does not belong to this architecture")
