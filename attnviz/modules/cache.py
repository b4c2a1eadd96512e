"""The KV cache of one attention layer, and the state of a linear one.

B batch, T new tokens, S tokens so far, K KV heads, D head_dim.

This file needs only torch.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor


class KVCache:
    """Keys and values of the tokens so far, owned by the caller that decodes, not by the attention module.

    GQA caches k and v, each (B, K, S, D): 2 · K · D numbers per token. MLA caches its latent (B, S, kv_lora_rank)
    and its RoPE key (B, S, qk_rope_head_dim). New tokens are appended to buffers whose capacity doubles when they
    are full: S appends copy fewer than 2 · S old tokens. Written in place: no gradients.
    """

    def __init__(self) -> None:
        self.buffers: tuple[Tensor, ...] = ()  # (..., capacity in tokens, width) each
        self.length = 0  # S

    def append(self, *new: Tensor) -> tuple[Tensor, ...]:
        """Append the new tokens' tensors, (..., T, width) each, and return those of all tokens, (..., S, width).

        ValueError if the number of tensors changes.
        """
        if self.buffers and len(new) != len(self.buffers):
            raise ValueError(f"append() was given {len(self.buffers)} tensors before, and {len(new)} now")
        stop = self.length + new[0].shape[-2]
        if not self.buffers or stop > self.buffers[0].shape[-2]:
            self._make_room(max(2 * self.length, stop), new)
        for buffer, fresh in zip(self.buffers, new, strict=True):
            buffer.narrow(-2, self.length, stop - self.length).copy_(fresh)
        self.length = stop
        return self.tensors

    def cut(self, length: int) -> None:
        """Truncate to the first `length` tokens; the next append overwrites the others."""
        if not 0 <= length <= self.length:
            raise ValueError(f"length must be from 0 to {self.length}, the tokens cached, not {length}")
        self.length = length

    def copied(self, length: int) -> KVCache | None:
        """Return a cache with copies of the first `length` tokens."""
        copy = type(self)()
        copy.append(*(t.narrow(-2, 0, length) for t in self.tensors))
        return copy

    def mark(self) -> Any:
        """Return what `back_to` needs to return to the tokens cached now."""
        return self.length

    def back_to(self, mark: Any) -> None:
        """Forget all tokens since `mark`."""
        self.cut(mark)

    def nbytes_of(self, length: int) -> int:
        """Return the bytes of the first `length` tokens."""
        return sum(t.narrow(-2, 0, length).nbytes for t in self.tensors)

    def _make_room(self, room: int, like: tuple[Tensor, ...]) -> None:
        """Copy the cached tensors to buffers with room for this many tokens."""
        old = self.tensors
        self.buffers = tuple(t.new_empty(*t.shape[:-2], room, t.shape[-1]) for t in like)
        for buffer, cached in zip(self.buffers, old, strict=False):
            buffer.narrow(-2, 0, self.length).copy_(cached)

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """The cached tensors, (..., S, width) each: views of the buffers."""
        return tuple(buffer.narrow(-2, 0, self.length) for buffer in self.buffers)

    def __len__(self) -> int:
        """Return the number of cached tokens, S."""
        return self.length

    @property
    def nbytes(self) -> int:
        """Size of the cached tensors in bytes."""
        return sum(t.numel() * t.element_size() for t in self.tensors)

    @property
    def reserved_bytes(self) -> int:
        """Size of the buffers in bytes, unused capacity included."""
        return sum(buffer.untyped_storage().nbytes() for buffer in self.buffers)


class StateCache:
    """What a linear layer keeps of the tokens so far, owned by the caller that decodes; it does not grow.

    The state (B, H, D, V) and the last inputs of the layer's convolution (B, taps, channels). Earlier states are not
    kept, so it cannot be cut.
    """

    def __init__(self) -> None:
        self.state: Tensor | None = None
        self.inputs: Tensor | None = None
        self.length = 0

    def update(self, state: Tensor, inputs: Tensor, n_tokens: int) -> None:
        """Replace state and inputs by those after n_tokens more."""
        self.state, self.inputs, self.length = state, inputs, self.length + n_tokens

    def copied(self, length: int) -> StateCache | None:
        """Return a cache with the same state; None for fewer tokens, whose state is not kept."""
        if length != self.length:
            return None
        copy = StateCache()
        copy.state, copy.inputs, copy.length = self.state, self.inputs, self.length  # replaced, never written to
        return copy

    def mark(self) -> Any:
        """Return what `back_to` needs to return to the state as it is now."""
        return self.state, self.inputs, self.length

    def back_to(self, mark: Any) -> None:
        """Return to the state of `mark`."""
        self.state, self.inputs, self.length = mark

    def nbytes_of(self, length: int) -> int:
        """Return the bytes of the state, whatever the number of tokens."""
        return self.nbytes

    def cut(self, length: int) -> None:
        """Forget nothing or everything. ValueError for a length between: the state after it is not kept."""
        if length not in (0, self.length):
            raise ValueError(f"length must be 0 or {self.length}, the tokens read: a state holds no earlier one")
        if not length:
            self.state, self.inputs, self.length = None, None, 0

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """The state and the convolution's inputs."""
        return tuple(t for t in (self.state, self.inputs) if t is not None)

    def __len__(self) -> int:
        """Return the number of tokens read."""
        return self.length

    @property
    def nbytes(self) -> int:
        """Size of the state and the inputs in bytes."""
        return sum(t.numel() * t.element_size() for t in self.tensors)

    @property
    def reserved_bytes(self) -> int:
        """The same: nothing is kept in reserve."""
        return self.nbytes
