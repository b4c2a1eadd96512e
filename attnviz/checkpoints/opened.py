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
ADAPTER = "adapter_config.json"
IS_ADAPTER = (
    f"it is an adapter ({ADAPTER}) and not a whole model; merge it into its base model first, in Python with "
    "merge_and_unload() and save_pretrained()"
)
OUTPUT = "lm_head.weight"
LFS_POINTER = b"version https://git-lfs"
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
            raise ConfigError("there is no tokenizer.json, the only tokenizer file that is read. Write it in Python: "
                              "AutoTokenizer.from_pretrained(folder).save_pretrained(folder)")  # fmt: skip
        _refuse_pointer(path)
        if path.stat().st_size > MAX_JSON:
            raise ConfigError(f"tokenizer.json is larger than {MAX_JSON / 1e6:.0f} MB")
        try:
            return Tokenizer(path)
        except Exception as error:  # tokenizers raises plain Exception
            raise ConfigError(f"tokenizer.json cannot be read ({error})") from None


def weight_files(folder: Path) -> list[Path]:
    """Return a model's weight files: those named in the index, or the only one."""
    if (folder / INDEX).is_file():
        return _indexed(folder)
    if (folder / ONE_FILE).is_file():
        return [folder / ONE_FILE]
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
    except (ValueError, ArithmeticError, SafetensorError, OSError, KeyError, TypeError, AttributeError) as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise OpenError(f"The model {folder.name} cannot be opened: {reason}.") from None


def _refuse_pointer(path: Path) -> None:
    """Raise ConfigError for an empty file, and for one that a clone without Git LFS leaves in a large one's place."""
    with path.open("rb") as file:
        start = file.read(len(LFS_POINTER))
    if not start:
        raise ConfigError(f"{path.name} is empty; download it again")
    if start == LFS_POINTER:
        raise ConfigError(f"{path.name} has {path.stat().st_size:,} bytes and is only a Git LFS pointer to the file; "
                          "run git lfs pull in the folder")  # fmt: skip


def _json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise ConfigError(f"there is no {path.name}")
    _refuse_pointer(path)
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
    with torch.device("meta"):  # allocates no memory for weights that are replaced at once
        model = Transformer(config)
    found = _tensors(weight_files(folder))
    prefix = "transformer." if architecture.fused and "transformer.wte.weight" in found else ""
    names = named(config, (name for name, _ in model.named_parameters()), architecture)
    wanted = {ours: name if name.startswith("lm_head") else prefix + name for ours, name in names.items()}
    _refuse_others(set(found), set(wanted.values()))
    for ours, parameter in list(model.named_parameters()):
        theirs = wanted[ours]
        if theirs not in found:
            raise ConfigError(f"the tensor {theirs} is missing")
        tensor = _fitting(theirs, found[theirs], stored_shape(ours, tuple(parameter.shape), architecture))
        module, _, name = ours.rpartition(".")
        part = model.get_submodule(module)
        part._parameters[name] = stored(as_ours(ours, tensor, architecture, config))
    if config.tie_embeddings and OUTPUT in found:
        _refuse_another_output(found[OUTPUT], wanted["embed.weight"], found[wanted["embed.weight"]])
    return model.eval()


def _fitting(name: str, tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Return the tensor; ConfigError if it has another shape, or a type that is not computed with."""
    if tuple(tensor.shape) != shape:
        raise ConfigError(f"the tensor {name} must have the shape {shape}, not {tuple(tensor.shape)}")
    if tensor.dtype not in DTYPES:
        raise ConfigError(f"the tensor {name} must be float32, float16 or bfloat16, not {tensor.dtype}")
    return tensor


def _refuse_another_output(output: Tensor, name: str, embeddings: Tensor) -> None:
    """Raise ConfigError if the output layer of tied embeddings is stored too, and is no copy of them."""
    _fitting(OUTPUT, output, tuple(embeddings.shape))
    dtype = torch.promote_types(output.dtype, embeddings.dtype)
    if not torch.equal(output.to(dtype), embeddings.to(dtype)):
        raise ConfigError(f"tie_word_embeddings is true, but {OUTPUT} differs from {name}; set it to false in "
                          "config.json")  # fmt: skip


def _tensors(files: list[Path]) -> dict[str, Tensor]:
    """Return all tensors by name, as views of the memory-mapped files; no data is read yet."""
    found: dict[str, Tensor] = {}
    for path in files:
        _refuse_pointer(path)
        try:
            with safe_open(path, "pt") as file:
                found |= {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except SafetensorError as error:
            raise ConfigError(f"{path.name}, of {path.stat().st_size:,} bytes, is damaged or incomplete ({error}); "
                              "download it again") from None  # fmt: skip
    return found


def _refuse_others(found: set[str], wanted: set[str]) -> None:
    extra = sorted(name for name in found - wanted if not is_no_weight(name))
    if extra:
        raise ConfigError(f"the tensor {extra[0]} does not belong to this architecture")
