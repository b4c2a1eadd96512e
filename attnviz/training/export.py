"""A finished run to what ships: float16 safetensors, scores, and the model card with its plot."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import torch
from safetensors.torch import save_file

from attnviz.modules import Transformer


def save_checkpoint(model: Transformer, path: Path) -> str:
    """Weights in float16 with the configuration as metadata; returns the file's sha256."""
    tensors = {name: p.detach().to("cpu", torch.float16).contiguous() for name, p in model.named_parameters()}
    save_file(tensors, path, {"config": json.dumps(model.config.to_dict())})
    return hashlib.sha256(path.read_bytes()).hexdigest()
