"""Queries, keys and values as an attention function was given them: queries and keys after RoPE.

H query heads, K KV heads, T query tokens, S key tokens, D width of a query and of a key.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from attnviz.recording.eager import Recorder, Vectors
from attnviz.recording.returned import Weights
from attnviz.runs.kinds import CALLED

EXACT, ROUNDED = 1e-4, 0.02  # largest difference of a weight from the softmax of its score, in float32 and below


def about(model: Any, weights: Weights, recorder: Recorder) -> dict[str, Any]:
    """Return q, k and v by kind of attention; q only where q · k / √D are the scores that give the weights."""
    q, k, v, notes = {}, {}, {}, []
    for kind, layers in weights.items():
        found = [each for layer in layers if (each := recorder.vectors(layer))]
        if len(found) < len(layers):
            notes.append(f"{type(model).__name__} does not pass on the queries and keys of {CALLED[kind]}.")
            continue
        k[kind], v[kind] = [each.k for each in found], [each.v for each in found]
        other = next((i for i, each in enumerate(found) if not gives(each, layers[i])), None)
        if other is None:
            q[kind] = [_scaled(each) for each in found]
            notes += _about_scale(found)
        else:
            notes.append(f"The queries of {CALLED[kind]} are left out: in layer {other}, counted from 0, the weights "
                         f"are not the softmax of q · k / √D; {_what_is_added(model)}.")  # fmt: skip
    return {"q": q, "k": k, "v": v, "notes": list(dict.fromkeys(notes))}


def gives(vectors: Vectors, weights: torch.Tensor) -> bool:
    """Check whether the weights are the softmax of the scores, where there are any weights."""
    q, k = _scaled(vectors), vectors.k.float()
    k = k.repeat_interleave(q.shape[1] // k.shape[1], dim=1)  # (1, H, S, D)
    scores = q @ k.transpose(2, 3) / q.shape[-1] ** 0.5  # (1, H, T, S)
    expected = scores.masked_fill(weights == 0, float("-inf")).softmax(-1).nan_to_num()
    most = EXACT if weights.dtype == torch.float32 else ROUNDED
    return bool((expected - weights.float()).abs().max() <= most)


def _scaled(vectors: Vectors) -> torch.Tensor:
    """Return the queries so that q · k / √D is the score, whatever a model multiplies with."""
    return vectors.q.float() * (vectors.scale * vectors.q.shape[-1] ** 0.5)


def _what_is_added(model: Any) -> str:
    """Say what else than q · k / √D a model's weights come from, as far as its modules and configuration name it."""
    names = {name.rpartition(".")[2] for name, _ in (*model.named_modules(), *model.named_parameters())}
    if "relative_attention_bias" in names:
        return "a relative position bias is added to the scores"
    if getattr(model.config.get_text_config(decoder=True), "attn_logit_softcapping", None):
        return "the scores are capped"
    if "sinks" in names:
        return "a learned sink takes part in the softmax"
    return "a bias, a cap or a sink is added"


def _about_scale(found: Sequence[Vectors]) -> list[str]:
    other = sorted({each.scale for each in found if abs(each.scale * each.q.shape[-1] ** 0.5 - 1) > EXACT})
    scales = ", ".join(f"{each:.3g}" for each in other)
    return [f"The model scales q · k by {scales}; the queries are scaled so that it is 1 / √D."] if other else []
