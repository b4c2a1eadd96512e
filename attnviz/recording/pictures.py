"""Pictures as a vision transformer reads them: what it saw, and how that is cut into patches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np


def opened(picture: Any) -> Any:
    """Return the picture of a file as RGB; anything else as it is."""
    if not isinstance(picture, str | Path):
        return picture
    from PIL import Image

    with Image.open(picture) as file:
        return file.convert("RGB")


def seen(pixels: np.ndarray, processor: Any) -> np.ndarray:
    """Return what a model saw, resized and cropped, as (height, width, 3) of bytes.

    pixels: (channels, height, width), as the image processor normalised them.
    """
    if getattr(processor, "do_normalize", False):
        mean, std = ([*np.atleast_1d(each)] for each in (processor.image_mean, processor.image_std))
        pixels = pixels * np.reshape(std, (-1, 1, 1)) + np.reshape(mean, (-1, 1, 1))
    if not getattr(processor, "do_rescale", True):
        pixels = pixels / 255
    shown = np.broadcast_to(pixels, (3, *pixels.shape[1:])) if len(pixels) == 1 else pixels[:3]
    return np.rint(shown.clip(0, 1) * 255).astype(np.uint8).transpose(1, 2, 0)


def config_of(model: Any) -> Any:
    """Return the configuration of what reads the picture: of a model with two sides, that of its encoder."""
    config = model.config
    return getattr(config, "encoder", None) or getattr(config, "vision_config", None) or config


def patches(config: Any, size: tuple[int, int]) -> tuple[int, int] | None:
    """Return how many rows and columns of patches a picture of (height, width) is cut into; None if unknown."""
    side = getattr(config, "patch_size", None)
    height, width = side if isinstance(side, list | tuple) and len(side) == 2 else (side, side)
    if not isinstance(height, int) or not isinstance(width, int):
        return None
    return size[0] // height, size[1] // width


def names_before(config: Any, n: int) -> list[str] | None:
    """Name the n tokens before the patches: class token, distillation token, registers; None if they are others."""
    n_registers = getattr(config, "num_register_tokens", 0)
    classes = ["[CLS]", "[DIST]"][: n - n_registers]
    if getattr(config, "num_detection_tokens", 0) or n - n_registers not in (0, 1, 2):  # detection tokens come after
        return None
    return [*classes, *(f"[REG {i}]" for i in range(1, n_registers + 1))]
