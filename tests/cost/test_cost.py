"""The costs of a model, against the live modules: counted, run with a real cache, and measured by torch's FLOP counter.

pytest tests/cost/test_cost.py
"""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode

from attnviz.config import ConfigError, ModelConfig, MoEConfig, divisors
from attnviz.cost import (
    Serving,
    attention_name,
    cache,
    comparison,
    count_parameters,
    decode_step,
    kv_cache_bytes,
    load_accelerators,
    load_presets,
    plan_memory,
    tokens_that_fit,
    weight_bytes,
    what_if,
)
from attnviz.cost.units import bytes_text, context_text, count_text, tokens_text
from attnviz.equations import Equation
from attnviz.modules import Transformer

GQA = ModelConfig(n_layers=3, d_model=30, n_heads=6, n_kv_heads=2, head_dim=7, d_ff=41, vocab_size=101)
MLA = ModelConfig(
    n_layers=3, d_model=30, n_heads=5, attention="mla", kv_lora_rank=11, qk_nope_head_dim=7, qk_rope_head_dim=4,
    v_head_dim=3, q_lora_rank=13, d_ff=41, vocab_size=101,
)  # fmt: skip
EXPERTS = MoEConfig(n_routed_experts=7, experts_per_token=2, d_ff_expert=5, n_shared_experts=1, n_dense_layers=1)


@st.composite
def runnable(draw) -> ModelConfig:
    """Generate any model that the live modules can run."""
    whole = lambda low, high: draw(st.integers(low, high))  # noqa: E731
    n_heads = whole(1, 24)
    plain = dict(
        n_layers=whole(1, 4), d_model=whole(1, 300), n_heads=n_heads, d_ff=whole(1, 500), vocab_size=whole(1, 4000),
        tie_embeddings=draw(st.booleans()), ffn_bias=draw(st.booleans()),
        position=draw(st.sampled_from(["rope", "none"])),
    )  # fmt: skip
    if draw(st.booleans()):
        latent = dict(kv_lora_rank=whole(1, 64), qk_nope_head_dim=whole(1, 40), v_head_dim=whole(1, 40))
        compressed = draw(st.one_of(st.none(), st.integers(1, 64)))
        return ModelConfig(
            **plain, **latent, attention="mla", qk_rope_head_dim=2 * whole(1, 20), q_lora_rank=compressed
        )
    return ModelConfig(
        **plain, n_kv_heads=draw(st.sampled_from(divisors(n_heads))), head_dim=2 * whole(1, 40),
        qkv_bias=draw(st.booleans()), o_bias=draw(st.booleans()),
    )  # fmt: skip


def on_meta(model: ModelConfig) -> Transformer:
    with torch.device("meta"):
        return Transformer(model)


def size(module: torch.nn.Module | None) -> int:
    return sum(p.numel() for p in module.parameters()) if module is not None else 0


@settings(max_examples=25, deadline=None)
@given(runnable())
def test_the_formula_counts_what_the_live_model_holds(model):
    live, count = on_meta(model), count_parameters(model)
    assert count.total == size(live) == count.active
    assert count.attention_per_layer == size(live.blocks[0].attn)
    assert count.parts["feed-forward"] == model.n_layers * size(live.blocks[0].ffn)
    assert count.parts["token embeddings"] == size(live.embed)
    assert count.parts.get("output layer", 0) == size(live.lm_head)


def test_every_part_of_the_attention_is_the_projection_of_its_name():
    biased = replace(GQA, qkv_bias=True, o_bias=True)
    live, count = on_meta(biased).blocks[0].attn, count_parameters(biased).attention
    assert count == {"q": size(live.q_proj), "k": size(live.k_proj), "v": size(live.v_proj), "o": size(live.o_proj)}
    live = on_meta(MLA).blocks[0].attn
    assert count_parameters(MLA).attention == {
        "q down": size(live.q_a_proj), "q up": size(live.q_b_proj),
        "kv down": size(live.kv_a_proj), "kv up": size(live.kv_b_proj), "o": size(live.o_proj),
        "latent norms": size(live.q_a_norm) + size(live.kv_a_norm),
    }  # fmt: skip


