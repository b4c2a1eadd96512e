"""attnviz/modules/masks.py: against tables written by hand, and against the window rule of `transformers`."""

import pytest
import torch
from transformers.masking_utils import sliding_window_causal_mask_function

from attnviz.modules.masks import attention_mask, intersection
from tests.oracles import padding_mask


def table(rows: str) -> torch.Tensor:
    return torch.tensor([[c == "1" for c in row] for row in rows.split()])


@pytest.mark.parametrize(
    "n_queries, n_keys, options, expected",
    [
        (4, 4, dict(causal=True), "1000 1100 1110 1111"),
        (2, 5, dict(causal=True), "10000 11000"),  # another sequence's keys: both count from 0
        (2, 5, dict(causal=True, offset=3), "11110 11111"),  # three tokens are in the cache
        (5, 5, dict(causal=True, window=1), "10000 01000 00100 00010 00001"),
        (5, 5, dict(causal=True, window=2), "10000 11000 01100 00110 00011"),
        (5, 5, dict(causal=True, window=3), "10000 11000 11100 01110 00111"),
        (5, 5, dict(window=2), "11000 11100 01110 00111 00011"),  # both ways without causal
        (2, 6, dict(causal=True, window=3, offset=4), "001110 000111"),
        (5, 5, dict(causal=True, window=2, n_sinks=1), "10000 11000 11100 10110 10011"),
        (5, 5, dict(causal=True, window=1, n_sinks=2), "10000 11000 11100 11010 11001"),
        (3, 3, dict(causal=True, window=9), "100 110 111"),
    ],
)
def test_tables_by_hand(n_queries, n_keys, options, expected):
    assert torch.equal(attention_mask(n_queries, n_keys, **options), table(expected))


@pytest.mark.parametrize("window", [1, 2, 5, 11, 12])
def test_the_window_counts_as_in_mistral(window):
    query, key = torch.arange(11)[:, None], torch.arange(11)[None]
    theirs = sliding_window_causal_mask_function(window)(0, 0, query, key)
    assert torch.equal(attention_mask(11, 11, causal=True, window=window), theirs)


def test_nothing_to_forbid_is_no_mask():
    assert attention_mask(3, 5) is None
    assert attention_mask(3, 5, n_sinks=2, offset=7) is None


@pytest.mark.parametrize("window", [0, -3])
def test_an_empty_window_is_refused(window):
    with pytest.raises(ValueError, match=f"window must be at least 1, not {window}"):
        attention_mask(3, 3, causal=True, window=window)


def test_padding_by_hand():
    """Check the mask that other tests use."""
    mask = padding_mask(torch.tensor([3, 0, 5]), 5)
    assert mask.shape == (3, 1, 1, 5)
    assert torch.equal(mask[:, 0, 0], table("11100 00000 11111"))


def test_the_intersection_allows_only_what_each_allows():
    causal, padding = attention_mask(3, 3, causal=True), padding_mask(torch.tensor([2, 3]), 3)
    allowed = intersection(causal, padding)
    assert torch.equal(allowed[:, 0], torch.stack([table("100 110 110"), table("100 110 111")]))
    assert intersection(None, causal) is causal is intersection(causal, None) and intersection(None, None) is None


def test_a_mask_of_numbers_is_refused_beside_another_and_alone():
    for other in (None, attention_mask(3, 3, causal=True)):
        with pytest.raises(TypeError, match="mask must be boolean"):
            intersection(other, torch.ones(3, 3))
