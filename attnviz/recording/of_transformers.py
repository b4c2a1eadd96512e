"""The attention of a model of transformers on a text or a picture: `attnviz.run(model, tokenizer, text)`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attnviz import checks
from attnviz.runs.arrays import RunError
from attnviz.runs.run import AttentionRun

MAX_BYTES = 4_000_000_000


def run(
    model: Any,
    tokenizer: Any,
    text: Any,
    *,
    target: str | Sequence[int] | None = None,
    generate: int = 0,
    qkv: bool = False,
    logits: bool = False,
    max_bytes: int = MAX_BYTES,
    title: str | None = None,
) -> AttentionRun:
    """Run a model of transformers on a text, and return its attention; ValueError, in a sentence, if it cannot.

    The model runs with eager attention, in evaluation mode and without gradients, and is left as it was.

    tokenizer: the model's; for a vision transformer its image processor; for sound its processor.
    text: a string, a pair of strings, a chat's messages, ids, or what the tokenizer returned for one text; for a vision
    transformer a picture (of Pillow, numpy, or a file's path); for sound an array.
    target: what the decoder of an encoder-decoder reads; without it the decoder writes up to `generate` or 32 tokens.
    generate: how many tokens the model adds to the text at most, each the most probable one.
    qkv: also queries and keys as they are multiplied (after RoPE), and values.
    logits: also the logits of each token.
    max_bytes: the largest size of the weights, as float32; larger runs are refused before they start.
    """
    model = getattr(model, "_orig_mod", model)  # of a compiled model, the model itself
    if not hasattr(model, "set_attn_implementation"):
        raise RunError(f"run takes a model of transformers, not a {type(model).__name__}; for your own model, "
                       "give its weights to attnviz.show(attention, tokens)")  # fmt: skip
    checks.whole("generate", generate, 0)

    from attnviz.recording.recorded import recorded_run  # imports torch

    return recorded_run(
        model, tokenizer, text, target, generate, qkv=qkv, logits=logits, max_bytes=max_bytes, title=title
    )
