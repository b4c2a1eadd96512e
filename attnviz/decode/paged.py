"""A paged KV cache, as in PagedAttention (arXiv 2309.06180).

All sequences allocate blocks of `block_size` tokens from one pool. A sequence's block table lists the block of its
tokens 0 to block_size - 1, that of the next ones, and so on. Sequences with a common prefix share blocks until one of
them writes into a shared block: it then gets its own copy (copy-on-write). vLLM's kernel reads the blocks in place;
here they are gathered in each step, which gives the same numbers. Sequences have batch size 1.
"""

from __future__ import annotations

from collections.abc import Collection

import torch
from torch import Tensor

from attnviz.checks import whole
from attnviz.modules import StateCache, Transformer


class OutOfBlocks(Exception):
    """Every block of the pool is in use. Nothing was written."""


class BlockPool:
    """The blocks that all sequences share. A block has the same number in each layer."""

    def __init__(self, n_layers: int, n_blocks: int, block_size: int, states: Collection[int] = ()) -> None:
        """states: the layers that have a state instead of blocks."""
        whole("n_blocks", n_blocks)
        whole("block_size", block_size)
        self.n_blocks, self.block_size = n_blocks, block_size
        self.users = [0] * n_blocks  # sequences whose table names the block
        self.copied: dict[int, int] = {}  # block in use that is a copy -> the block it was copied from
        self.states = frozenset(states)
        self.layers: list[tuple[Tensor, ...]] = [()] * n_layers  # per layer tensors (n_blocks, ..., block_size, width)

    def take(self) -> int:
        """Allocate a free block to one sequence and return its number."""
        if 0 not in self.users:
            raise OutOfBlocks(f"all {self.n_blocks} blocks are in use")
        block = self.users.index(0)
        self.users[block] = 1
        self.copied.pop(block, None)
        return block

    def take_copy(self, block: int) -> int:
        """Copy a shared block for one sequence (copy-on-write) and release its reference to the original."""
        copy = self.take()
        self.users[block] -= 1
        self.copied[copy] = block
        for tensors in self.layers:
            for tensor in tensors:
                tensor[copy] = tensor[block]
        return copy

    @property
    def n_used(self) -> int:
        """The number of blocks in use; a shared block counts once."""
        return sum(users > 0 for users in self.users)

    @property
    def block_bytes(self) -> int:
        """The size of one block over all layers, in bytes."""
        return sum(t[0].numel() * t.element_size() for tensors in self.layers for t in tensors)


class PagedSequence:
    """A sequence: its block table, and a cache per layer to pass to the model: blocks, or a state of its own."""

    def __init__(self, pool: BlockPool, table: list[int] | None = None, length: int = 0) -> None:
        self.pool, self.table = pool, table or []
        self.cache: list = [
            StateCache() if layer in pool.states else PagedLayer(self, layer, length)
            for layer in range(len(pool.layers))
        ]

    def fork(self) -> PagedSequence:
        """Create another sequence with the same tokens, without copying blocks."""
        for block in self.table:
            self.pool.users[block] += 1
        other = PagedSequence(self.pool, list(self.table), len(self))
        for layer in self.pool.states:
            other.cache[layer] = self.cache[layer].copied(len(self))
        return other

    def free(self) -> None:
        """Release the blocks; those that no other sequence uses become free."""
        for block in self.table:
            self.pool.users[block] -= 1
        self.table, self.cache = [], PagedSequence(self.pool).cache

    def prepare(self, start: int, stop: int) -> None:
        """Allocate or copy the blocks of tokens start to stop - 1, so that they can be written. Raises OutOfBlocks."""
        size = self.pool.block_size
        blocks = range(start // size, -(-stop // size))
        shared = [i for i in blocks if i < len(self.table) and self.pool.users[self.table[i]] > 1]
        missing = max(0, blocks.stop - len(self.table))
        if len(shared) + missing > self.pool.n_blocks - self.pool.n_used:
            free = self.pool.n_blocks - self.pool.n_used
            raise OutOfBlocks(f"{len(shared) + missing} more blocks are needed, but only {free} are free")
        for i in shared:
            self.table[i] = self.pool.take_copy(self.table[i])
        self.table += [self.pool.take() for _ in range(missing)]

    def __len__(self) -> int:
        return len(self.cache[0])


class PagedLayer:
    """The cache of one layer of one sequence."""

    def __init__(self, sequence: PagedSequence, layer: int, length: int) -> None:
        self.sequence, self.layer, self.length = sequence, layer, length

    def append(self, *new: Tensor) -> tuple[Tensor, ...]:
        """Write the new tokens' tensors, (1, ..., T, width) each, into the blocks; return those of all tokens."""
        if new[0].shape[0] != 1:
            raise ValueError(f"a paged sequence has batch size 1, not {new[0].shape[0]}: use one sequence per text")
        pool, start, stop = self.sequence.pool, self.length, self.length + new[0].shape[-2]
        if stop > start:
            self.sequence.prepare(start, stop)  # the first layer allocates the blocks for all layers
        if not pool.layers[self.layer]:
            size = pool.n_blocks, pool.block_size
            pool.layers[self.layer] = tuple(t.new_zeros(size[0], *t.shape[1:-2], size[1], t.shape[-1]) for t in new)
        for position in range(start, stop):
            block, slot = self.sequence.table[position // pool.block_size], position % pool.block_size
            for tensor, fresh in zip(pool.layers[self.layer], new, strict=True):
                tensor[block, ..., slot, :] = fresh[0, ..., position - start, :]
        self.length = stop
        return self.gathered()

    def gathered(self) -> tuple[Tensor, ...]:
        """Concatenate the blocks in the order of the table: (1, ..., S, width) each."""
        table = torch.tensor(self.sequence.table, dtype=torch.long)
        blocks = [tensor[table] for tensor in self.sequence.pool.layers[self.layer]]  # (blocks, ..., block_size, width)
        return tuple(b.movedim(0, -3).flatten(-3, -2)[None, ..., : self.length, :] for b in blocks)

    def __len__(self) -> int:
        return self.length


def paged_pool(model: Transformer, n_blocks: int, block_size: int = 16) -> BlockPool:
    """Create an empty pool for this model; pass `PagedSequence(pool).cache` to the model."""
    states = [i for i, layer in enumerate(model.config.layers) if layer.mixer.state()]
    return BlockPool(len(model.blocks), n_blocks, block_size, states)


def unused_slots(sequences: list[PagedSequence]) -> int:
    """Count the empty token slots in the sequences' blocks; shared blocks count once."""
    size = sequences[0].pool.block_size
    filled: dict[int, int] = {}  # block -> tokens in it
    for sequence in sequences:
        for i, block in enumerate(sequence.table):
            filled[block] = max(filled.get(block, 0), min(size, len(sequence) - i * size))
    return sum(size - n for n in filled.values())


def unused_slots_if_reserved(sequences: list[PagedSequence], n_reserved: int) -> int:
    """Count the empty slots if each sequence reserved n_reserved tokens instead."""
    return sum(n_reserved - len(sequence) for sequence in sequences)
