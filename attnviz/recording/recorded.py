"""One run of a model of transformers, from what it is given to an `AttentionRun`."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from attnviz.phrases import count
from attnviz.recording import inputs, layers, pictures, vectors
from attnviz.recording.eager import Recorder, TooLarge, left_as_it_was, recorded
from attnviz.recording.inputs import Inputs
from attnviz.recording.returned import Weights, weights_of
from attnviz.recording.sizes import limit, planned, refuse_large
from attnviz.recording.written import complete, output_from
from attnviz.runs.arrays import RunError
from attnviz.runs.run import AttentionRun, run_of


def recorded_run(
    model: Any,
    tokenizer: Any,
    given: Any,
    target: str | Sequence[int] | None,
    generate: int,
    *,
    qkv: bool,
    logits: bool,
    max_bytes: int,
    title: str | None,
) -> AttentionRun:
    """Run the model once on all tokens, those that it writes too; arguments as for `attnviz.run`."""
    with left_as_it_was(model), torch.no_grad():
        read = inputs.read(model, tokenizer, given)
        refuse_large(planned(model, read, generate, logits), max_bytes)
        whole = complete(model, tokenizer, read, target, generate)
        refuse_large(planned(model, whole, 0, logits), max_bytes)
        with recorded(model, max_bytes, qkv) as recorder:
            outputs = _outputs(model, whole, recorder, logits)
        weights, notes = weights_of(model, whole, outputs)
        parts = [
            _picture(model, whole, weights),
            layers.about(model, weights, recorder),
            vectors.about(model, weights, recorder) if qkv else {},
            _logits(model, weights, outputs) if logits else {},
        ]
        notes += [note for part in parts for note in part.pop("notes", [])]
        tokens = _tokens(tokenizer, whole, weights, parts[0].pop("tokens", None))
        facts = {name: value for part in parts for name, value in part.items()}
        first_written = output_from(model, read, whole, target)
        title = _title(model) if title is None else title
        return run_of(weights, tokens, **facts, output_from=first_written, title=title, notes=tuple(notes))


def _outputs(model: Any, given: Inputs, recorder: Recorder, logits: bool) -> Any:
    """Run the model once on all tokens."""
    taken = inspect.signature(model.forward).parameters
    takes_any = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in taken.values())
    options: dict[str, Any] = {
        name: True for name in ("output_attentions", "return_dict") if takes_any or name in taken
    }
    options |= {"use_cache": False} if "use_cache" in taken else {}
    options |= {"logits_to_keep": 1} if "logits_to_keep" in taken and not logits else {}  # 0 would be all of them
    try:
        return model(**given.batch, **options)
    except TooLarge:
        raise RunError(f"the weights take more than allowed; {limit(recorder.max_bytes)}") from None


def _tokens(tokenizer: Any, given: Inputs, weights: Weights, patches: list[str] | None) -> dict[str, list[str]]:
    """Label the tokens of each text; those of a picture are its patches, those of sound are numbered."""
    labels = patches if given.ids is None else inputs.labels(tokenizer, given.ids)
    if labels is None:
        labels = [str(i) for i in range(1, _n_read(weights) + 1)]
    decoder_ids = given.batch.get("decoder_input_ids")
    if decoder_ids is None:
        return {"self": labels, "encoder": labels}
    return {"encoder": labels, "decoder": inputs.labels(tokenizer, decoder_ids[0].tolist())}


def _n_read(weights: Weights) -> int:
    """Return how many tokens a model reads: the keys of its first text."""
    return next(weights[kind][0].shape[3] for kind in ("self", "encoder", "cross") if kind in weights)


def _picture(model: Any, given: Inputs, weights: Weights) -> dict[str, Any]:
    """Return a picture, how it is cut into patches, and their names."""
    if given.size is None:
        return {}
    n = _n_read(weights)
    config = pictures.config_of(model)
    grid = pictures.patches(config, given.size)
    before = grid and pictures.names_before(config, n - grid[0] * grid[1])
    if grid is None or before is None:
        return {"notes": [f"The {count(n, 'token')} are not the picture's patches, so the picture is left out."]}
    names = [f"{row},{column}" for row in range(1, grid[0] + 1) for column in range(1, grid[1] + 1)]
    return {"picture": given.picture, "patches": grid, "n_before": len(before), "tokens": [*before, *names]}


def _logits(model: Any, weights: Weights, outputs: Any) -> dict[str, Any]:
    """Return the logits (T, vocabulary), or say that there are none for each token."""
    logits = getattr(outputs, "logits", None)
    lengths = {layers[0].shape[2] for layers in weights.values()}
    if logits is None or logits.dim() != 3 or logits.shape[1] not in lengths:
        return {"notes": [f"{type(model).__name__} returns no logits for each token."]}
    return {"logits": logits[0]}


def _title(model: Any) -> str:
    """Return the model's name on the hub, or that of its folder or class."""
    name = getattr(model.config, "name_or_path", "") or type(model).__name__
    return Path(name).name if Path(name).is_absolute() or Path(name).is_dir() else name