@settings(max_examples=12, deadline=None)
@given(runnable(), st.integers(1, 9), st.integers(1, 3))
def test_the_cache_formula_is_the_bytes_of_the_real_tensors(model, n_tokens, batch_size):
    live = Transformer.random(model, seed=0)
    cache = live.new_cache()
    with torch.inference_mode():
        live(torch.zeros(batch_size, n_tokens, dtype=torch.long), cache=cache)
    counted = sum(layer.nbytes for layer in cache)
    assert kv_cache_bytes(model, n_tokens, batch_size, bits=32) == counted
    assert kv_cache_bytes(model, n_tokens, batch_size) * 2 == counted


@given(st.integers(1, 12), st.integers(1, 50), st.sets(st.integers(0, 11)), st.integers(1, 200), st.integers(1, 5))
def test_a_sliding_layer_holds_at_most_its_window(n_layers, size, full, n_tokens, batch_size):
    full = tuple(layer for layer in full if layer < n_layers)
    model = replace(GQA, n_layers=n_layers, sliding_window=size, full_layers=full)
    held = 0
    for layer in range(n_layers):  # a ring buffer of `size` slots, filled token by token
        ring = [t % size if layer not in full else t for t in range(n_tokens)]
        held += len(set(ring))
    assert kv_cache_bytes(model, n_tokens, batch_size) == held * batch_size * 2 * (2 * 7) * 2


@pytest.mark.parametrize("model, numbers", [(GQA, 3 * 2 * 2 * 7), (MLA, 3 * (11 + 4))])
def test_bits_divide_exactly_and_a_begun_byte_counts(model, numbers):
    for bits in (32, 16, 8, 4, 1):
        assert kv_cache_bytes(model, 5, 3, bits) == math.ceil(15 * numbers * bits / 8)
    assert kv_cache_bytes(model, 16, bits=4.5) == 9 * numbers


def test_block_scales_are_counted_for_every_begun_block():
    # GQA: 4 vectors of 7 per token and layer, in blocks of 4 that is 2 scales each; MLA: 11 and 4 numbers, 3 + 1 scales
    assert kv_cache_bytes(GQA, 1, bits=4, block_size=4) == 3 * (4 * 7 * 4 + 4 * 2 * 16) // 8
    assert kv_cache_bytes(MLA, 2, bits=8, block_size=4) == 2 * 3 * (15 * 8 + 4 * 16) // 8
    even = replace(GQA, head_dim=64)
    assert kv_cache_bytes(even, 3, bits=4, block_size=32) == kv_cache_bytes(even, 3, bits=4.5)
    assert kv_cache_bytes(even, 3, bits=8, block_size=32) == kv_cache_bytes(even, 3, bits=8.5)


@pytest.mark.parametrize(
    "asked, words",
    [
        (dict(n_tokens=0), ["n_tokens", "1 to 1,000,000,000", "0"]),
        (dict(n_tokens=-4), ["n_tokens", "-4"]),
        (dict(n_tokens=10**12), ["n_tokens", "1,000,000,000,000"]),
        (dict(n_tokens="many"), ["n_tokens", "'many'"]),
        (dict(n_tokens=4.0), ["n_tokens", "4.0"]),
        (dict(n_tokens=True), ["n_tokens", "True"]),
        (dict(batch_size=0), ["batch_size", "1 to 1,000,000", "0"]),
        (dict(bits=0), ["bits", "1 to 64", "0"]),
        (dict(bits=-16), ["bits", "-16"]),
        (dict(bits=float("nan")), ["bits", "nan"]),
        (dict(bits="fp16"), ["bits", "'fp16'"]),
        (dict(block_size=0), ["block_size", "0"]),
    ],
)
def test_an_impossible_cache_is_refused_by_name(asked, words):
    with pytest.raises(ConfigError) as refusal:
        kv_cache_bytes(GQA, **{"n_tokens": 5} | asked)
    assert all(word in str(refusal.value) for word in words), str(refusal.value)


