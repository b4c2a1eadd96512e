"""Run the right and the mistaken version of a model on one text, and describe the difference.

B batch, L layers, H heads, T tokens, S key tokens, V vocab_size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnviz.mechanisms import Mixer
from attnviz.mistakes.mistake import CannotOccur
from attnviz.mistakes.usage import token_positions
from attnviz.modules import AttentionRecord, Recording, Transformer
from attnviz.modules.embedding import PositionEmbedding
from attnviz.modules.shallow import with_own_parts

CHANGED = 1e-3  # a larger difference counts as a changed weight
ROUNDING = 1e-4  # a smaller change, as a share of the largest number, is rounding: float32 has seven digits
N_PADDING = 3  # tokens of padding on the left
PADDING_ID = 0  # token id of the padding; it is masked, so any id would do
DECODED = 8  # number of tokens decoded one at a time with the cache, after the prefill


class Pass(NamedTuple):
    """The results of one run."""

    logits: Tensor  # (B, T, V)
    weights: list[Tensor]  # L of (B, H, T, S)
    records: list[AttentionRecord]  # of the last call of the model, L
    mixers: list[Mixer]  # L

    @property
    def softmax_layer(self) -> int:
        """The first layer that attends by a softmax, where scores and rows of weights are measured."""
        return next((i for i, mixer in enumerate(self.mixers) if mixer.attends), 0)


class Metric(NamedTuple):
    """The metric that reveals a mistake, and a sentence about it."""

    measure: str
    expected: float
    number: float
    sentence: str


def run(model: Transformer, ids: Sequence[int], mask: Tensor | None = None) -> Pass:
    """Run the model on a text in one pass."""
    record = Recording()
    logits = model(torch.tensor([list(ids)]), mask=mask, record=record)
    return Pass(logits, [each.weights for each in record], list(record), _mixers(model))


def _mixers(model: Transformer) -> list[Mixer]:
    return [layer.mixer for layer in model.config.layers]


def run_padded(model: Transformer, ids: Sequence[int], mask: Tensor, vectors: Tensor | None = None) -> Pass:
    """Run the model on a text with N_PADDING tokens before it. mask: broadcastable to (1, H, T, T), T = all tokens.

    vectors: of absolute positions, (1, T, C). By default the model's learned ones, counted from the text.
    """
    if vectors is None and model.config.position == "learned":
        vectors = model.embed.positions[token_positions(is_token(len(ids)))]
    model = model if vectors is None else with_positions(model, vectors)
    return run(model, [PADDING_ID] * N_PADDING + list(ids), mask)


def is_token(n_tokens: int) -> Tensor:
    """Return a bool tensor (1, N_PADDING + n_tokens) that is False for padding."""
    return torch.arange(N_PADDING + n_tokens)[None] >= N_PADDING


class WithPositions(nn.Module):
    """A token embedding with the vectors of chosen positions, (1, T, C), added instead of its own."""

    def __init__(self, embed: nn.Embedding, vectors: Tensor) -> None:
        super().__init__()
        self.embed, self.weight, self.vectors = embed, embed.weight, vectors

    def forward(self, ids: Tensor, start: int = 0) -> Tensor:
        """Map ids (1, T) to (1, T, C)."""
        learned = isinstance(self.embed, PositionEmbedding)
        tokens = nn.Embedding.forward(self.embed, ids) if learned else self.embed(ids)
        return tokens + self.vectors  # (1, T, C)


def with_positions(model: Transformer, vectors: Tensor) -> Transformer:
    """Return the model with these vectors of positions, (1, T, C), added to its token embeddings."""
    other = with_own_parts(model)
    other.embed = WithPositions(model.embed, vectors)
    return other


def decode(model: Transformer, ids: Sequence[int]) -> Pass:
    """Run a text through a cache: prefill, then the last DECODED tokens one at a time (at most T - 1)."""
    if not model.config.causal:
        raise CannotOccur("This model is not causal, so it does not decode with a cache.")
    n_first = len(ids) - min(DECODED, len(ids) - 1)
    cache, logits, rows = model.new_cache(), [], []
    for piece in (list(ids[:n_first]), *([i] for i in ids[n_first:])):
        record = Recording()
        logits.append(model(torch.tensor([piece]), cache=cache, record=record))
        rows.append([F.pad(each.weights, (0, len(ids) - each.weights.shape[-1])) for each in record])
    weights = [torch.cat(layer, dim=-2) for layer in zip(*rows, strict=True)]
    return Pass(torch.cat(logits, dim=1), weights, list(record), _mixers(model))


def maps(
    right: Pass, wrong: Pass, texts: tuple[int, int] = (0, 0), *, layers: Sequence[int] | None = None
) -> dict[str, Any]:
    """Return the `Symptom`'s maps: the head that differs most in all, in the first layer whose weights differ.

    texts: index into the batch, for the right and the mistaken run. layers: those that may be drawn, all by default.
    """
    pairs = [(a[texts[0]], b[texts[1]]) for a, b in zip(right.weights, wrong.weights, strict=True)]
    far = [(a - b).abs().nan_to_num(nan=math.inf) for a, b in pairs]  # L of (H, T, S)
    largest = {i: float(far[i].amax()) for i in layers or range(len(far))}
    layer = next((i for i, most in largest.items() if most > CHANGED), max(largest, key=largest.__getitem__))
    head = int(far[layer].sum((1, 2)).argmax())
    a, b = pairs[layer]
    signed = not right.mixers[layer].attends
    return head_map(a[head], layer, head, signed=signed) | {"wrong": array(b[head])}


def head_map(weights: Tensor, layer: int, head: int, *, signed: bool = False) -> dict[str, Any]:
    """Return the right map of a `Symptom`: the weights of one head. signed: they are effective weights."""
    picture = f"{'Effective weights' if signed else 'Weights'} of layer {layer}, head {head}"
    return {"picture": picture, "right": array(weights), "layer": layer, "head": head, "signed": signed}


def array(tensor: Tensor) -> np.ndarray:
    """Return a read-only float32 numpy copy."""
    result = tensor.float().numpy().copy()
    result.flags.writeable = False
    return result


# ---- metrics


def loss(logits: Tensor, ids: Sequence[int]) -> float:
    """Nats per token for predicting each next token from logits (1, T, V); NaN for a text of one token."""
    return F.cross_entropy(logits[0, :-1].double(), torch.tensor(list(ids[1:]), dtype=torch.long)).item()


def largest(difference: Tensor) -> float:
    """Return the largest absolute entry, or 0 for an empty tensor."""
    return float(difference.abs().max()) if difference.numel() else 0.0


def is_rounding(change: float, numbers: Tensor) -> bool:
    """Check whether a change of some of these numbers is as small as float32's rounding."""
    return change <= ROUNDING * largest(numbers)


