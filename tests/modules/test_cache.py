"""The KV cache: decoding with it equals recomputing without it, and its bytes are those of its tensors."""

import pytest
import torch

from attnviz.config import ModelConfig, divisors
from attnviz.modules import (
    GroupedQueryAttention,
    KVCache,
    MultiHeadLatentAttention,
    Recording,
    Rope,
    Transformer,
    rope_frequencies,
)
from attnviz.modules.masks import attention_mask
from tests.oracles import agree

B, T, C = 2, 11, 13
CHUNKS = [[1] * T, [5, 1, 1, 4], [T], [3, 0, 8]]
LATENT = dict(kv_lora_rank=7, qk_nope_head_dim=5, qk_rope_head_dim=4, v_head_dim=3)


def window_mask(piece: torch.Tensor, cache: KVCache | None, window: int | None) -> torch.Tensor | None:
    """Return the mask of a causal sliding window for the next piece (B, T, C)."""
    past = 0 if cache is None else len(cache)
    return attention_mask(piece.shape[1], past + piece.shape[1], causal=True, window=window, offset=past)


def decoded(run, x: torch.Tensor, chunks: list[int]) -> torch.Tensor:
    """Concatenate the outputs of run(piece) along the tokens."""
    return torch.cat([run(piece) for piece in x.split(chunks, dim=1)], dim=1)


@pytest.mark.parametrize("chunks", CHUNKS)
@pytest.mark.parametrize("window", [None, 3])
@pytest.mark.parametrize("n_kv_heads", [6, 2, 1])
def test_grouped_queries_decode_as_they_compute_at_once(chunks, window, n_kv_heads):
    layer, x, cache = GroupedQueryAttention(C, 6, n_kv_heads, head_dim=4), torch.randn(B, T, C), KVCache()
    rope = Rope(rope_frequencies(4))

    def run(piece: torch.Tensor, cache: KVCache | None) -> torch.Tensor:
        if window is None:
            return layer(piece, cache=cache, causal=True, rope=rope)
        return layer(piece, cache=cache, mask=window_mask(piece, cache, window), rope=rope)

    assert agree(decoded(lambda piece: run(piece, cache), x, chunks), run(x, None))
    assert len(cache) == T


@pytest.mark.parametrize("chunks", CHUNKS)
@pytest.mark.parametrize("window", [None, 3])
@pytest.mark.parametrize("absorbed", [False, True])
def test_latent_attention_decodes_as_it_computes_at_once(chunks, window, absorbed):
    layer, x, cache = MultiHeadLatentAttention(C, 3, **LATENT), torch.randn(B, T, C), KVCache()
    rope = Rope(rope_frequencies(4), "interleaved")

    def run(piece: torch.Tensor, cache: KVCache | None, **form) -> torch.Tensor:
        if window is None:
            return layer(piece, cache=cache, causal=True, rope=rope, **form)
        return layer(piece, cache=cache, mask=window_mask(piece, cache, window), rope=rope, **form)

    assert agree(decoded(lambda piece: run(piece, cache, absorbed=absorbed), x, chunks), run(x, None))


@pytest.mark.parametrize("chunks", CHUNKS[:2])
@pytest.mark.parametrize(
    "settings",
    [
        dict(n_heads=6, n_kv_heads=2, head_dim=4, sliding_window=3, full_layers=(1,)),
        dict(n_heads=3, attention="mla", **LATENT),
    ],
)
def test_a_whole_model_decodes_as_it_computes_at_once(settings, chunks):
    model = Transformer.random(ModelConfig(3, C, vocab_size=17, **settings), seed=1)
    ids, caches = torch.randint(17, (B, T)), model.new_cache()
    assert agree(decoded(lambda piece: model(piece, cache=caches), ids, chunks), model(ids))
    assert [len(cache) for cache in caches] == [T] * 3