@pytest.mark.parametrize(
    ("model", "batch_size"),
    [
        (GQA, 3), (MLA, 1), (MLA, 3), (replace(GQA, n_kv_heads=6, attention=None, qkv_bias=True), 1),
        (replace(GQA, tie_embeddings=False), 3),
    ],
)  # fmt: skip
def test_flops_of_a_decode_step_are_those_that_torch_counts(model, batch_size):
    live = Transformer.random(model, seed=1)
    cache = live.new_cache()
    with torch.inference_mode():
        live(torch.zeros(batch_size, 12, dtype=torch.long), cache=cache)
        absorbed = {"absorbed": True} if model.attention == "mla" else {}
        with FlopCounterMode(display=False) as counter:
            step(live, cache, torch.zeros(batch_size, 1, dtype=torch.long), **absorbed)
    assert decode_step(model, 13, batch_size).flops == counter.get_total_flops()


def step(live: Transformer, cache: list, ids: torch.Tensor, **options) -> torch.Tensor:
    """Run one decode step with attention options (MLA in its absorbed form), as `Transformer.forward` does."""
    x = live.embed(ids)
    for block, layer in zip(live.blocks, cache, strict=True):
        x = block(x, causal=True, rope=live.rope(), cache=layer, **options)
    return torch.nn.functional.linear(live.norm(x), live.embed.weight if live.lm_head is None else live.lm_head.weight)


def test_a_decode_step_reads_all_weights_but_the_embedding_once_and_every_cache():
    untied = replace(GQA, tie_embeddings=False)
    one, many = decode_step(untied, 13), decode_step(untied, 13, batch_size=5)
    assert one.weight_bytes == many.weight_bytes == 2 * (count_parameters(untied).total - 101 * 30)
    assert decode_step(GQA, 13).weight_bytes == one.weight_bytes  # tied: the one matrix is the output layer
    assert many.cache_bytes == 5 * one.cache_bytes == 5 * kv_cache_bytes(untied, 13)
    assert many.flops == 5 * one.flops
    assert decode_step(untied, 13, weight_bits=4.5).weight_bytes == round(one.weight_bytes * 4.5 / 16)


def test_a_larger_batch_reads_more_of_the_experts_but_never_more_than_all():
    model = replace(GQA, moe=EXPERTS)
    count = count_parameters(model)
    read = [decode_step(model, 13, batch).weight_bytes / 2 for batch in (1, 2, 4, 10_000)]
    assert read[0] == count.active and read[-1] == count.total
    assert read == sorted(read) and len(set(read)) == 4
    untouched = (5 / 7) ** 2 * 7  # two tokens that choose two of seven experts each leave 25 / 49 of them unread
    assert read[1] == pytest.approx(count.total - 2 * untouched * 3 * 30 * 5, abs=1)


def test_the_roofline_is_the_slower_of_reading_and_multiplying():
    card = load_accelerators()["h100-sxm"]
    model = load_presets()["llama-3-8b"]
    alone, crowd = decode_step(model, 64), decode_step(model, 64, batch_size=4096)
    assert alone.bound_by(card) == "memory" and crowd.bound_by(card) == "compute"
    assert alone.intensity < card.ridge < crowd.intensity
    assert alone.tokens_per_second(card) == pytest.approx(3350e9 / (15_009_849_344 + 64 * 131_072))
    assert crowd.tokens_per_second(card) == pytest.approx(989e12 / (crowd.flops / 4096))
    assert alone.tokens_per_second(card.times(2)) == pytest.approx(2 * alone.tokens_per_second(card))


def test_at_long_context_no_batch_is_large_enough_to_leave_the_memory_bound():
    card, model = load_accelerators()["h100-sxm"], load_presets()["llama-3-8b"]
    assert decode_step(model, 8192, batch_size=10**6).bound_by(card) == "memory"


def test_every_accelerator_has_plausible_figures_and_a_source():
    cards = load_accelerators()
    assert len(cards) >= 12
    for card in cards.values():
        assert 8e9 <= card.memory <= 1e12 and 1e11 <= card.bandwidth <= 2e13 and 1e13 <= card.flops <= 1e16
        assert 50 < card.ridge < 1000
        assert any(maker in card.source for maker in ("NVIDIA", "AMD", "Google", "Intel"))
        assert card.fp8_flops is None or card.flops <= card.fp8_flops <= 2.03 * card.flops


