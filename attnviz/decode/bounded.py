"""Caches that hold at most `limit` tokens: one then raises, the other overwrites its oldest tokens.

A sliding cache with attention-sink tokens is StreamingLLM (arXiv 2309.17453). B batch, T new tokens, K KV heads,
D head_dim, P rotated dimensions.
"""

from __future__ import annotations

import torch
from torch import Tensor

from attnviz.checks import whole
from attnviz.modules import KVCache, Rope, StateCache, Transformer, apply_rope


class CacheFull(Exception):
    """The cache has no room for the next token. Nothing was written."""


class LimitedCache(KVCache):
    """A cache that raises CacheFull when the limit would be exceeded."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.limit = limit

    def append(self, *new: Tensor) -> tuple[Tensor, ...]:
        """Append like `KVCache`. CacheFull if the new tokens do not fit."""
        if len(self) + new[0].shape[-2] > self.limit:
            raise CacheFull(f"the cache holds {len(self)} of at most {self.limit} tokens")
        return super().append(*new)


class SlidingCache:
    """A ring buffer: the first `n_sinks` tokens are preserved, and a new token overwrites the oldest of the others.

    Keys arrive rotated by RoPE at their position in the text, so a key in the window has the same distance to the query
    as in the text. A sink does not: with `rope` it is rotated further by the number of dropped tokens, so that it is
    just before the window, as if positions were counted inside the cache (the paper caches pre-RoPE keys and rotates
    all of them in each step; rotations add up, so rotating only the sinks gives the same scores). With rope=None, sinks
    keep their positions in the text.
    """

    def __init__(self, limit: int, n_sinks: int = 0, rope: Rope | None = None, rotated: tuple[int, ...] = (0,)) -> None:
        """rotated: the indices of the rotated keys among the cached tensors: 0 for GQA's k, 1 for MLA's."""
        self.limit, self.n_sinks, self.rope, self.rotated = limit, n_sinks, rope, rotated
        self.buffers: tuple[Tensor, ...] = ()  # (..., limit, width) each
        self.length = 0

    def append(self, *new: Tensor) -> tuple[Tensor, ...]:
        """Write the new tokens' tensors, (..., T, width) each, and return the cached ones, (..., held, width) each.

        They are in slot order. ValueError for several tokens that do not all fit: an earlier one would miss keys that a
        later one overwrote.
        """
        n_new = new[0].shape[-2]
        if n_new > 1 and n_new > self.room:
            raise ValueError(
                f"there is room for {self.room} more tokens at once, not for {n_new}: append them one at a time"
            )
        if not self.buffers:
            self.buffers = tuple(t.new_zeros(*t.shape[:-2], self.limit, t.shape[-1]) for t in new)
        first = self.slot(self.length)
        for buffer, fresh in zip(self.buffers, new, strict=True):
            buffer[..., first : first + n_new, :] = fresh
        self.length += n_new
        return tuple(self._with_shifted_sinks(t) if i in self.rotated else t for i, t in enumerate(self.tensors))

    def slot(self, position: int) -> int:
        """Return the slot of the token at this position in the text."""
        if position < self.limit:
            return position
        return self.n_sinks + (position - self.n_sinks) % (self.limit - self.n_sinks)

    def _with_shifted_sinks(self, keys: Tensor) -> Tensor:
        """Rotate the sinks' keys by the number of dropped tokens; keys (..., held, D)."""
        if self.rope is None or not self.n_sinks or not self.dropped:
            return keys
        sinks, window = keys[..., : self.n_sinks, :], keys[..., self.n_sinks :, :]
        shift = torch.full((self.n_sinks,), self.dropped)
        return torch.cat((apply_rope(sinks, shift, self.rope.frequencies, self.rope.layout), window), dim=-2)

    @property
    def positions(self) -> list[int]:
        """The text position of the token in each slot."""
        held = [*range(min(self.n_sinks, self.length)), *range(self.n_sinks + self.dropped, self.length)]
        return sorted(held, key=self.slot)

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """The cached tensors, (..., held, width) each, as they were written."""
        return tuple(buffer[..., : self.length, :] for buffer in self.buffers)

    @property
    def dropped(self) -> int:
        """The number of overwritten tokens."""
        return max(0, self.length - self.limit)

    @property
    def room(self) -> int:
        """The number of tokens that fit before one is overwritten."""
        return max(0, self.limit - self.length)

    def __len__(self) -> int:
        """Return the number of tokens so far, including dropped ones: the position of the next token."""
        return self.length

    @property
    def nbytes(self) -> int:
        """The size of the cached tensors in bytes."""
        return sum(t.numel() * t.element_size() for t in self.tensors)


def limited_cache(model: Transformer, limit: int) -> list:
    """Create a cache per layer that is full after `limit` tokens; a state never is."""
    whole("limit", limit)
    return [StateCache() if layer.mixer.state() else LimitedCache(limit) for layer in model.config.layers]


def sliding_cache(model: Transformer, limit: int, n_sinks: int = 0, positions_in_cache: bool = True) -> list:
    """Create a sliding cache per layer that preserves the first `n_sinks` tokens as sinks; a state is what it is.

    positions_in_cache: as in StreamingLLM; otherwise sinks keep their positions in the text. ValueError for a model
    with a sliding window, or whose RoPE frequencies depend on the length of the text.
    """
    whole("limit", limit)
    whole("n_sinks", n_sinks, low=0, high=limit - 1)
    if windows := model.config.windows:
        raise ValueError(f"the model already has a sliding window of {windows[0]} tokens")
    caches: list = []
    for i, layer in enumerate(model.config.layers):
        if layer.mixer.state():
            caches.append(StateCache())
            continue
        rope, longer = model.rope(i, 1), model.rope(i, 10**6)
        if rope is not None and longer is not None and not torch.equal(rope.frequencies, longer.frequencies):
            raise ValueError(
                "the model's RoPE frequencies depend on the length of the text: cached keys would be wrong"
            )
        rotated = layer.mixer.rotated_tensors
        caches.append(SlidingCache(limit, n_sinks, rope if positions_in_cache else None, rotated))
    return caches
