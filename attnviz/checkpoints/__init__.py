"""The shipped checkpoints: float16 safetensors beside this file, the tokenizer they share, and their model card."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open

from attnviz.config import ConfigError, ModelConfig
from attnviz.modules import Transformer
from attnviz.text import Tokenizer

FOLDER = Path(__file__).parent
ORDER = ("mha", "gqa-4", "gqa-2", "mqa", "mla")


class CheckpointError(ValueError):
    """A checkpoint that is missing, damaged or not one of ours. The message is one sentence for a person."""


def list_checkpoints() -> list[str]:
    """Ids of the shipped checkpoints, most KV heads first."""
    return [name for name in ORDER if (FOLDER / f"{name}.safetensors").exists()]


def load_checkpoint(id_or_path: str | Path) -> tuple[Transformer, Tokenizer]:
    """A shipped checkpoint by id, or any file of the same kind by path; in float32 and evaluation mode.

    Only safetensors are read: nothing in the file can run. Raises CheckpointError.
    """
    path = FOLDER / f"{id_or_path}.safetensors" if str(id_or_path) in ORDER else Path(id_or_path)
    if not path.is_file():
        known = ", ".join(list_checkpoints()) or "none"
        raise CheckpointError(f"There is no checkpoint {str(id_or_path)!r}; shipped with the app: {known}.")
    try:
        with safe_open(path, "pt") as file:
            config = config_from_metadata(file.metadata() or {})
            tensors = {name: file.get_tensor(name).float() for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ConfigError, ValueError, TypeError) as error:
        raise CheckpointError(f"The checkpoint {path.name} is damaged or of another kind ({error}).") from None
    return _with_weights(config, tensors, path.name), Tokenizer()


def config_from_metadata(metadata: dict[str, str]) -> ModelConfig:
    """The configuration that `save_checkpoint` wrote into the file."""
    if "config" not in metadata:
        raise ConfigError("it carries no configuration")
    facts = json.loads(metadata["config"])
    lists = {name: tuple(value) for name, value in facts.items() if isinstance(value, list)}
    return ModelConfig(**{**facts, **lists})


def _with_weights(config: ModelConfig, tensors: dict[str, torch.Tensor], name: str) -> Transformer:
    with torch.device("meta"):
        model = Transformer(config)
    try:
        model.load_state_dict(tensors, assign=True)
    except RuntimeError as error:
        first = str(error).splitlines()[1].strip() if "\n" in str(error) else str(error)
        raise CheckpointError(f"The checkpoint {name} does not fit its own configuration: {first}") from None
    return model.eval().requires_grad_(False)


def shipped_config(name: str) -> ModelConfig:
    """The configuration of a shipped checkpoint, without reading its weights."""
    with safe_open(FOLDER / f"{name}.safetensors", "pt") as file:
        return replace(config_from_metadata(file.metadata() or {}), name=name)
