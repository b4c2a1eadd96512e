"""A KV cache quantised to 8 or 4 bits, with one scale per vector.

Each cached vector of width W (the key or value of one KV head and token; MLA's latent or RoPE key of one token) is
stored as integers from -m to m, m = 127 or 7, and one float16 scale = largest |number| / m. Symmetric, without zero
point; two 4-bit numbers share a byte.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from attnviz.checks import one_of
from attnviz.modules import KVCache, StateCache, Transformer

LARGEST = {8: 127, 4: 7}  # bits -> m


def quantise(x: Tensor, bits: int) -> tuple[Tensor, Tensor]:
    """Quantise x (..., W) to integers, int8 (..., W) or two per byte (..., ceil(W / 2)), and scales (..., 1)."""
    largest = LARGEST[bits]
    scale = (x.abs().amax(-1, keepdim=True) / largest).half()  # (..., 1)
    exact = scale.to(x.dtype).clamp(min=torch.finfo(torch.float16).tiny)  # a vector of zeros has scale 0
    numbers = (x / exact).round().clamp(-largest, largest).to(torch.int8)
    return (pack(numbers) if bits == 4 else numbers), scale


def dequantise(numbers: Tensor, scale: Tensor, width: int, bits: int, dtype: torch.dtype) -> Tensor:
    """Compute numbers · scale, (..., width)."""
    numbers = unpack(numbers, width) if bits == 4 else numbers
    return numbers.to(dtype) * scale.to(dtype)


def pack(numbers: Tensor) -> Tensor:
    """Pack two numbers from -8 to 7 into a byte: int8 (..., W) -> uint8 (..., ceil(W / 2))."""
    nibbles = F.pad(numbers + 8, (0, numbers.shape[-1] % 2)).to(torch.uint8)  # 0 to 15
    return nibbles[..., 0::2] | nibbles[..., 1::2] << 4


def unpack(packed: Tensor, width: int) -> Tensor:
    """Unpack two numbers per byte: uint8 (..., ceil(W / 2)) -> int8 (..., W)."""
    pairs = torch.stack((packed & 15, packed >> 4), dim=-1)  # (..., ceil(W / 2), 2)
    return pairs.flatten(-2)[..., :width].to(torch.int8) - 8


class QuantisedCache:
    """A cache that stores tensors in 8 or 4 bits and returns them dequantised."""

    def __init__(self, bits: int) -> None:
        one_of("bits", bits, tuple(LARGEST))
        self.bits = bits
        self.stored = KVCache()  # numbers, scale, numbers, scale

    def append(self, *new: Tensor) -> tuple[Tensor, ...]:
        """Quantise and store the new tokens' tensors, (..., T, W) each; return those of all tokens, dequantised."""
        stored = self.stored.append(*(part for tensor in new for part in quantise(tensor, self.bits)))
        pairs = zip(stored[0::2], stored[1::2], new, strict=True)
        return tuple(dequantise(numbers, scale, t.shape[-1], self.bits, t.dtype) for numbers, scale, t in pairs)

    def cut(self, length: int) -> None:
        """Keep the first `length` tokens."""
        self.stored.cut(length)

    def __len__(self) -> int:
        return len(self.stored)

    @property
    def nbytes(self) -> int:
        """The size of the integers and scales in bytes."""
        return self.stored.nbytes


def quantised_cache(model: Transformer, bits: int) -> list:
    """Create a cache per layer that is quantised to 8 or 4 bits; a state stays in full precision."""
    return [StateCache() if layer.mixer.state() else QuantisedCache(bits) for layer in model.config.layers]
