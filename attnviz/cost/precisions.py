"""Precisions of weights and caches: bits per number, and the scales that quantised numbers share."""

from __future__ import annotations

# The storage of quantised numbers is this project's assumption: integers with a 16-bit scale per block of numbers,
# without a zero point (int8 and int4 as llama.cpp's q8_0 and q4_0, the others named by their group size), fp8 with one
# scale per tensor, which is not counted (other formats have one per head or per token).
SCALE_BITS = 16
PRECISIONS = {  # name -> bits per number, numbers per scale (None: no scales that grow with the tokens)
    "fp32": (32, None),
    "bf16": (16, None),
    "fp8": (8, None),
    "int8": (8, 32),
    "int8-g64": (8, 64),
    "int4": (4, 32),
    "int4-g64": (4, 64),
    "int4-g128": (4, 128),
}


def precision_of(bits: int, block: int | None) -> str:
    """Return the name of the precision with so many bits per number and numbers per scale. KeyError if none has."""
    return {stored: name for name, stored in PRECISIONS.items()}[bits, block]


def with_its_scales(precision: str) -> str:
    """Name a precision and what else it stores: "int4 with a 16-bit scale per 32 numbers"; "bf16"."""
    bits, block = PRECISIONS[precision]
    return f"int{bits} with a {SCALE_BITS}-bit scale per {block} numbers" if block else precision


def bits_with_scales(precision: str) -> float:
    """Return the bits per number, including its share of the block's scale."""
    bits, block = PRECISIONS[precision]
    return bits + (SCALE_BITS / block if block else 0)
