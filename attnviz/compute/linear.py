"""Computations of the Linear and sparse page: which heads are drawn, and what their layers keep, on the text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from attnviz.analysis import linear as analysis
from attnviz.compute import models
from attnviz.compute.byte_cache import ByteCache
from attnviz.compute.view import View, drawable
from attnviz.config import SHIPPED, ModelConfig
from attnviz.mechanisms import Layer

Head = tuple[int, int]  # layer, head
RESULTS = ByteCache(20_000_000)  # not the cache of traces, which these are computed from
NEAR = 4  # tokens back that count as near: as many as a short convolution mixes


@dataclass(frozen=True, eq=False)
class Implied:
    """A linear head's effective weights, and how far they are from the output that they imply."""

    weights: np.ndarray  # (T, T)
    difference: float


def is_linear(layer: Layer) -> bool:
    """Check whether a layer has a state in place of softmax attention, and a map that this implies."""
    return not layer.mixer.attends and bool(layer.mixer.maps)


def is_softmax(layer: Layer) -> bool:
    """Check whether a layer's map is a softmax over keys."""
    return layer.mixer.attends


def has(view: View, kind: Callable[[Layer], bool]) -> bool:
    """Check whether a layer of the model is of this kind."""
    return any(kind(layer) for layer in view.config.layers)


def shown_with(view: View, kind: Callable[[Layer], bool], checkpoint: str) -> View | None:
    """Return the view if its model has a layer of this kind, else that of a checkpoint on the same text.

    None for an opened model, whose tokens are others, and where the checkpoint does not run with these settings.
    """
    if has(view, kind):
        return view
    if view.settings.opened or checkpoint not in SHIPPED:
        return None
    other = view.but(model=checkpoint)
    return other if other.config_problem is None and drawable(other) and has(other, kind) else None


def heads(view: View, kind: Callable[[Layer], bool]) -> list[str]:
    """Return the names in links of the heads of this kind of layer: "1.5"."""
    return [name for name, (layer, _) in view.heads.items() if kind(view.config.layers[layer])]


def head_of(view: View, kind: Callable[[Layer], bool], chosen: str) -> Head:
    """Return the chosen head if it is of this kind of layer, else the selected one, else that of the nearest layer."""
    own = heads(view, kind)
    if chosen in own:
        return view.heads[chosen]
    layer, head = view.layer_and_head
    nearest = min({view.heads[name][0] for name in own}, key=lambda i: (abs(i - layer), i))
    return nearest, min(head, view.config.layers[nearest].mixer.n_heads - 1)


def linear_head_of(view: View) -> Head:
    """Return the linear head that is drawn: the chosen one, else that with most effective weight on distant keys."""
    chosen, (layer, head) = view.settings.linear_head, (view.settings.layer, view.settings.head)
    own = heads(view, is_linear)
    if chosen in own or f"{layer}.{head}" in own:
        return head_of(view, is_linear, chosen)
    return models.computed_once(("reaching", view.run, view.ids), lambda: _Head(_reaching(view)), RESULTS)


class _Head(tuple[int, int]):
    """A layer and a head, with the `nbytes` that a cache needs."""

    nbytes = 16


def _reaching(view: View) -> Head:
    found = [
        (float(share), -layer, -head)
        for layer, one in enumerate(view.trace.layers)
        if is_linear(view.config.layers[layer])
        for head, share in enumerate(analysis.reach(one.weights, NEAR))
    ]
    _, layer, head = max(found)
    return -layer, -head


def written_of(view: View, head: Head) -> analysis.Written:
    """Return how a linear head wrote its state on the text."""
    return models.computed_once(("written", view.run, view.ids, head), lambda: _written(view, head), RESULTS)


def _written(view: View, head: Head) -> analysis.Written:
    (_, h), one = head, view.trace.layers[head[0]]
    return analysis.Written(one.keys_of(h), one.values_of(h), one.own["decay"][h], one.own["beta"][h])


def implied_of(view: View, head: Head) -> Implied:
    """Return a linear head's effective weights, compared with the output of its rule."""
    (_, h), one = head, view.trace.layers[head[0]]
    weights = one.weights_of(h)
    return Implied(weights, analysis.implied_difference(weights, one.values_of(h), one.own["rule_output"][h]))


def after(view: View) -> int:
    """Return the token after which a state is read: the chosen one, or the last."""
    last = len(view.ids) - 1
    return last if view.settings.after < 0 else min(view.settings.after, last)


def compared(view: View) -> dict[str, ModelConfig]:
    """Return the configurations of the shipped checkpoints by name, and that of another selected model, as it runs."""
    family = (replace(view.settings, model=name) for name in SHIPPED)
    configs = {each.model_name: models.trained_config(each) for each in family if not models.problem_of(each)}
    return {name: c for name, c in configs.items() if c} | {view.settings.model_name: view.config}
