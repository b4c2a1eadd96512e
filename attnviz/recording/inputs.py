"""What a model of transformers is given: ids of a text with their labels, a picture in patches, or sound.

T tokens; a batch holds tensors of one text.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer as Backend
from torch import nn

from attnviz import checks
from attnviz.characters import labels_of
from attnviz.phrases import count
from attnviz.recording import pictures
from attnviz.runs.arrays import RunError
from attnviz.text import Tokenizer

Batch = dict[str, Any]
SOUND = ("input_features", "input_values")


@dataclass(frozen=True)
class Inputs:
    """The arguments of a model's forward, and what is known of its tokens."""

    batch: Batch
    ids: list[int] | None = None  # None: not a text
    picture: np.ndarray | None = None  # (height, width, 3), as the model saw it, if the image processor is known

    @property
    def n_tokens(self) -> int | None:
        return None if self.ids is None else len(self.ids)

    @property
    def size(self) -> tuple[int, int] | None:
        """Height and width of a picture; None for anything else."""
        pixels = self.batch.get("pixel_values") if self.ids is None else None
        return (pixels.shape[2], pixels.shape[3]) if pixels is not None and pixels.dim() == 4 else None


def read(model: Any, tokenizer: Any, given: Any) -> Inputs:
    """Return what the model is given for a text, a pair of texts, a chat, a picture, sound, ids or a batch of one."""
    main = model.main_input_name
    if isinstance(given, Mapping):
        batch = dict(given)
    elif main == "pixel_values":
        batch = dict(_processor(tokenizer, "image processor")(images=pictures.opened(given), return_tensors="pt"))
    elif main in SOUND:
        processor = _processor(tokenizer, "feature extractor")
        rate = getattr(processor, "feature_extractor", processor).sampling_rate
        batch = dict(processor(given, sampling_rate=rate, return_tensors="pt"))
    else:
        batch = _tokenized(tokenizer, given)
    batch = _trimmed({name: _placed(model, name, each) for name, each in batch.items()})
    if "token_type_ids" in batch and "token_type_ids" not in inspect.signature(model.forward).parameters:
        del batch["token_type_ids"]  # of one text they are all 0
    if main not in batch:
        raise RunError(f"{type(model).__name__} reads {main}; the batch has {', '.join(batch) or 'nothing'}")
    images = getattr(tokenizer, "image_processor", tokenizer)
    if main == "pixel_values" and batch[main].dim() == 4 and hasattr(images, "image_mean"):
        return Inputs(batch, picture=pictures.seen(batch[main][0].float().cpu().numpy(), images))
    if "input_ids" not in batch:
        return Inputs(batch)
    ids = batch["input_ids"][0].tolist()
    check_ids(model, tokenizer, ids)
    return Inputs(batch, ids)


def _tokenized(tokenizer: Any, given: Any) -> Batch:
    """Return the ids of a text, of a pair of texts, of a chat's messages, or of ids themselves."""
    pair = isinstance(given, tuple) and len(given) == 2 and all(isinstance(each, str) for each in given)
    if isinstance(given, str) or pair:
        texts = given if pair else (given,)
        return dict(tokenizer_of(tokenizer)(*map(well_formed, texts), return_tensors="pt"))
    if isinstance(given, list) and given and all(isinstance(each, Mapping) for each in given):
        chat = dict(add_generation_prompt=True, return_dict=True, return_tensors="pt")
        return dict(tokenizer_of(tokenizer).apply_chat_template(given, **chat))
    if isinstance(given, list | tuple) and any(isinstance(each, str) for each in given):
        raise RunError(f"one text at a time, not a list of {len(given)}; a pair of texts is a tuple (first, second)")
    try:
        ids = torch.as_tensor(given)
    except (TypeError, ValueError, RuntimeError):
        ids = torch.empty(0)
    if ids.dtype not in (torch.int64, torch.int32) or ids.dim() not in (1, 2):
        raise RunError(f"a text is a string, ids or a batch of one text, not {checks.shown(given)}")
    return {"input_ids": ids[None] if ids.dim() == 1 else ids}


def well_formed(text: str) -> str:
    """Return the text with unpaired surrogates, which are not characters, as U+FFFD."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def tokenizer_of(tokenizer: Any) -> Any:
    """Return a tokenizer of transformers; one of the library tokenizers is wrapped."""
    if isinstance(tokenizer, Backend):
        from transformers import PreTrainedTokenizerFast

        return PreTrainedTokenizerFast(tokenizer_object=tokenizer)
    return getattr(_processor(tokenizer, "tokenizer"), "tokenizer", tokenizer)  # of a processor


def _processor(given: Any, wanted: str) -> Any:
    """Return what makes a model's inputs of a text, picture or sound; RunError for anything else."""
    if not callable(given):
        raise RunError(
            f"the model's {wanted} makes its input, not {checks.shown(given)}; without it, give a batch of tensors"
        )
    return given


