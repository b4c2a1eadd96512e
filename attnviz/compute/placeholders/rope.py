"""Placeholders: RoPE and its scaling."""

from __future__ import annotations

import math

import numpy as np

from attnviz.compute.placeholders.registry import placeholder
from attnviz.compute.view import View
from attnviz.figures.rope import three_digits


def _frequencies(view: View) -> np.ndarray:
    from attnviz.compute import rope

    return rope.frequencies(view)


@placeholder
def n_pairs(view: View) -> str:
    """Pairs of dimensions that RoPE rotates."""
    return str(len(_frequencies(view)))


@placeholder
def theta(view: View) -> str:
    """RoPE's base, rope_theta."""
    from attnviz.compute import rope

    return f"{rope.rotated(view).rope_theta:,.0f}"


@placeholder
def shortest_wavelength(view: View) -> str:
    """The wavelength of the fastest pair, in tokens."""
    return three_digits(2 * math.pi / float(_frequencies(view).max()))


@placeholder
def longest_wavelength(view: View) -> str:
    """The wavelength of the slowest pair, in tokens."""
    return three_digits(2 * math.pi / float(_frequencies(view).min()))


@placeholder
def n_turning(view: View) -> str:
    """Pairs that complete a turn within the text."""
    turns = (len(view.ids) - 1) * _frequencies(view) / (2 * math.pi)
    return str(int((turns >= 1).sum()))


@placeholder
def pair(view: View) -> str:
    """The selected pair."""
    from attnviz.compute import rope

    return str(rope.pair_of(view))


@placeholder
def degrees(view: View) -> str:
    """The degrees that the selected pair rotates per token."""
    from attnviz.compute import rope

    return f"{three_digits(math.degrees(float(_frequencies(view)[rope.pair_of(view)])))}°"


@placeholder
def trained_tokens(view: View) -> str:
    """Tokens of a training row."""
    from attnviz.compute import rope

    return str(rope.trained_on(view))


@placeholder
def factor(view: View) -> str:
    """The scaling factor: extended context ÷ training context."""
    return f"{view.settings.factor:g}"


def _long_losses(view: View, late: bool = True) -> dict[str | None, float]:
    """Return the loss within or beyond the training context of a long text by scaling method; None: without scaling."""
    from attnviz.compute import rope

    trained = rope.trained_on(view)
    ids, _ = rope.long_ids(view, trained)
    methods, _ = rope.scalings(view, view.settings.factor, "")
    part = slice(trained, None) if late else slice(trained)
    losses = rope.losses(view, ids, methods)
    return {name if methods[name] else None: float(np.mean(each[part])) for name, each in losses.items()}


@placeholder
def early_loss(view: View) -> str:
    """The loss without scaling, in nats per token, of the tokens within the training context of a long text."""
    return f"{_long_losses(view, late=False)[None]:.2f}"


@placeholder
def late_loss(view: View) -> str:
    """The loss without scaling, in nats per token, of the tokens beyond the training context of a long text."""
    return f"{_long_losses(view)[None]:.2f}"


@placeholder
def late_loss_scaled(view: View) -> str:
    """The same with the scaling method that gets the lowest loss."""
    return f"{min(loss for name, loss in _long_losses(view).items() if name):.2f}"


@placeholder
def best_scaling(view: View) -> str:
    """The name of this method."""
    losses = _long_losses(view)
    return min(filter(None, losses), key=losses.__getitem__)
