"""What a recorded run is compared with."""

from __future__ import annotations

import numpy as np
import torch

from tests.recording import models

TEXT = "The little girl 床 found a red ball."
TARGET = "A red ball."


def returned(model, **batch):
    """Return what transformers returns for a copy of the model with eager attention."""
    with torch.no_grad():
        return models.eager_copy(model)(**batch, output_attentions=True)


def differences(kind, expected) -> list[float]:
    assert kind.n_layers == len(expected) and [layer.dtype for layer in kind.layers] == [np.float32] * kind.n_layers
    return [float(np.abs(layer - each[0].numpy()).max()) for layer, each in zip(kind.layers, expected, strict=True)]


def softmax(scores: np.ndarray) -> np.ndarray:
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)