def test_memory_is_what_the_driver_reports_with_its_source_or_the_data_sheets_gigabytes():
    for card in load_accelerators().values():
        by_data_sheet = card.by_data_sheet().memory
        assert by_data_sheet == card.data_sheet_gb * 10**9
        if card.reported_by:
            assert "github.com/" in card.reported_by and card.memory % 2**20 == 0
            assert " mig " not in card.reported_by  # an instance is smaller than the device
            assert 1 <= card.memory / by_data_sheet < 1.08  # GB of 10^9 understates each by up to 7.4 %: GiB less ECC
        else:
            assert card.memory == by_data_sheet
    assert load_accelerators()["h100-sxm"].times(3).memory == 3 * 81_559 * 2**20
    assert load_accelerators()["h200-sxm"].memory == 143_771 * 2**20
    assert (
        load_accelerators()["mi300x"].memory == 206_141_652_992
    )  # the bytes that rocm-smi prints for the whole device


def test_only_the_tensor_cores_before_ampere_have_no_bf16():
    cards = load_accelerators()
    assert {id for id, card in cards.items() if not card.bf16} == {"t4", "v100-32gb"}
    assert not any("BF16" in card.source for card in cards.values() if not card.bf16)
    assert not cards["t4"].times(3).multiplying("bf16", "bf16").bf16


def test_batching_stops_helping_where_the_caches_are_most_of_the_bytes():
    """By hand: Llama 3 8B at 32 K, (2 N + 4 H D L S) / (4 K D L S); attention alone H / K in bf16, 2 H / K in fp8."""
    card, presets, S = load_accelerators()["h100-sxm"], load_presets(), 32_768
    layer = 4096 * (2 * 4096 + 2 * 1024 + 3 * 14_336)
    N, attention = 32 * layer + 128_256 * 4096, 4 * 32 * 128 * 32 * S
    llama = Serving(presets["llama-3-8b"], card, S)
    most = llama.step(3).largest_intensity
    assert most == pytest.approx((2 * N + attention) / (4 * 8 * 128 * 32 * S)) and round(most, 2) == 7.49
    intensities = [llama.step(b).intensity for b in (1, 7, 1009, 10**6)]
    assert intensities == sorted(intensities) and intensities[-1] == pytest.approx(most, rel=1e-4)
    assert intensities[-1] < most < card.ridge
    assert llama.attention_intensity() == 4
    assert replace(llama, precision="fp8").attention_intensity() == 8
    assert Serving(presets["llama-2-7b"], card, 997).attention_intensity() == 1  # MHA
    latent = Serving(presets["deepseek-v3"], card, 997).attention_intensity()
    assert latent == pytest.approx(2 * 128 * 1088 / (2 * 576)) and round(latent) == 242


def test_fp8_is_multiplied_at_its_own_peak_only_where_weights_and_cache_are_fp8():
    h100, a100 = (load_accelerators()[id] for id in ("h100-sxm", "a100-80gb"))
    assert h100.multiplying("fp8", "fp8").flops == 1979e12 and h100.multiplying("fp8", "fp8").arithmetic == "fp8"
    assert h100.times(2).multiplying("fp8", "fp8").flops == 2 * 1979e12
    for weights, cached in (("fp8", "bf16"), ("bf16", "fp8"), ("int4", "fp8"), ("int4", "int4"), ("bf16", "bf16")):
        assert h100.multiplying(weights, cached).flops == 989e12
    assert a100.multiplying("fp8", "fp8") == a100  # its data sheet gives no fp8 peak


def test_an_embedding_that_is_only_looked_up_counts_one_row_per_token():
    oss = count_parameters(load_presets()["gpt-oss-120b"])
    assert oss.active - oss.used_per_token == (201_088 - 1) * 2880
    untied, tied = replace(GQA, tie_embeddings=False), GQA
    assert count_parameters(untied).used_per_token == count_parameters(untied).total - 100 * 30
    assert count_parameters(tied).used_per_token == count_parameters(tied).total
    learned = replace(GQA, position="learned", learned_position_rows=50)
    assert count_parameters(learned).used_per_token == count_parameters(learned).total - 49 * 30


@settings(deadline=None)
@given(
    st.integers(0, 10**9), st.sampled_from([4, 8, 16, 32]), st.sampled_from([None, 5, 100]), st.sampled_from([None, 4])
)
def test_the_longest_context_fits_and_one_token_more_does_not(free, bits, size, block_size):
    model = replace(GQA, sliding_window=size, full_layers=(1,) if size else ())
    n = tokens_that_fit(model, free, bits, block_size=block_size)
    if n:
        assert kv_cache_bytes(model, n, bits=bits, block_size=block_size) <= free
    assert kv_cache_bytes(model, n + 1, bits=bits, block_size=block_size) > free


