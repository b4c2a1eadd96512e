"""Run both versions of a model whose layers keep a state, in one of the forms of its rule, and describe the difference.

B batch, T tokens, H value heads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attnviz.config import ModelConfig
from attnviz.mistakes.mistake import CannotOccur, Symptom
from attnviz.mistakes.runs import Metric, Pass, loss_metric, maps, run
from attnviz.mistakes.versions import Version
from attnviz.modules import AttentionRecord, Transformer
from attnviz.steps.forms import InForm

NO_STATE = "It needs a layer whose state is updated by the gated delta rule, and this model caches keys and values."
Said = Callable[[AttentionRecord, AttentionRecord, int], str]  # (right, wrong, head) -> about the layer that is drawn


class Measured(NamedTuple):
    """A number of the head that is drawn, in place of the loss."""

    measure: str
    of: Callable[[AttentionRecord, int], float]  # (record of its layer, head) -> the number


def why_not(config: ModelConfig) -> str:
    """Return why a mistake in the gated delta rule does not show in this model, "" if it does."""
    return "" if _with_state(config) else NO_STATE


def _with_state(config: ModelConfig) -> list[int]:
    return [i for i, layer in enumerate(config.layers) if layer.mixer.state()]


def symptom(
    right: Version, wrong: Version, model: Transformer, ids: list[int], said: Said, form: Mapping[str, Any],
    measured: Measured | None = None,
) -> Symptom:  # fmt: skip
    """Compare the loss on this text, or what is `measured`, and a head's effective weights.

    form: recurrent=True, or a size of chunks; nothing for chunks of the module's size.
    """
    layers = _with_state(model.config)
    if not layers:
        raise CannotOccur(NO_STATE)
    a, b = (_run(each, model, ids, layers, form) for each in (right, wrong))
    drawn, metric = maps(a, b, layers=layers), loss_metric(a.logits, b.logits, ids)
    layer, head = drawn["layer"], drawn["head"]
    sentence = f"In layer {layer}, head {head}, {said(a.records[layer], b.records[layer], head)} {metric.sentence}"
    if measured:
        before, after = (measured.of(each.records[layer], head) for each in (a, b))
        metric = Metric(measured.measure, before, after, sentence)
    return Symptom(
        **drawn, measure=metric.measure, expected=metric.expected, number=metric.number, sentence=sentence
    )  # fmt: skip


def _run(version: Version, model: Transformer, ids: list[int], layers: list[int], form: Mapping[str, Any]) -> Pass:
    """Run a version with these layers in this form; their maps are those of the version's own rule."""
    own = version.like(model)
    found = run(own.with_attentions({i: InForm(own.blocks[i].attn, **form) for i in layers}), ids)
    delta = version.module("modules.delta")
    rule = delta.gated_delta_rule if "recurrent" in form else partial(delta.chunked_gated_delta_rule, **form)
    own_maps = {i: _map_of(rule, found.records[i]) for i in layers}
    return found._replace(weights=[own_maps.get(i, each) for i, each in enumerate(found.weights)])


def _map_of(rule: Callable[..., tuple[Tensor, Tensor]], record: AttentionRecord) -> Tensor:
    """Return the effective weights (B, H, T, T) of a rule, mistaken or not: its output for one-hot values."""
    B, H, T, _ = record.q.shape
    keys = record.k.repeat_interleave(H // record.k.shape[1], 1)  # (B, H, T, D)
    one_hot = torch.eye(T).expand(B, H, T, T)
    return rule(record.q, keys, one_hot, record.own["decay"], record.own["beta"], scale=record.scale)[0]
