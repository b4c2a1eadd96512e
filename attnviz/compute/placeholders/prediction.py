"""Placeholders: the next token that the model predicts."""

from __future__ import annotations

import numpy as np

from attnviz.compute.placeholders.registry import MISSING, percent, placeholder
from attnviz.compute.view import View
from attnviz.figures.drawing import quoted


def _odds(view: View, at: int = -1) -> np.ndarray:
    from attnviz.compute import steps

    return steps.odds_of(view, view.config.n_layers if at < 0 else at, view.query)


def _named(view: View, token: int) -> str:
    from attnviz.compute.heads import vocabulary

    return quoted(vocabulary(view.settings).after(view.ids[: view.query + 1])[token])


@placeholder
def prediction(view: View) -> str:
    """The most likely next token after the selected query."""
    return _named(view, int(_odds(view).argmax()))


@placeholder
def prediction_percent(view: View) -> str:
    """Its probability."""
    return percent(float(_odds(view).max()))


@placeholder
def early_prediction(view: View) -> str:
    """The most likely next token read from the embedding alone."""
    return _named(view, int(_odds(view, 0).argmax()))


@placeholder
def tile_difference(view: View) -> str:
    """The largest difference between the selected head's output by tiles and that of PyTorch's kernel."""
    from attnviz.compute import steps

    return MISSING if view.config.attention_softcap is not None else f"{steps.tiled_of(view).largest_difference:.1e}"


@placeholder
def first_layer(view: View) -> str:
    """The first layer after which the model's prediction is the most likely one: "layer 2"."""
    from attnviz.compute import steps

    best = np.asarray(steps.lens_of(view).best)[:, view.query]  # (1 + L,)
    agrees = int(np.flatnonzero(best == best[-1])[0])
    return "the embedding" if agrees == 0 else f"layer {agrees - 1}"


@placeholder
def vocab_size(view: View) -> str:
    """Tokens of the vocabulary."""
    return f"{view.config.vocab_size:,}"
