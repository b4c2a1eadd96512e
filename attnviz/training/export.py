"""A finished run to what ships: float16 safetensors, scores, and the model card with its plot."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

from attnviz.modules import Transformer
from attnviz.trace import trace


def save_checkpoint(model: Transformer, path: Path) -> str:
    """Weights in float16 with the configuration as metadata; returns the file's sha256."""
    tensors = {name: p.detach().to("cpu", torch.float16).contiguous() for name, p in model.named_parameters()}
    save_file(tensors, path, {"config": json.dumps(model.config.to_dict())})
    return hashlib.sha256(path.read_bytes()).hexdigest()


def save_front_door(model: Transformer, ids: list[int], path: Path) -> None:
    """The maps the front page shows before anything heavy is imported: weights (L, H, T, T) in float16, and the ids."""
    np.savez_compressed(path, weights=trace(model, ids).weights.astype(np.float16), ids=np.asarray(ids))
