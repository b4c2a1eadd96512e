"""The need of a model for so many sequences, against sums by hand and the bytes of live tensors."""

import math

import pytest
import torch

from attnviz.config import ModelConfig
from attnviz.cost import (
    PRECISIONS,
    Answer,
    Serving,
    load_accelerators,
    load_presets,
    of_accelerators,
    of_memory,
    of_models,
)
from attnviz.cost.cached import cache_parts
from attnviz.modules import Transformer

GIB = 2**30
PRESETS, CARDS = load_presets(), load_accelerators()


def asked(model="llama-3-8b", card="h100-sxm", n_tokens=32_768, n_sequences=10, n=1, **options) -> Answer:
    return Answer(Serving(PRESETS[model], CARDS[card].times(n), n_tokens, **options), n_sequences)


def test_ten_users_of_llama_3_8b_at_32_k_are_solved_by_hand():
    """8,030,261,248 weights of 2 bytes; 2 · 8 · 128 numbers of 2 bytes in 32 layers for 32,768 tokens: 4 GiB each."""
    answer = asked()
    assert answer.plan.weights == 2 * 8_030_261_248
    assert answer.cached == 10 * 4 * GIB == 10 * 32 * 2 * 8 * 128 * 2 * 32_768
    memory = 81_559 * 2**20
    assert answer.needed == 16_060_522_496 + 40 * GIB
    assert answer.spare == memory - round(memory / 10) - answer.needed and answer.fits
    assert answer.most == (memory - round(memory / 10) - 16_060_522_496) // (4 * GIB) == 14


@pytest.mark.parametrize("n_sequences", [1, 14, 15, 1024])
def test_it_fits_up_to_the_number_that_fits(n_sequences):
    answer = asked(n_sequences=n_sequences)
    assert answer.fits == (n_sequences <= answer.most) == (answer.spare >= 0)


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp8", "int4"])
@pytest.mark.parametrize("model", ["llama-3-8b", "gemma-3-27b", "deepseek-v3"])
def test_what_is_needed_is_the_weights_and_every_sequences_cache(model, precision):
    answer = asked(model, precision=precision, n_sequences=7, n_tokens=1_999)
    bits, block = PRECISIONS[precision]
    cached = cache_parts(PRESETS[model], 1_999, 1, bits, block_size=block)
    assert answer.needed == answer.plan.weights + 7 * math.ceil(sum(cached.values()))


def test_the_need_of_a_small_model_is_the_bytes_of_its_tensors():
    config = ModelConfig(2, 28, 7, 1, 6, 11, vocab_size=13)
    model, answer = Transformer.random(config, 0), Answer(Serving(config, of_memory(1), 5, "fp32", "fp32"), 3)
    assert answer.plan.weights == sum(p.nbytes for p in model.parameters())
    cache = model.new_cache()
    model(torch.zeros(3, 5, dtype=torch.int64), cache=cache)
    assert answer.cached == sum(t[..., :5, :].nbytes for layer in cache for t in layer.buffers)


def test_the_smallest_number_of_accelerators_holds_it_and_half_of_them_do_not():
    for model in ("llama-3-8b", "deepseek-v3", "llama-3-70b"):
        n = asked(model).smallest_number
        assert asked(model, n=n).fits
        assert n == 1 or not asked(model, n=n // 2).fits  # a number between does not divide the heads


def test_models_are_sorted_by_what_fits_the_largest_first_then_by_the_smallest_lack():
    answers = of_models(PRESETS.values(), asked(card="rtx-4090", n_tokens=8_192, n_sequences=2))
    assert len(answers) == len(PRESETS)
    fits = [answer.fits for answer in answers]
    n = sum(fits)
    assert 0 < n < len(fits) and fits == [True] * n + [False] * (len(fits) - n)
    weights = [answer.plan.weights for answer in answers[:n]]
    assert weights == sorted(weights, reverse=True)
    assert [a.spare for a in answers[n:]] == sorted((a.spare for a in answers[n:]), reverse=True)


def test_accelerators_are_sorted_by_what_holds_it_the_fastest_first():
    answers = of_accelerators(CARDS.values(), asked("llama-3-70b", n=2, n_sequences=3))
    holding = [answer for answer in answers if answer.fits]
    assert holding == answers[: len(holding)] and 0 < len(holding) < len(answers)
    rates = [answer.tokens_per_second for answer in holding]
    assert rates == sorted(rates, reverse=True)
    assert all(answer.serving.accelerator.count == 2 for answer in answers)


def test_a_typed_memory_holds_as_much_and_bounds_the_speed_only_by_its_bandwidth():
    card = CARDS["rtx-4090"]
    serving = Serving(PRESETS["llama-3-8b"], card, 4_096)
    known, typed = Answer(serving, 3), Answer(serving.on(of_memory(card.memory / GIB, card.bandwidth / 1e9)), 3)
    assert (known.needed, known.spare, known.most) == (typed.needed, typed.spare, typed.most)
    step = serving.step(3)
    assert math.isclose(typed.tokens_per_second, 3 * card.bandwidth / (step.weight_bytes + step.cache_bytes))
    assert Answer(serving.on(of_memory(24)), 3).tokens_per_second is None
