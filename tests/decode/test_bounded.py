"""Bounded caches: the cached and overwritten tokens, and positions as in StreamingLLM."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from attnviz.checkpoints import load_checkpoint
from attnviz.decode import CacheFull, Sampling, SlidingCache, generate, limited_cache, losses, read, sliding_cache
from attnviz.modules import GroupedQueryAttention, MultiHeadLatentAttention, Rope, apply_rope, rope_frequencies
from tests.decode.models import GROUPED, LATENT, PROMPT, small
from tests.oracles import agree

LONG = [(7 * i * i + 3) % 17 for i in range(31)]


@pytest.mark.parametrize("settings", [GROUPED, LATENT])
def test_until_something_is_dropped_every_cache_is_the_plain_one(settings):
    model = small(**settings)
    expected = model(torch.tensor([PROMPT]))[0]
    for cache in (limited_cache(model, 11), sliding_cache(model, 11, 3)):
        assert agree(torch.cat((read(model, PROMPT[:5], cache), read(model, PROMPT[5:], cache))), expected)


@pytest.mark.parametrize(("settings", "limit"), [(GROUPED, 1), (LATENT, 5), (GROUPED, 11)])
def test_a_ring_is_a_sliding_window(settings, limit):
    model = small(**settings)
    windowed = model.with_config(replace(model.config, sliding_window=limit))
    cache = sliding_cache(model, limit)
    assert agree(read(model, LONG, cache), windowed(torch.tensor([LONG]))[0])
    assert not agree(read(model, LONG, model.new_cache()), windowed(torch.tensor([LONG]))[0], 1e-3)


@pytest.mark.parametrize("settings", [GROUPED, LATENT])
def test_sinks_at_their_positions_in_the_text_are_the_window_with_sinks(settings):
    model = small(**settings)
    windowed = model.with_config(replace(model.config, sliding_window=4, n_sinks=3))
    cache = sliding_cache(model, 7, 3, positions_in_cache=False)
    assert agree(read(model, LONG, cache), windowed(torch.tensor([LONG]))[0])


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_positions_inside_the_cache_are_those_of_streaming_llm(layout):
    """The paper's method: keys are cached before RoPE and rotated by their index in the cache in each step."""
    limit, n_sinks, rope = 7, 3, Rope(rope_frequencies(10), layout)
    layer, x = GroupedQueryAttention(13, 6, 2, head_dim=10), torch.randn(1, 31, 13)
    cache = SlidingCache(limit, n_sinks, rope)
    q = layer.q_proj(x).unflatten(-1, (6, 10)).transpose(1, 2)
    k, v = (project(x).unflatten(-1, (2, 10)).transpose(1, 2) for project in (layer.k_proj, layer.v_proj))
    for t in range(31):
        cached = [i for i in range(t + 1) if i < n_sinks or i > t - (limit - n_sinks)]
        places = torch.arange(len(cached))
        keys = apply_rope(k[:, :, cached], places, rope.frequencies, layout)
        query = apply_rope(q[:, :, t : t + 1], places[-1:], rope.frequencies, layout)
        read = F.scaled_dot_product_attention(query, keys, v[:, :, cached], enable_gqa=True)
        expected = layer.o_proj(read.transpose(1, 2).flatten(2))
        assert agree(layer(x[:, t : t + 1], rope=rope, cache=cache), expected)
        assert sorted(cache.positions) == cached


def test_latent_attention_moves_its_rotated_key_alone():
    """The same, with the shared key: the sinks' scores change by their new distance, the latents do not change."""
    rope, limit, n_sinks = Rope(rope_frequencies(4)), 5, 2
    layer = MultiHeadLatentAttention(
        13, 3, kv_lora_rank=7, qk_nope_head_dim=5, qk_rope_head_dim=4, v_head_dim=3
    )  # fmt: skip
    x, cache = torch.randn(1, 11, 13), SlidingCache(5, 2, rope, rotated=(1,))
    for t in range(11):
        last = layer(x[:, t : t + 1], rope=rope, cache=cache)
    cached = [0, 1, 8, 9, 10]
    alone = SlidingCache(limit, n_sinks, rope, rotated=(1,))  # the five tokens as a separate text
    expected = layer(x[:, cached], rope=rope, cache=alone, causal=True)[:, -1:]
    assert agree(last, expected)


@pytest.mark.parametrize("limit, n_sinks", [(5, 0), (5, 2), (5, 4), (1, 0)])
def test_the_buffer_is_overwritten_and_never_grows(limit, n_sinks):
    cache, x = SlidingCache(limit, n_sinks), torch.randn(1, 2, 23, 3)
    places = set()
    for t in range(23):
        held = cache.append(x[:, :, t : t + 1], x[:, :, t : t + 1])[0]
        places.add(held.data_ptr())
        assert torch.equal(held, x[:, :, cache.positions])
        assert len(cache) == t + 1 and cache.nbytes == 2 * min(t + 1, limit) * 2 * 3 * 4
    assert len(places) == 1 and cache.buffers[0].untyped_storage().nbytes() == limit * 2 * 3 * 4
    assert cache.dropped == 23 - limit and cache.positions[:n_sinks] == list(range(n_sinks))


def test_several_tokens_that_do_not_fit_at_once_are_refused():
    cache = SlidingCache(5)
    with pytest.raises(ValueError, match="room for 5"):
        cache.append(torch.zeros(1, 2, 7, 3))
    assert len(cache) == 0


def test_a_full_cache_refuses_and_keeps_what_it_has():
    model = small()
    cache = limited_cache(model, 11)
    read(model, PROMPT, cache)
    with pytest.raises(CacheFull, match="11 of at most 11"):
        read(model, [1], cache)
    assert [len(layer) for layer in cache] == [11, 11]


def test_decoding_with_a_ring_goes_on_behind_the_limit():
    model = small()
    cache = sliding_cache(model, 13, 2)
    steps = list(generate(model, PROMPT, 29, Sampling(temperature=0), cache))
    assert len(steps) == 29 and len(cache[0]) == 39 and len(cache[0].positions) == 13


@pytest.mark.parametrize("limit, n_sinks", [(0, 0), (5, 5), (5, -1)])
def test_a_limit_that_cannot_be_used_is_refused(limit, n_sinks):
    with pytest.raises(ValueError, match="limit|n_sinks"):
        sliding_cache(small(), limit, n_sinks)


def test_a_model_that_cached_keys_would_not_fit_is_refused():
    dynamic = (("rope_type", "dynamic"), ("factor", 2.0))
    with pytest.raises(ValueError, match="window of 3"):
        sliding_cache(small(sliding_window=3, **GROUPED), 5)
    with pytest.raises(ValueError, match="depend on the length"):
        sliding_cache(small(rope_scaling=dynamic, max_context=5, **GROUPED), 5)


@pytest.mark.parametrize("name", ["gqa-4", "mla"])
def test_shipped_checkpoints_stream_as_their_windowed_selves(name):
    model, tokens = load_checkpoint(name)
    ids = tokens.encode("The boy went to the sea and saw a ship. " * 4)  # longer than the window
    windowed = model.with_config(replace(model.config, sliding_window=31))
    logits = windowed(torch.tensor([ids]))[0, :-1]
    expected = F.cross_entropy(logits, torch.tensor(ids[1:]), reduction="none")
    assert losses(model, ids, sliding_cache(model, 31)) == pytest.approx(expected.tolist(), abs=1e-4)
