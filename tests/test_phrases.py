"""Counts and lists in sentences."""

from attnviz.phrases import count, listed


def test_a_noun_is_singular_for_one_thing_only() -> None:
    assert [count(n, "KV head") for n in (0, 1, 2, 1000)] == ["0 KV heads", "1 KV head", "2 KV heads", "1,000 KV heads"]


def test_the_last_two_items_are_joined_by_and() -> None:
    assert [listed(range(n)) for n in (1, 2, 3)] == ["0", "0 and 1", "0, 1 and 2"]
