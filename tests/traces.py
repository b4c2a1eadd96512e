"""Traces without a model: given scores, and their softmax over the allowed keys."""

from dataclasses import dataclass

import numpy as np

from attnviz.config import ModelConfig
from attnviz.trace import LayerTrace, Trace

NONE = np.empty(0, np.float32)  # arrays that no test reads


@dataclass(frozen=True, eq=False, kw_only=True)
class Scored(LayerTrace):
    """A layer with these scores, instead of those of q and k."""

    given: np.ndarray  # (H, n, n)

    def scores_of(self, head: int) -> np.ndarray:
        return self.given[head]


def scored(config: ModelConfig, scores: np.ndarray, allowed: np.ndarray) -> Trace:
    """Return a trace with scores (L, H, n, n), under one mask (n, n)."""
    layers = []
    for layer, given in zip(config.layers, np.asarray(scores, np.float32), strict=True):
        exp = np.where(allowed, np.exp(given.astype(np.float64)), 0.0)
        weights = (exp / exp.sum(-1, keepdims=True).clip(1e-30)).astype(np.float32)
        layers.append(Scored(layer.mixer, *[NONE] * 5, weights, allowed, layer.mixer.head_dim**-0.5, given=given))
    return Trace(config, np.arange(len(allowed)), layers, NONE, 0.0)
