"""What each of several accelerators holds, and whole pages, against sums by hand and heads counted one by one."""

import itertools
from fractions import Fraction

import pytest

from attnviz.config import ModelConfig
from attnviz.cost import (
    Answer,
    Serving,
    count_parameters,
    kv_cache_bytes,
    load_accelerators,
    load_presets,
    of_memory,
)
from attnviz.cost.cached import state_bytes
from attnviz.cost.hf_config import read_hf_config
from attnviz.cost.placed import DATA, divides_evenly, on_one, windowed, without_windows
from attnviz.equations import Value
from attnviz.mechanisms import Grouped, IndexedGrouped, Latent, Mamba2

PRESETS, CARDS = load_presets(), load_accelerators()
LLAMA, DEEPSEEK, GEMMA, OSS = (PRESETS[id] for id in ("llama-3-70b", "deepseek-v3", "gemma-3-27b", "gpt-oss-120b"))
GIB = 2**30


def serving(model, n=1, n_tokens=32_768, card="h200-sxm", **options) -> Serving:
    return Serving(model, CARDS[card].times(n), n_tokens, **options)


def test_sixteen_ranks_hold_one_of_eight_kv_heads_each_and_the_cache_twice():
    """Llama 3 70B: 80 layers, 8 KV heads of 128 numbers for k and for v, 2 bytes each."""
    one = kv_cache_bytes(on_one(LLAMA, 16), 1)
    assert one == 80 * 2 * 1 * 128 * 2 == 40_960
    assert 16 * one == 2 * kv_cache_bytes(LLAMA, 1) == 2 * 327_680
    assert LLAMA.mixer.copies(16) == 2 and LLAMA.mixer.copies(8) == 1


def test_a_ranks_weights_are_its_heads_and_rows_and_all_norms():
    """Llama 3 70B on 16: 4 query heads and 1 KV head of 128, 1,792 of d_ff 28,672, 8,016 of 128,256 rows."""
    layer = 2 * 8192 * 4 * 128 + 2 * 8192 * 128 + 3 * 8192 * 1792 + 2 * 8192
    assert count_parameters(on_one(LLAMA, 16)).total == 80 * layer + 8192 + 2 * 8016 * 8192


def test_the_latent_lies_on_each_rank_and_with_data_parallel_attention_on_one():
    """DeepSeek-V3: 61 layers with a latent of 512 and a RoPE key of 64 numbers, 2 bytes each: 70,272 B per token."""
    whole = kv_cache_bytes(DEEPSEEK, 1)
    assert whole == 61 * 576 * 2 == kv_cache_bytes(on_one(DEEPSEEK, 8), 1)
    tensor, data = (serving(DEEPSEEK, 8, 1024, parallel=way) for way in ("tensor", "data"))
    assert [s.plan().cache_of_one for s in (tensor, data)] == [whole * 1024] * 2
    assert Answer(tensor, 32).cached == 32 * whole * 1024
    assert Answer(data, 32).cached == 4 * whole * 1024 and Answer(data, 33).cached == 5 * whole * 1024
    assert tensor.step(32).cache_bytes == 8 * data.step(32).cache_bytes == 8 * 32 * whole * 1024


