"""A paged cache gives the numbers of the plain one, shares the prompt's blocks and copies on write."""

import pytest
import torch

from attnviz.decode import OutOfBlocks, PagedSequence, Sampling, generate, paged_pool, read
from attnviz.decode.paged import unused_slots, unused_slots_if_reserved
from tests.decode.models import GROUPED, LATENT, PROMPT, small
from tests.oracles import agree

SETTINGS = pytest.mark.parametrize("settings", [GROUPED, LATENT])


def equal(model, ids: list[int], cache: list, n_read: int = 0) -> bool:
    """Check that running the rest with this cache equals a run with the plain cache."""
    plain = model.new_cache()
    if n_read:
        read(model, ids[:n_read], plain)
    return agree(read(model, ids[n_read:], cache), read(model, ids[n_read:], plain), 1e-6)


@SETTINGS
@pytest.mark.parametrize("block_size", [1, 3, 11, 16])
def test_paged_is_plain(settings, block_size):
    model = small(**settings)
    sequence = PagedSequence(paged_pool(model, 17, block_size))
    assert equal(model, PROMPT, sequence.cache)
    for n, i in enumerate([7, 2, 16], start=11):
        assert equal(model, [*PROMPT, 7, 2, 16][: n + 1], sequence.cache, n), i
    assert len(sequence.table) == -(-14 // block_size)


@SETTINGS
def test_forks_share_the_prompt_and_copy_the_block_they_write_into(settings):
    model = small(**settings)
    pool = paged_pool(model, 17, block_size=3)
    one = PagedSequence(pool)
    read(model, PROMPT, one.cache)  # 11 tokens in blocks of 3: the last has 2
    two, three = one.fork(), one.fork()
    assert pool.n_used == 4 and [pool.users[b] for b in one.table] == [3, 3, 3, 3]
    assert equal(model, [*PROMPT, 7, 8], two.cache, 11)  # 13 tokens: a copy and a new block
    assert pool.n_used == 6 and two.table[:3] == one.table[:3] and two.table[3] != one.table[3]
    assert pool.copied == {two.table[3]: one.table[3]}
    assert equal(model, [*PROMPT, 9], three.cache, 11)
    assert equal(model, [*PROMPT, 4], one.cache, 11)  # alone in its block by now: no copy
    assert pool.n_used == 7 and len(pool.copied) == 2
    assert equal(model, [*PROMPT, 7, 8, 1], two.cache, 13)  # the others have written; it is as it was


def test_a_fork_at_a_full_block_copies_nothing():
    model = small()
    pool = paged_pool(model, 17, block_size=11)
    one = PagedSequence(pool)
    read(model, PROMPT, one.cache)
    two = one.fork()
    read(model, [1], two.cache)
    assert two.table[0] == one.table[0] and pool.n_used == 2 and pool.copied == {}


def test_freed_blocks_are_used_again_and_shared_ones_stay():
    model = small()
    pool = paged_pool(model, 5, block_size=3)
    one = PagedSequence(pool)
    read(model, PROMPT, one.cache)
    two = one.fork()
    one.free()
    assert pool.n_used == 4 and len(one) == 0
    assert equal(model, [*PROMPT, 5], two.cache, 11)
    two.free()
    assert pool.n_used == 0 and equal(model, PROMPT[::-1], one.cache)
    assert pool.copied == {}  # the copy's block was taken for something else


def test_a_pool_without_blocks_refuses_and_leaves_all_as_it_was():
    model = small()
    pool = paged_pool(model, 4, block_size=3)
    one = PagedSequence(pool)
    read(model, PROMPT, one.cache)
    two = one.fork()
    with pytest.raises(OutOfBlocks):
        read(model, [1], two.cache)  # it would need a copy
    assert two.table == one.table and len(two) == 11 and [layer.length for layer in two.cache] == [11, 11]
    one.free()
    assert equal(model, [*PROMPT, 1], two.cache, 11)


def test_generate_writes_the_same_text():
    model, sampling = small(), Sampling(temperature=1.3, seed=5)
    paged = PagedSequence(paged_pool(model, 17, 4)).cache
    steps = zip(generate(model, PROMPT, 23, sampling), generate(model, PROMPT, 23, sampling, paged), strict=True)
    assert [torch.equal(a.logits, b.logits) and a.id == b.id for a, b in steps] == [True] * 23  # bit for bit


def test_unused_slots_are_counted_once_in_shared_blocks():
    model = small()
    one = PagedSequence(paged_pool(model, 17, block_size=5))
    read(model, PROMPT, one.cache)  # 11 of 15
    two = one.fork()
    assert unused_slots([one, two]) == 4
    read(model, [1, 2], two.cache)  # a copy of the last block: 13 of 15
    assert unused_slots([one, two]) == 4 + 2
    assert unused_slots_if_reserved([one, two], 23) == 12 + 10


@SETTINGS
def test_the_bytes_of_a_block_are_those_of_its_tokens(settings):
    model = small(**settings)
    pool, plain = paged_pool(model, 7, block_size=11), model.new_cache()
    read(model, PROMPT, PagedSequence(pool).cache)
    read(model, PROMPT, plain)
    assert pool.block_bytes == sum(layer.nbytes for layer in plain)


def test_a_batch_is_refused():
    model = small()
    with pytest.raises(ValueError, match="batch size 1"):
        model(torch.tensor([PROMPT, PROMPT]), cache=PagedSequence(paged_pool(model, 7)).cache)
