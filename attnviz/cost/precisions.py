"""Precisions of weights and caches: bits per number, and the scales that quantised numbers share."""

from __future__ import annotations

# The storage of quantised numbers is this project's assumption: int4 with a 16-bit scale per 32 numbers (as in
# llama.cpp's q4_0; other formats share a scale over 64 or 128 numbers, or add a zero point), fp8 with one scale per
# tensor, which is not counted (other formats have one per head or per token).
SCALE_BITS = 16
PRECISIONS = {  # name -> bits per number, numbers per scale (None: no scales that grow with the tokens)
    "fp32": (32, None),
    "bf16": (16, None),
    "fp8": (8, None),
    "int4": (4, 32),
}


def bits_with_scales(precision: str) -> float:
    """Return the bits per number, including its share of the block's scale."""
    bits, block = PRECISIONS[precision]
    return bits + (SCALE_BITS / block if block else 0)