@pytest.mark.parametrize("build", [GroupedQueryAttention, MultiHeadLatentAttention])
def test_what_is_recorded_while_decoding_is_the_last_rows_of_the_whole(build):
    sizes = dict(n_kv_heads=2, head_dim=4) if build is GroupedQueryAttention else LATENT
    layer, x, cache = build(C, 6, **sizes), torch.randn(B, T, C), KVCache()
    options, whole, steps = dict(causal=True, rope=Rope(rope_frequencies(4))), Recording(), Recording()
    layer(x, record=whole, **options)
    decoded(lambda piece: layer(piece, cache=cache, record=steps, **options), x, [7, 4])
    assert agree(steps[1].weights, whole[0].weights[:, :, 7:])
    assert agree(steps[1].k, whole[0].k)  # all keys so far
    assert agree(steps[1].k_pre_rope, whole[0].k_pre_rope[:, :, 7:])  # only those of this call


@pytest.mark.parametrize("dtype, width", [(torch.float32, 4), (torch.float16, 2)])
@pytest.mark.parametrize("n_kv_heads", divisors(12))
def test_bytes_are_two_numbers_a_kv_head_and_dimension(n_kv_heads, dtype, width):
    layer, cache = GroupedQueryAttention(C, 12, n_kv_heads, head_dim=5).to(dtype), KVCache()
    layer(torch.randn(B, T, C, dtype=dtype), causal=True, cache=cache)
    assert cache.nbytes == B * T * 2 * n_kv_heads * 5 * width
    assert cache.nbytes == sum(t.contiguous().clone().untyped_storage().nbytes() for t in cache.tensors)


def test_bytes_of_a_latent_are_the_latent_and_one_rotated_key():
    layer, cache = MultiHeadLatentAttention(C, 3, **LATENT), KVCache()
    layer(torch.randn(B, T, C), causal=True, rope=Rope(rope_frequencies(4)), cache=cache)
    assert cache.nbytes == B * T * (7 + 4) * 4
    assert cache.nbytes == sum(t.contiguous().clone().untyped_storage().nbytes() for t in cache.tensors)


def test_an_empty_cache_remembers_nothing():
    assert len(KVCache()) == KVCache().nbytes == 0


def test_two_caches_share_nothing():
    layer, one, other = GroupedQueryAttention(C, 6, 2, head_dim=4), KVCache(), KVCache()
    x = torch.randn(B, T, C)
    layer(x, causal=True, cache=one)
    assert agree(layer(x, causal=True, cache=other), layer(x, causal=True)) and len(one) == len(other) == T


def test_adding_another_number_of_tensors_is_refused():
    cache = KVCache()
    cache.append(torch.zeros(1, 2, 3), torch.zeros(1, 2, 5))
    with pytest.raises(ValueError):
        cache.append(torch.zeros(1, 2, 3))


def test_appending_writes_behind_what_is_there_and_moves_it_only_when_the_room_doubles():
    cache, x, moves, before = KVCache(), torch.randn(1, 2, 101, 3), 0, None
    for t in range(101):
        k, v = cache.append(x[:, :, t : t + 1], x[:, :, t : t + 1])
        moves += k.data_ptr() != before
        before = k.data_ptr()
        assert torch.equal(k, x[:, :, : t + 1]) and torch.equal(v, k)
    assert moves == 8  # capacities 1, 2, 4, …, 128
    assert cache.nbytes == 101 * 2 * 2 * 3 * 4 and cache.reserved_bytes == 128 * 2 * 2 * 3 * 4


def test_a_cache_that_was_cut_goes_on_as_if_the_rest_had_not_been():
    cache, x = KVCache(), torch.randn(1, 2, 11, 3)
    cache.append(x)
    cache.cut(5)
    assert len(cache) == 5 and cache.nbytes == 5 * 2 * 3 * 4
    assert torch.equal(cache.append(x[:, :, 7:])[0], torch.cat((x[:, :, :5], x[:, :, 7:]), dim=2))
    for length in (-1, 10):
        with pytest.raises(ValueError, match="from 0 to 9"):
            cache.cut(length)


def test_the_tensors_given_are_not_written_to():
    cache, x = KVCache(), torch.randn(1, 2, 3, 5)
    original = x.clone()
    cache.append(x)
    cache.cut(1)
    cache.append(x[:, :, 2:] + 1)
    assert torch.equal(x, original)
