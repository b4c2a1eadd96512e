"""Placeholders: the selected head, query and key."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from attnviz.compute.placeholders.registry import percent, placeholder
from attnviz.compute.view import View
from attnviz.figures.drawing import quoted
from attnviz.figures.numbers import printed

if TYPE_CHECKING:
    from attnviz.analysis.roles import Role


def _weights(view: View) -> np.ndarray:
    """Return the selected query's weights, (S,)."""
    return view.trace.weights[(*view.layer_and_head, view.query)]


def _scores(view: View) -> np.ndarray:
    """Return the selected query's scaled scores, before mask and softmax, (S,)."""
    return view.trace.scores_of(*view.layer_and_head)[view.query]


def _allowed(view: View) -> np.ndarray:
    """Return which keys the selected query may attend to, (S,) bool."""
    return view.trace.allowed[view.layer_and_head[0], view.query]


@placeholder
def head(view: View) -> str:
    """The selected head: "layer 1, head 3"."""
    layer, head = view.layer_and_head
    return f"layer {layer}, head {head}"


@placeholder
def kv_head(view: View) -> str:
    """The KV head that the selected head reads."""
    return f"KV {view.config.layer.kv_head_of[view.layer_and_head[1]]}"


@placeholder
def query(view: View) -> str:
    """The selected query: position and token."""
    return f"{view.query} {quoted(view.labels[view.query])}"


@placeholder
def key(view: View) -> str:
    """The selected key, by default the strongest: position and token."""
    return f"{view.key} {quoted(view.labels[view.key])}"


@placeholder
def distance(view: View) -> str:
    """Tokens from the key to the query."""
    return str(view.query - view.key)


@placeholder
def weight(view: View) -> str:
    """The weight of the selected query on the selected key."""
    return printed(float(_weights(view)[view.key]))


@placeholder
def weight_percent(view: View) -> str:
    """The same as a percentage."""
    return percent(float(_weights(view)[view.key]))


@placeholder
def score(view: View) -> str:
    """The scaled score of the selected query and key, before mask and softmax."""
    return printed(float(_scores(view)[view.key]))


@placeholder
def exp_score(view: View) -> str:
    """e to the power of this score."""
    return f"{np.exp(_scores(view)[view.key], dtype=np.float64):.4g}"


@placeholder
def exp_sum(view: View) -> str:
    """The sum over the keys that are not masked of e to the power of their scores: what the softmax divides by."""
    return f"{np.exp(_scores(view)[_allowed(view)], dtype=np.float64).sum():.4g}"


@placeholder
def next_score(view: View) -> str:
    """The largest score among the query's other keys."""
    others = _allowed(view).copy()
    others[view.key] = False
    return printed(float(_scores(view)[others].max(initial=-np.inf)))


@placeholder
def next_weight(view: View) -> str:
    """The largest weight among the query's other keys."""
    return printed(float(np.delete(_weights(view), view.key).max(initial=0)))


@placeholder
def n_allowed(view: View) -> str:
    """Keys that the selected query may attend to."""
    return str(int(_allowed(view).sum()))


@placeholder
def n_masked(view: View) -> str:
    """Keys that are masked for the selected query."""
    return str(int((~_allowed(view)).sum()))


@placeholder
def uniform(view: View) -> str:
    """The weight of each allowed key if all were the same."""
    return printed(1 / int(_allowed(view).sum()))


@placeholder
def sqrt_head_dim(view: View) -> str:
    """What q·k is divided by: √head_dim, or what the model has in its place."""
    return f"{math.sqrt(view.config.score_root):.2f}"


def _role(view: View) -> Role:
    """Return the selected head's role on the probes."""
    from attnviz.compute import heads

    layer, head = view.layer_and_head
    return heads.roles_of(view.settings)[layer][head]


@placeholder
def role(view: View) -> str:
    """The selected head's role on the probes."""
    return _role(view).name


@placeholder
def role_share(view: View) -> str:
    """The share of weight on the keys that this role names, on the probes; the normalised entropy of a broad head."""
    score = _role(view).score
    return "no share" if score is None else f"{score:.2f}"


@placeholder
def n_roles(view: View) -> str:
    """Heads with a clear role on the probes."""
    from attnviz.analysis.roles import NO_ROLE
    from attnviz.compute import heads

    return str(sum(role.name != NO_ROLE for layer in heads.roles_of(view.settings) for role in layer))


@placeholder
def first_token(view: View) -> str:
    """The mean weight of the selected head on the first token, over the queries after it."""
    return percent(float(view.trace.weights[(*view.layer_and_head, slice(1, None), 0)].mean()))