def test_a_memory_is_divided_into_weights_reserve_and_users():
    plan = plan_memory(GQA, 10**6, 100, reserve=0.25)
    assert plan.weights == weight_bytes(GQA) == 2 * count_parameters(GQA).total
    assert plan.free == 10**6 - plan.weights - 250_000 > 0
    assert plan.n_users == plan.free // (100 * 3 * 2 * 2 * 7 * 2) > 1
    assert plan.n_tokens == plan.free // (3 * 2 * 2 * 7 * 2)
    ring = plan_memory(replace(GQA, sliding_window=8), 10**6, 100)
    assert ring.n_tokens is None  # every layer slides: the cache stops growing
    small = plan_memory(GQA, 1000, 100)
    assert small.free < 0 and (small.n_tokens, small.n_users) == (0, 0)
    with pytest.raises(ConfigError, match="reserve must be a number from 0 to 0.9"):
        plan_memory(GQA, 10**6, 100, reserve=1.0)


def test_the_comparison_runs_over_every_divisor_and_mla():
    names = [attention_name(model) for model in comparison(GQA)]
    assert names == ["MHA", "GQA-3", "GQA-2", "MQA", "MLA"]
    numbers = [kv_cache_bytes(model, 1, bits=8) for model in comparison(GQA)]
    assert numbers == [3 * 2 * 7 * K for K in (6, 3, 2, 1)] + [3 * (4 * 7 + 2)]
    keys = [count_parameters(model).attention["k"] for model in comparison(GQA)[:4]]
    assert keys == [30 * 7 * K for K in (6, 3, 2, 1)]


@pytest.mark.parametrize(
    "id, names",
    [("llama-3-8b", ["MHA", "GQA-8", "MQA", "MLA"]), ("falcon-7b", ["MHA", "MQA", "MLA"]),
     ("qwen2.5-0.5b", ["MHA", "GQA-7", "MQA", "MLA"]), ("deepseek-v3", ["MHA", "GQA-8", "MQA", "MLA"])],
)  # fmt: skip
def test_what_if_offers_only_what_the_heads_allow(id, names):
    model = load_presets()[id]
    others = what_if(model)
    assert [attention_name(other) for other in others] == names
    kept = [other for other in others if other.attention == model.attention and other.n_kv_heads == model.n_kv_heads]
    assert id == "qwen2.5-0.5b" or kept == [model]


def test_bytes_say_which_thousand_they_mean():
    assert (bytes_text(70_272), bytes_text(70_272, binary=False)) == ("68.6 KiB", "70.3 kB")
    assert bytes_text(8_192) == "8 KiB" and bytes_text(0) == "0 B" and bytes_text(-1_500, binary=False) == "-1.50 kB"
    assert bytes_text(1024**2 - 1) == "1.00 MiB" and bytes_text(999_999, binary=False) == "1.00 MB"
    assert count_text(8_030_261_248) == "8.03 B" and count_text(999) == "999"
    assert [context_text(n) for n in (1, 2, 4096)] == ["1 token", "2 tokens", "4 K tokens"]
    assert [tokens_text(n) for n in (1000, 1024, 131_072, 1_048_576)] == ["1,000", "1 K", "128 K", "1 M"]


def test_a_quantised_caches_scales_are_not_in_the_bytes_per_number():
    """128 numbers of half a byte and 4 scales of 2 bytes: 72 B per vector, which is not b = 0.5 per number."""
    model = load_presets()["mistral-7b-v0.3"]
    counted = cache(model, 32_768, 1, 4, block_size=32)
    assert (
        counted.value == 32 * 32_768 * 2 * 8 * (128 // 2 + 4 * 2) == kv_cache_bytes(model, 32_768, 1, 4, block_size=32)
    )
    meaning, value = Equation(counted, unit="B").legend()["b"]
    assert (meaning, value) == ("bytes per number, without the 2-byte scale per 32 numbers", "0.5")
    assert Equation(cache(model, 32_768, 1, 8), unit="B").legend()["b"] == ("bytes per number", "1")
