"""How large a run becomes, from the configuration of the model, before it runs."""

from __future__ import annotations

from typing import Any

from attnviz.phrases import count
from attnviz.recording.inputs import Inputs
from attnviz.recording.pictures import config_of, patches
from attnviz.recording.written import reads_and_writes
from attnviz.runs.arrays import RunError


def planned(model: Any, inputs: Inputs, n_more: int, logits: bool) -> list[tuple[str, int]]:
    """Return what the run will take, in words and in bytes, where the configuration tells it."""
    n_read, n_written = _lengths(model, inputs, n_more)
    if n_read is None:
        return []
    decoder, two = _sizes(model, decoder=True), reads_and_writes(model)
    parts = [_weights(_sizes(model, encoder=True) if two else decoder, n_read, n_read)]
    if two:
        parts += [_weights(decoder, n_written, n_written), _weights(decoder, n_written, n_read)]
    vocabulary = getattr(model.config.get_text_config(decoder=True), "vocab_size", None)
    if logits and isinstance(vocabulary, int):
        n = n_written if two else n_read
        parts.append((f"{n:,} × {vocabulary:,} logits", 4 * n * vocabulary))
    return [part for part in parts if part is not None]


def _weights(sizes: tuple[int, int] | None, n_queries: int, n_keys: int) -> tuple[str, int] | None:
    if sizes is None:
        return None
    n_layers, n_heads = sizes
    words = f"{count(n_layers, 'layer')} × {count(n_heads, 'head')} × {n_queries:,} × {n_keys:,} weights"
    return words, 4 * n_layers * n_heads * n_queries * n_keys


def _lengths(model: Any, inputs: Inputs, n_more: int) -> tuple[int | None, int]:
    """Return how many tokens a model reads, with those that it adds, and how many its decoder has."""
    two = reads_and_writes(model)
    n_read = inputs.n_tokens
    if inputs.size is not None and (grid := patches(config_of(model), inputs.size)):
        n_read = grid[0] * grid[1]
    decoder_ids = inputs.batch.get("decoder_input_ids")
    n_written = n_more + 1 if decoder_ids is None else decoder_ids.shape[1]
    return n_read if n_read is None or two else n_read + n_more, n_written


def _sizes(model: Any, **side: bool) -> tuple[int, int] | None:
    """Return the layers and heads of a side of a model, None where the configuration does not tell."""
    config = model.config.get_text_config(**side)
    sizes = getattr(config, "num_hidden_layers", None), getattr(config, "num_attention_heads", None)
    return sizes if all(isinstance(each, int) for each in sizes) else None  # type: ignore[return-value]


def refuse_large(planned: list[tuple[str, int]], max_bytes: int) -> None:
    """Raise RunError if a run takes more bytes than allowed."""
    nbytes = sum(each for _, each in planned)
    if nbytes > max_bytes:
        largest = max(planned, key=lambda each: each[1])[0]
        raise RunError(f"the run takes {_in_words(nbytes)}, most of it for {largest}; {limit(max_bytes)}")


def limit(max_bytes: int) -> str:
    """Say what the limit is, and what to do."""
    return f"max_bytes is {_in_words(max_bytes)}: shorten the text, or give a larger max_bytes"


def _in_words(nbytes: int) -> str:
    return f"{nbytes / 1e9:,.3g} GB" if nbytes >= 1e9 else f"{nbytes / 1e6:,.3g} MB"
