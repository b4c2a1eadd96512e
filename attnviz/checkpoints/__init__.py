"""The shipped checkpoints: float16 safetensors beside this file, the tokenizer they share, and their model card."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open

from attnviz.checkpoints.hub import open_model
from attnviz.checkpoints.opened import OpenError
from attnviz.config import FAMILY, SHIPPED, ConfigError, ModelConfig
from attnviz.modules import Transformer
from attnviz.text import Tokenizer, tokenizer

__all__ = ["CheckpointError", "OpenError", "list_checkpoints", "load_checkpoint", "open_model", "shipped_config"]
FOLDER = Path(__file__).parent


class CheckpointError(ValueError):
    """A checkpoint that is missing, damaged or in another format. The message is one sentence for the user."""


def list_checkpoints() -> list[str]:
    """Return the ids of the shipped checkpoints: the family, most KV heads first, then those with another attention."""
    return [name for name in SHIPPED if (FOLDER / f"{name}.safetensors").exists()]


def load_checkpoint(id_or_path: str | Path) -> tuple[Transformer, Tokenizer]:
    """Load a shipped checkpoint by id, or a file of the same format by path; in float32 and evaluation mode.

    Reads only safetensors, which cannot contain code. Raises CheckpointError.
    """
    with _opened(id_or_path) as file:
        config = _config(file, id_or_path)
        tensors = {name: file.get_tensor(name).float() for name in file.keys()}  # noqa: SIM118
        return _with_weights(config, tensors), tokenizer()


def shipped_config(name: str) -> ModelConfig:
    """Return the configuration of a shipped checkpoint without reading its weights. Raises CheckpointError."""
    with _opened(name) as file:
        return replace(_config(file, name), name=name)


@contextmanager
def _opened(id_or_path: str | Path) -> Iterator[safe_open]:
    """Open a checkpoint file; errors, also while it is read, are raised as CheckpointError."""
    path = FOLDER / f"{id_or_path}.safetensors" if str(id_or_path) in SHIPPED else Path(id_or_path)
    if not path.is_file():
        known = ", ".join(list_checkpoints()) or "none"
        raise CheckpointError(f"There is no checkpoint {path.name}; shipped with the app: {known}.")
    try:
        with safe_open(path, "pt") as file:
            yield file
    except (SafetensorError, OSError, ValueError, TypeError) as error:
        reason = " ".join(str(error).split())
        raise CheckpointError(f"The checkpoint {path.name} is damaged or has another format ({reason}).") from None


def _config(file: safe_open, id_or_path: str | Path) -> ModelConfig:
    """Read the configuration in the file; a checkpoint of the family must have the attention type of its name."""
    config = config_from_metadata(file.metadata() or {})
    if id_or_path in FAMILY and (attention := config.mixer.name.lower()) != id_or_path:
        raise ConfigError(f"it contains {attention}, not {id_or_path}")
    return config


def config_from_metadata(metadata: dict[str, str]) -> ModelConfig:
    """Parse the configuration that `save_checkpoint` wrote into the file."""
    if "config" not in metadata:
        raise ConfigError("it has no configuration in its metadata")
    return ModelConfig.from_dict(json.loads(metadata["config"]))


def _with_weights(config: ModelConfig, tensors: dict[str, torch.Tensor]) -> Transformer:
    with torch.device("meta"):  # allocates no memory for weights that are replaced at once
        model = Transformer(config)
    try:
        model.load_state_dict(tensors, assign=True)
    except RuntimeError as error:
        raise ValueError(f"its weights do not fit its configuration: {str(error).splitlines()[1].strip()}") from None
    return model.eval().requires_grad_(False)
