"""Evaluation of a checkpoint on held-out text."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from attnviz.modules import Recording, Transformer
from attnviz.text import Tokenizer

CONTEXT, STRIDE = 256, 64


@torch.inference_mode()
def bits_per_character(model: Transformer, tokenizer: Tokenizer, text: str) -> float:
    """Return bits per character over the whole text, read in windows of CONTEXT tokens that move by STRIDE.

    Each token is predicted once, from at least CONTEXT - STRIDE tokens before it (fewer only at the start).
    """
    ids = torch.tensor(tokenizer.encode(text))
    nats, done = 0.0, 1
    for start in range(0, max(1, len(ids) - CONTEXT + STRIDE), STRIDE):
        window = ids[start : start + CONTEXT + 1]
        losses = F.cross_entropy(model(window[None, :-1])[0], window[1:], reduction="none")  # of ids[start + 1 : …]
        new = losses[done - start - 1 :]
        nats, done = nats + new.double().sum().item(), done + len(new)
    return nats / math.log(2) / len(text)


@torch.inference_mode()
def repetition_scores(model: Transformer, segments: Tensor) -> dict[str, float]:
    """Score segments (N, L), each repeated once: the loss on both copies and the best induction head.

    induction: the best head's mean weight from each token of the second copy to the token after its earlier
    occurrence. gain: loss of the first copy minus loss of the second, in nats per token.
    """
    length = segments.shape[1]
    ids = torch.cat((segments, segments), dim=1)  # (N, 2L)
    record = Recording()
    logits = model(ids, record=record)
    losses = F.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten(), reduction="none").view(len(ids), -1)
    first, second = losses[:, : length - 1].mean().item(), losses[:, length:].mean().item()
    query = torch.arange(length, 2 * length - 1)
    heads = [w[:, :, query, query - length + 1].mean((0, 2)) for w in _attention(model, record)]  # (H,) per layer
    layer, head, score = _best(heads)
    return {"first": first, "second": second, "gain": first - second, "induction": score, "layer": layer, "head": head}


@torch.inference_mode()
def previous_token(model: Transformer, ids: Tensor) -> dict[str, float]:
    """Find the head with the largest mean weight on the previous token, for ids (N, T)."""
    record = Recording()
    model(ids, record=record)
    heads = [w.diagonal(-1, 2, 3).mean((0, 2)) for w in _attention(model, record)]
    layer, head, score = _best(heads)
    return {"previous_token": score, "layer": layer, "head": head}


def _attention(model: Transformer, record: Recording) -> list[Tensor]:
    """Return the weights (N, H, T, T) of each layer that attends; 0 in others, whose effective weights are not."""
    layers = zip(record, model.config.layers, strict=True)
    return [r.weights if layer.mixer.attends else torch.zeros_like(r.weights) for r, layer in layers]


def _best(heads: list[Tensor]) -> tuple[int, int, float]:
    scores = torch.stack(heads)  # (n_layers, H)
    layer, head = divmod(int(scores.argmax()), scores.shape[1])
    return layer, head, scores.max().item()


def passages(ids: Tensor, n: int, length: int) -> Tensor:
    """Return n passages spread evenly over the text: (n, length)."""
    starts = torch.linspace(0, len(ids) - length, n).long()
    return ids[starts[:, None] + torch.arange(length)]


def evaluate(model: Transformer, tokenizer: Tokenizer, text: str) -> dict:
    """Return all scores of the model card, as nested plain numbers."""
    ids = torch.tensor(tokenizer.encode(text))
    random = torch.randint(tokenizer.vocab_size, (128, 40), generator=torch.Generator().manual_seed(0))
    return {
        "bits_per_character": bits_per_character(model, tokenizer, text),
        "previous_token": previous_token(model, passages(ids, 32, 128)),
        "repeated_text": repetition_scores(model, passages(ids, 128, 40)),
        "repeated_random": repetition_scores(model, random),
    }
