"""The text that a model writes: what it adds to the text it was given, or the text of its decoder.

T tokens.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import nn

from attnviz import checks
from attnviz.recording.inputs import Inputs, check_length, check_rows, tokenizer_of, well_formed
from attnviz.runs.arrays import RunError

MAX_WRITTEN = 32  # tokens, of an encoder-decoder without a target


def reads_and_writes(model: Any) -> bool:
    """Check for an encoder and a decoder, each with a text of its own."""
    return bool(model.config.is_encoder_decoder) and "decoder_input_ids" in inspect.signature(model.forward).parameters


def complete(model: Any, tokenizer: Any, read: Inputs, target: str | Sequence[int] | None, generate: int) -> Inputs:
    """Return the inputs with what the model adds to the text, or with the text of its decoder."""
    if not reads_and_writes(model):
        if target is not None:
            raise RunError(f"target is the text of a decoder; {type(model).__name__} has one text")
        return _continued(model, read, generate) if generate else read
    if "decoder_input_ids" in read.batch:
        return read
    if target is not None and generate:
        raise RunError("target says what the decoder reads, generate lets it write: give one of them")
    if target is not None:
        return _with_target(model, tokenizer, read, target)
    if not model.can_generate():
        raise RunError(f"{type(model).__name__} reads one text and writes another: give the other as target=…")
    return _continued(model, read, generate or MAX_WRITTEN)


def output_from(model: Any, read: Inputs, complete: Inputs, target: str | Sequence[int] | None) -> int | None:
    """Return from which token on the model wrote itself; of an encoder-decoder, in the decoder's text."""
    if complete is read or target is not None:
        return None
    return 1 if reads_and_writes(model) else read.n_tokens  # 1: after the token that a decoder begins with


def _with_target(model: Any, tokenizer: Any, inputs: Inputs, target: str | Sequence[int]) -> Inputs:
    """Return the inputs with the target shifted by the start token, as in training: row i predicts token i + 1.

    Its end token has no row, since nothing follows it; a target without one keeps all its tokens.
    """
    if isinstance(target, str):
        target = tokenizer_of(tokenizer)(text_target=well_formed(target))["input_ids"]
    ids = _ids_of(target).to(model.device)  # (1, T)
    decoder = model.get_decoder() if hasattr(model, "get_decoder") else model
    check_rows(decoder if hasattr(decoder, "get_input_embeddings") else model, tokenizer, ids[0].tolist())
    shifted = _shifted(model, ids)  # (1, T)
    lost = int(ids[0, -1])
    if lost not in _end_tokens(model, tokenizer) and lost != int(shifted[0, 0]):  # MBART moves its last to the front
        shifted = _shifted(model, torch.cat([ids, ids[:, -1:]], 1))  # (1, T + 1): the added one is the one that is lost
    check_length(model, shifted.shape[1])
    return replace(inputs, batch=inputs.batch | {"decoder_input_ids": shifted})


def _ids_of(target: Any) -> torch.Tensor:
    """Return ids (1, T) of one text, also from a batch of one; RunError for anything else."""
    try:
        ids = torch.as_tensor(target if isinstance(target, torch.Tensor | np.ndarray) else [*target])
    except (TypeError, ValueError) as error:
        raise RunError(f"target is a text or the ids of its tokens, not {checks.shown(target)}") from error
    if not ids.numel():
        raise RunError("the target has no tokens")
    if ids.dim() > 2 or ids.numel() != ids.shape[-1] or ids.is_floating_point():
        raise RunError(f"target is the ids of one text; it has the shape {tuple(ids.shape)} and the type {ids.dtype}")
    return ids.reshape(1, -1)  # (1, T)


def _shifted(model: Any, ids: torch.Tensor) -> torch.Tensor:
    """Return ids (1, T) after the start token and without the last one."""
    told = getattr(model.config, "decoder_start_token_id", None) is not None
    if told and hasattr(model, "prepare_decoder_input_ids_from_labels"):
        return model.prepare_decoder_input_ids_from_labels(labels=ids)
    return torch.cat([ids.new_full((1, 1), _start_token(model)), ids[:, :-1]], 1)


def _end_tokens(model: Any, tokenizer: Any) -> set[int]:
    """Return the ids that end a text."""
    places = [getattr(model, "generation_config", None), model.config, tokenizer]
    found = [getattr(place, name, None) for place in places for name in ("eos_token_id", "pad_token_id")]
    found.append(getattr(tokenizer, "sep_token_id", None))
    return {i for each in found for i in (each if isinstance(each, list | tuple) else [each]) if isinstance(i, int)}


def _start_token(model: Any) -> int:
    """Return the id with which a decoder begins: without one of its own, BOS, and without that, padding, as in T5."""
    places = [getattr(model, "generation_config", None), model.config, model.config.get_text_config(decoder=True)]
    for name in ("decoder_start_token_id", "bos_token_id", "pad_token_id"):
        for place in places:
            if isinstance(found := getattr(place, name, None), int):
                return found
    raise RunError(f"{type(model).__name__} names no token to begin with: set model.config.decoder_start_token_id")


def _continued(model: Any, inputs: Inputs, n: int) -> Inputs:
    """Return the inputs with up to n tokens that the model writes, each the most probable one."""
    if not (hasattr(model, "can_generate") and model.can_generate()):
        raise RunError(f"{type(model).__name__} has no generate: load the model with its language head, "
                       "such as AutoModelForCausalLM")  # fmt: skip
    check_length(model, n + (1 if reads_and_writes(model) else inputs.n_tokens or 0))
    end = model.generation_config.eos_token_id
    pad = model.generation_config.pad_token_id
    pad = pad if pad is not None else end[0] if isinstance(end, list) else end
    options = dict(max_new_tokens=n, do_sample=False, num_beams=1, pad_token_id=pad)
    if reads_and_writes(model):  # no cache: transformers makes it as deep as the encoder
        options |= {"decoder_start_token_id": _start_token(model), "use_cache": False}
    written = model.generate(**inputs.batch, **options, return_dict_in_generate=True).sequences  # (1, T)
    if reads_and_writes(model):
        return replace(inputs, batch=inputs.batch | {"decoder_input_ids": written})
    fitting = {name: _extended(each, written) for name, each in inputs.batch.items() if name != "position_ids"}
    fitting |= {"input_ids": written, "attention_mask": torch.ones_like(written)}
    return replace(inputs, batch=fitting, ids=written[0].tolist())


def _extended(given: Any, written: torch.Tensor) -> Any:
    """Return a tensor with a number per token, such as token_type_ids, with zeros for the written ones."""
    if not isinstance(given, torch.Tensor) or given.dim() != 2 or given.shape[1] > written.shape[1]:
        return given
    return nn.functional.pad(given, (0, written.shape[1] - given.shape[1]))