def _placed(model: Any, name: str, given: Any) -> Any:
    """Return a tensor of one text on the model's device, numbers of pictures and sound in the model's type."""
    tensor = torch.as_tensor(given) if isinstance(given, list | np.ndarray) else given
    if not isinstance(tensor, torch.Tensor):
        return tensor
    if tensor.dim() == 1 and name.endswith(("_ids", "_mask")):  # a tokenizer's lists
        tensor = tensor[None]  # (1, T)
    if tensor.dim() and tensor.shape[0] != 1:
        raise RunError(
            f"{name} has the shape {tuple(tensor.shape)}, a batch of {tensor.shape[0]}; run takes a batch of one"
        )
    return tensor.to(model.device, model.dtype if tensor.is_floating_point() else tensor.dtype)


def _trimmed(batch: Batch) -> Batch:
    """Return a batch without padding before and after the text."""
    mask = batch.get("attention_mask")
    if "input_ids" not in batch or mask is None or mask.dim() != 2 or bool(mask.all()):
        return batch
    seen = mask[0].nonzero()[:, 0]
    if not len(seen) or len(seen) != seen[-1] - seen[0] + 1:
        raise RunError("attention_mask hides tokens between others; take them out of the text")
    text = slice(int(seen[0]), int(seen[-1]) + 1)
    return {name: each[:, text] if getattr(each, "shape", None) == mask.shape else each for name, each in batch.items()}


# ---- what a model cannot read


def check_ids(model: Any, tokenizer: Any, ids: Sequence[int]) -> None:
    """Raise RunError for ids without a row in the embedding, and for more tokens than a model has positions."""
    if not ids:
        raise RunError("the text has no tokens")
    check_rows(model, tokenizer, ids)
    check_length(model, len(ids))


def check_rows(model: Any, tokenizer: Any, ids: Sequence[int]) -> None:
    """Raise RunError for ids without a row in the embedding of a model, or of its decoder."""
    rows = getattr(model.get_input_embeddings(), "num_embeddings", None)
    for i in (min(ids), max(ids)):
        if i < 0:
            raise RunError(f"{i:,} is no token's id")
        if rows is not None and i >= rows:
            raise RunError(f"the token {labels(tokenizer, [i])[0]} has the id {i:,}, but the model's embedding has "
                           f"{rows:,} rows: the tokenizer is another model's")  # fmt: skip


def check_length(model: Any, n: int) -> None:
    """Raise RunError for more tokens than a model has positions."""
    if (most := positions(model)) is not None and n > most:
        raise RunError(f"{count(n, 'token')} are too many: the model has embeddings for {most:,} positions")


def positions(model: Any) -> int | None:
    """Return for how many positions of a text a model has learned embeddings, None if it has none.

    They are beside the tokens' embedding; those of a picture are beside none.
    """
    found = []
    for module in model.modules():
        tables = {name: each for name, each in module.named_children() if isinstance(each, nn.Embedding)}
        of_positions = [each for name, each in tables.items() if "position" in name or name == "wpe"]
        if len(of_positions) < len(tables):
            found += [each.num_embeddings - _offset(each) for each in of_positions]
    return min(found, default=None)


def _offset(table: nn.Embedding) -> int:
    """Return how many of a table's first rows are of no position."""
    return getattr(table, "offset", 0 if table.padding_idx is None else table.padding_idx + 1)


# ---- labels


def labels(tokenizer: Any, ids: Sequence[int]) -> list[str]:
    """Return a printable label per token, as `attnviz.text` makes them; ids alone without a tokenizer."""
    tokenizer = getattr(tokenizer, "tokenizer", tokenizer)  # of a processor
    backend = tokenizer if isinstance(tokenizer, Backend) else getattr(tokenizer, "backend_tokenizer", None)
    if isinstance(backend, Backend):
        return Tokenizer(backend).labels([*ids])
    if not hasattr(tokenizer, "convert_ids_to_tokens"):
        return [f"id {i}" for i in ids]
    pieces = tokenizer.convert_ids_to_tokens([*ids])
    return labels_of([str(piece).replace("▁", " ").encode("utf-8", "replace") for piece in pieces])
