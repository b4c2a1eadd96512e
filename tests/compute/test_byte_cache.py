"""The byte cache: limit in bytes, LRU eviction, one computation per key."""

from dataclasses import dataclass
from threading import Thread
from time import sleep

import pytest

from attnviz.compute.byte_cache import ByteCache


@dataclass
class Entry:
    nbytes: int


def test_what_was_used_longest_ago_makes_room():
    cache = ByteCache(10)
    a, b = cache.get("a", lambda: Entry(4)), cache.get("b", lambda: Entry(4))
    assert cache.get("a", lambda: Entry(99)) is a  # used again: b is now the oldest
    cache.get("c", lambda: Entry(5))
    assert cache.nbytes == 9
    assert cache.get("a", lambda: Entry(99)) is a
    assert cache.get("b", lambda: Entry(1)) is not b


def test_what_is_larger_than_the_bound_is_held_alone_until_the_next():
    cache = ByteCache(10)
    cache.get("small", lambda: Entry(2))
    big = cache.get("big", lambda: Entry(11))
    assert cache.get("big", lambda: Entry(99)) is big and cache.find("small") is None
    cache.get("small", lambda: Entry(2))
    assert cache.nbytes == 2 and cache.find("big") is None


def test_many_who_ask_at_once_get_one_computation():
    cache, computed, got = ByteCache(10), [], []

    def slow() -> Entry:
        computed.append(1)
        sleep(0.05)
        return Entry(1)

    threads = [Thread(target=lambda: got.append(cache.get("k", slow))) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(computed) == 1 and len({id(entry) for entry in got}) == 1 and len(got) == 8


def test_a_computation_that_fails_leaves_nothing_behind():
    cache = ByteCache(10)
    with pytest.raises(ZeroDivisionError):
        cache.get("k", lambda: 1 / 0)
    assert cache.get("k", lambda: Entry(2)).nbytes == 2