def loss_metric(right: Tensor, wrong: Tensor, ids: Sequence[int]) -> Metric:
    """Compare the loss on this text in both versions. For one or two tokens, where at most one token is predicted,
    compare logits instead."""
    moved = largest(wrong - right)
    if len(ids) <= 2:
        sentence = f"This text is too short for a meaningful loss; its logits differ by up to {format_number(moved)}."
        return Metric("Largest change of a logit", 0.0, moved, sentence)
    before, after = loss(right, ids), loss(wrong, ids)
    return Metric(
        "Loss on this text, nats per token", before, after,
        f"The loss on this text {changes(before, after)} nats per token; "
        f"logits differ by up to {format_number(moved)}.",
    )  # fmt: skip


class Leak(NamedTuple):
    """The largest change of an earlier position's logits when the last token is replaced."""

    position: int
    amount: float  # largest change of a logit at this position


def leak(model: Transformer, ids: Sequence[int], before: Tensor) -> Leak:
    """Replace the last token and find the largest change of an earlier logit. before: logits (1, T, V), T >= 2."""
    other = [*ids[:-1], (ids[-1] + 1) % model.config.vocab_size]
    moved = (model(torch.tensor([other])) - before)[0, :-1].abs().amax(-1)  # (T - 1,)
    return Leak(int(moved.argmax()), float(moved.max()))


def leak_sentence(found: Leak, ids: Sequence[int]) -> str:
    """Describe the leak in a sentence."""
    amount = format_number(found.amount)
    return f"A logit at position {found.position} changes by {amount} when token {len(ids) - 1} changes."


# ---- numbers in sentences


def format_number(x: float) -> str:
    """Format a number for a sentence: "0", "1,024", "2.277", "6.1e−05"."""
    size = abs(x)
    if x == 0 or (size >= 1000 and size < 1e6) or (float(x).is_integer() and size < 1e6):
        text = f"{x:,.0f}"
    else:
        text = f"{x:.3f}" if 0.001 <= size < 1000 else f"{x:.1e}"
    return text.replace("-", "−")


def changes(before: float, after: float) -> str:
    """Return "rises from 2.277 to 7.412", "falls from …" or "stays at …", compared as printed."""
    if format_number(before) == format_number(after):
        return f"stays at {format_number(after)}"
    if math.isnan(after):
        return f"changes from {format_number(before)} to NaN"
    return f"{'rises' if after > before else 'falls'} from {format_number(before)} to {format_number(after)}"


def percent(share: float) -> str:
    """Format a share as "53.5%"."""
    return f"{100 * share:.1f}%"


def raised(error: Exception) -> str:
    """Format an exception as "Type: message", with at most two lines of the message."""
    lines = [line.strip() for line in str(error).strip().splitlines()[:2]]
    return f"{type(error).__name__}: {' '.join(lines)}"
