"""The equation of a head's map of weights, as LaTeX, as plain text, and what its letters mean."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from attnviz.mechanisms import Mixer


def softmax_of(mixer: Mixer, head: int, shape: tuple[int, ...], masked: bool = True) -> tuple[str, str, str]:
    """Return the equation of a head's weights (T, S) as LaTeX and as plain text, and its letters.

    masked: some cell is, so that the mask M is a term.
    """
    mask, end = (" + M", "; M: 0, or −∞ where masked.") if masked else ("", ".")
    letters = f"{_letters(mixer, head, *shape)}{end}"
    return _weights_formula(mixer, head, mask), _weights_line(mixer, head, mask), letters


def _weights_formula(mixer: Mixer, head: int, mask: str) -> str:
    q, k = f"Q_{{{head}}}", f"K_{{{mixer.kv_head_of[head]}}}"
    inside = mixer.scored(rf"\tfrac{{{q} {k}^\top}}{{\sqrt{{{_root_letter(mixer)}}}}}", tex=True)
    return rf"A = \mathrm{{softmax}}\left({inside}{mask}\right)"


def _root_letter(mixer: Mixer) -> str:
    return "D" if mixer.score_root == mixer.head_dim else "n"


def _weights_line(mixer: Mixer, head: int, mask: str) -> str:
    """Return the same formula as plain text."""
    inside = mixer.scored(f"Q{low(head)} K{low(mixer.kv_head_of[head])}ᵀ / √{_root_letter(mixer)}")
    return f"A = softmax({inside}{mask})"


def _letters(mixer: Mixer, head: int, T: int, S: int) -> str:
    kv_head, D = mixer.kv_head_of[head], mixer.head_dim
    q, k = f"Q{low(head)}", f"K{low(kv_head)}"
    keys = mixer.keys_read(kv_head)
    if mixer.keys_known:
        keys = f"keys of {keys}" if mixer.shares_kv_heads else f"expanded {mixer.keys_read(head)}"
    root = f"D = {D}: head_dim"
    if mixer.score_root != D:
        root = f"n = {mixer.score_root:g}: query_pre_attn_scalar"
    added = f"; {letters}" if (letters := mixer.score_letters()) else ""
    return f"A: the {T} × {S} weights; {q}: queries of head {head}; {k}: {keys}; {root}{added}"


def low(n: int | str) -> str:
    """Format a whole number as a subscript."""
    return str(n).translate(str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉"))