def test_mlas_matrices_are_divided_by_heads_and_those_of_the_latents_are_not():
    """DeepSeek-V3: d_model 7,168, 128 heads of 128 + 64 and 128, ranks 1,536 and 512."""
    by_heads = 1536 * 128 * 192 + 512 * 128 * 256 + 128 * 128 * 7168
    whole = 7168 * 1536 + 7168 * 576 + 1536 + 512
    mixer = DEEPSEEK.mixer.share(8)
    assert sum(int(each.value) for each in mixer.parameters(Value(7168)).values()) == by_heads // 8 + whole
    attention = 61 * (by_heads + whole)
    tensor, data = (count_parameters(on_one(DEEPSEEK, 8, way)).total for way in ("tensor", DATA))
    assert data - tensor == attention - 61 * (by_heads // 8 + whole)


@pytest.mark.parametrize(
    "n_kv_heads, n", list(itertools.product((1, 2, 3, 4, 6, 8, 12, 24), (2, 3, 5, 7, 8, 16, 24, 31)))
)
def test_each_rank_holds_the_kv_heads_that_its_query_heads_read(n_kv_heads, n):
    mixer = Grouped(n_heads=24, n_kv_heads=n_kv_heads, head_dim=7)
    read = [{mixer.kv_head_of[h] for h in range(24) if h * n // 24 == rank} for rank in range(n)]
    assert [set(heads) for heads in mixer.held_by(n)] == read
    assert mixer.share(n).n_kv_heads == max(map(len, read))
    assert mixer.copies(n) == Fraction(sum(map(len, read)), n_kv_heads)
    even = n_kv_heads % n == 0 or n % n_kv_heads == 0
    assert mixer.uneven(n) == ("24 query heads" if 24 % n else "" if even else f"{n_kv_heads} KV heads")


def test_every_published_models_ranks_hold_it_together():
    """Weights and caches of all ranks are at least those of the model, and those of one rank at most."""
    for model in PRESETS.values():
        for n in (2, 8, 13):
            rank, own = on_one(model, n), on_one(model, n, DATA)
            for count in (lambda m: count_parameters(m).total, lambda m: kv_cache_bytes(m, 5000)):
                assert count(rank) <= count(model) <= n * count(rank), (model.name, n)
            assert kv_cache_bytes(own, 5000) == kv_cache_bytes(model, 5000)
            assert count_parameters(rank).total <= count_parameters(own).total < count_parameters(model).total


def test_states_are_divided_by_heads_or_channels():
    """Mamba-2: 24 heads of 5 × 7 in 32 bits; a convolution of 3 taps over 24 · 5 + 2 · 2 · 7 channels in 16."""
    mixer = Mamba2(n_heads=24, head_dim=5, state_size=7, n_groups=2, taps=3)
    sizes = [[int(s.numbers.value) for s in part.state()] for part in (mixer, mixer.share(8), mixer.share(16))]
    assert sizes == [[840, 3 * 148], [3 * 35, 3 * (15 + 14)], [2 * 35, 3 * (10 + 14)]]
    qwen = read_hf_config({"model_type": "qwen3_next"}).model
    assert state_bytes(on_one(qwen, 8)) * 8 == state_bytes(qwen)
    assert state_bytes(on_one(qwen, 8, DATA)) == state_bytes(qwen)


def test_gpt_oss_takes_73_728_bytes_per_token_where_all_layers_hold_all_tokens():
    """36 layers, 8 KV heads of 64 numbers in bf16, half of the layers with a window of 128."""
    assert kv_cache_bytes(without_windows(OSS), 1) == 36 * 2 * 8 * 64 * 2 == 73_728
    full, window = (serving(OSS, n_tokens=8192, full_windows=on).plan().cache_of_one for on in (True, False))
    assert full == 8192 * 73_728
    assert window == 18 * 2048 * (8192 + 128)
    both = [serving(OSS, n_tokens=8192, full_windows=on).step(3).cache_bytes for on in (True, False)]
    assert both == [3 * window] * 2  # memory is taken; what is read does not change


def test_gemma_3_27b_takes_the_window_or_all_tokens():
    """62 layers, 52 of them with a window of 1,024; 16 KV heads of 128 numbers in bf16: 8,192 B per layer and token."""
    window, full = (serving(GEMMA, full_windows=on).plan().cache_of_one for on in (False, True))
    assert window == 8192 * (10 * 32_768 + 52 * 1024) and full == 8192 * 62 * 32_768
    assert windowed(GEMMA, 1025) and not windowed(GEMMA, 1024) and not windowed(LLAMA)
    assert without_windows(LLAMA) is LLAMA


def test_the_pages_of_vllms_own_example():
    """docs/design/hybrid_kv_cache_manager.md, case 2: block size 16, window 32, 112 tokens: 7 blocks and 2."""
    pages = {
        w: int(Grouped(n_heads=1, n_kv_heads=1, head_dim=1, window=w).in_pages(Value(112), 16).value)
        for w in (None, 32)
    }
    assert pages == {None: 7 * 16, 32: 2 * 16}


@pytest.mark.parametrize("window, n_sinks", [(None, 0), (1, 0), (5, 0), (17, 0), (32, 0), (5, 3), (17, 16), (3, 40)])
def test_a_sequence_takes_the_pages_in_which_a_token_lies_that_it_keeps(window, n_sinks):
    mixer = Grouped(n_heads=2, n_kv_heads=1, head_dim=3, window=window, n_sinks=n_sinks)
    for n_tokens, page in itertools.product((1, 2, 15, 16, 17, 31, 33, 64, 97), (1, 2, 7, 16)):
        kept = [t for t in range(n_tokens) if window is None or t >= n_tokens - window or t < n_sinks]
        pages = len({t // page for t in kept})
        assert int(mixer.in_pages(Value(n_tokens), page).value) == page * pages, (n_tokens, page)


def test_a_page_rounds_every_layers_tokens_up():
    model = ModelConfig(3, 20, 5, 1, 4, 11, vocab_size=13)
    assert kv_cache_bytes(model, 17, 2, page=16) == 2 * 3 * 2 * 4 * 2 * 32
    assert kv_cache_bytes(model, 17, 2, page=1) == kv_cache_bytes(model, 17, 2)
    for model in PRESETS.values():
        plain, paged = (kv_cache_bytes(model, 9_001, page=page) for page in (1, 64))
        assert plain <= paged
    assert kv_cache_bytes(DEEPSEEK, 65, page=64) == kv_cache_bytes(DEEPSEEK, 128)


def test_it_fits_on_each_or_not():
    """10 sequences of Llama 3 70B at 32 K on 16: 12.5 GiB of caches beside 8.37 GiB of weights on each."""
    answer = Answer(serving(LLAMA, 16, card="h100-sxm"), 10)
    memory = 81_559 * 2**20
    weights = 2 * count_parameters(on_one(LLAMA, 16)).total
    assert answer.plan.memory == memory and answer.cached == 10 * 40_960 * 32_768 == 12.5 * GIB
    assert answer.needed == weights + answer.cached and answer.needed == answer.serving.needed(10)
    assert answer.most == (memory - round(memory / 10) - weights) // (40_960 * 32_768)
    data = Answer(serving(LLAMA, 16, card="h100-sxm", parallel="data"), 10)
    assert data.cached == 327_680 * 32_768 and data.most % 16 == 0  # 10 of the 16 have a sequence


@pytest.mark.parametrize("parallel", ["tensor", "data"])
@pytest.mark.parametrize(
    "id, n_sequences", [("llama-3-70b", 40), ("deepseek-v3", 3), ("qwen2.5-7b", 9), ("falcon-7b", 2)]
)
def test_the_smallest_number_is_the_first_that_divides_the_heads_and_holds_it(id, n_sequences, parallel):
    model = PRESETS[id]
    memory = 24 if id != "deepseek-v3" else 140
    found = Answer(Serving(model, of_memory(memory), 32_768, parallel=parallel), n_sequences).smallest_number
    for n in range(1, (found or 200) + 1):
        there = Answer(Serving(model, of_memory(memory).times(n), 32_768, parallel=parallel), n_sequences)
        assert (there.fits and divides_evenly(model, n, parallel)) == (n == found)


def test_a_latent_of_many_sequences_is_held_by_no_number_with_tensor_parallelism():
    """Each rank would hold 700 latents of 128 K tokens, 2.9 TiB in fp8."""
    tensor, data = (
        Answer(serving(DEEPSEEK, 16, 131_072, precision="fp8", weights="fp8", parallel=way), 700)
        for way in ("tensor", "data")
    )
    assert tensor.smallest_number is None and tensor.cached == 700 * 61 * 576 * 131_072
    assert not data.fits and data.smallest_number is not None


def test_a_share_that_no_model_could_have_is_counted():
    """40 query heads in 4 shares of 10 read 3 of 10 KV heads each, which 10 heads could not share evenly."""
    mixer = Grouped(n_heads=40, n_kv_heads=10, head_dim=3)
    assert mixer.share(4).n_kv_heads == 3 and mixer.copies(4) == Fraction(12, 10)
    indexed = IndexedGrouped(n_heads=40, n_kv_heads=10, head_dim=3, top_k=7, n_index_heads=2, index_dim=5).share(4)
    sizes = [(v.number, len(v.parts), v.width.number) for v in indexed.cached()]
    assert sizes == [(3, 2, 3), (1, 1, 5)]  # k and v of 3 heads, the index key
    latent = Latent(n_heads=6, kv_lora_rank=5, qk_nope_head_dim=3, qk_rope_head_dim=2, v_head_dim=4)
    assert latent.share(4).n_heads == 2 and latent.copies(4) == 4
