"""Bytes that attention of one head moves to and from slow memory, in fp32: written out, and in tiles."""

from __future__ import annotations

from attnviz.equations import Expression, Value, function
from attnviz.mechanisms import letter


def moved(n_tokens: int, head_dim: int, value_dim: int, block: int) -> tuple[Expression, Expression]:
    """Return the bytes with the full score matrix and with tiles: q and k are D wide, v and the output V."""
    T, B = letter("T", n_tokens, "tokens"), Value(block, "Bₜ", "keys and queries per tile", latex="B_t")
    D, V = letter("D", head_dim, "width of a query and a key"), letter("V", value_dim, "width of a value")
    return (
        4 * (2 * T * D + 2 * T * V + 4 * T * T),
        4 * (T * (D + V) + T * (D + V) * function("ceil", T / B)),
    )
