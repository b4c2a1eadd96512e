"""Sums over layers that differ: by hand, against the live modules, and with letters that mean one number each."""

from dataclasses import replace

import pytest
import torch

from attnviz.checks import ConfigError
from attnviz.config import ModelConfig
from attnviz.cost import (
    cache,
    count_parameters,
    decode_cost,
    decode_step,
    kv_cache_bytes,
    load_presets,
    parameters,
    prefill,
    prefill_cost,
)
from attnviz.mechanisms import Dense, Experts, Grouped, Latent, Layer
from attnviz.modules import Transformer
from tests.arithmetic import check

C, F = 23, 29
WIDE = Grouped(6, n_kv_heads=3, head_dim=7)
NARROW = Grouped(6, 5, 2, n_kv_heads=2, head_dim=11, qkv_bias=True)
LATENT = Latent(6, kv_lora_rank=13, qk_nope_head_dim=5, qk_rope_head_dim=4, v_head_dim=3)
MIXED = ModelConfig(
    n_layers=7, d_model=C, n_heads=6, head_dim=7, d_ff=F, vocab_size=31,
    mixed_layers=(*[Layer((NARROW, Dense(F)))] * 4, *[Layer((WIDE, Dense(F)))] * 2, Layer((LATENT, Experts(5, 2, 3)))),
)  # fmt: skip
S = 17


def test_parameters_of_mixed_layers_by_hand():
    narrow = C * (12 + 4) * 11 + (6 + 2 * 2) * 11
    wide = C * (12 + 6) * 7
    latent = C * 6 * 9 + C * (13 + 4) + 13 * 6 * 8 + 6 * 3 * C + 13
    experts = C * 5 + 5 * 3 * C * 3
    by_hand = 31 * C + 4 * narrow + 2 * wide + latent + 6 * 3 * C * F + experts + (7 * 2 + 1) * C
    assert count_parameters(MIXED).total == parameters(MIXED).value == by_hand
    assert count_parameters(MIXED).active == by_hand - 3 * 3 * C * 3  # 3 of 5 experts are idle
    assert check(parameters(MIXED).text()) == []


def test_the_cache_of_mixed_layers_by_hand():
    by_hand = 4 * (5 + 2) * 2 * 2 * 11 + 2 * S * 2 * 3 * 7 + S * (13 + 4)
    found = cache(MIXED, S)
    assert found.value == by_hand
    assert kv_cache_bytes(MIXED, S) == cache(MIXED, S, bits=16).value == 2 * by_hand
    assert kv_cache_bytes(MIXED, S, 3) == cache(MIXED, S, 3, 16).value == 6 * by_hand
    assert check(found.text()) == [] and check(found.tex(), tex=True) == []
    assert found.text().replace("\u2009", " ").endswith(f"= {by_hand:,}")


def test_a_letter_has_one_value_in_a_sum():
    """D is 11 in four layers and 7 in two, K 2 and 3: the second ones have primes, also in TeX."""
    letters = cache(MIXED, S).letters
    assert {symbol: number for symbol, (_, number) in letters.items()} == {
        "S": S, "W": 5, "A": 2, "K": 2, "D": 11, "K′": 3, "D′": 7, "R": 13, "P": 4,
    }  # fmt: skip
    assert "D'" in cache(MIXED, S).tex()


@pytest.mark.parametrize("model", [MIXED, *load_presets().values()], ids=lambda model: model.id or "mixed")
def test_numbers_and_expressions_are_one(model):
    """Every published model: the counted numbers are the expressions' values, and each letter has one value."""
    for expression, number in (
        (parameters(model), count_parameters(model).total),
        (cache(model, S, bits=16), kv_cache_bytes(model, S)),
        (decode_cost(model, S, 3), decode_step(model, S, 3).flops),
        (prefill_cost(model, S), prefill(model, S).flops),
    ):
        assert expression.value == number
        values: dict[str, set] = {}
        for value in expression.values():
            values.setdefault(value.symbol, set()).add(value.number)
        assert all(len(numbers) == 1 for symbol, numbers in values.items() if symbol)


def test_attention_of_mixed_layers_by_hand():
    decoding = 4 * 4 * 6 * 11 * 7 + 2 * 4 * 6 * 7 * S + 2 * 6 * (2 * 13 + 4) * S
    pairs, windowed = S * (S + 1) // 2, 7 * 8 // 2 + 7 * (S - 7)
    prompt = 4 * 4 * 6 * 11 * windowed + 2 * 4 * 6 * 7 * pairs + 2 * 6 * (9 + 3) * pairs
    weights = (
        4 * C * 16 * 11 + 2 * C * 18 * 7 + (C * 54 + C * 17 + 13 * 48 + 18 * C) + 6 * 3 * C * F + 5 * C + 2 * 9 * C
    )
    assert decode_cost(MIXED, S).value == 2 * (weights + 31 * C) + decoding
    assert prefill_cost(MIXED, S).value == 2 * weights * S + 2 * 31 * C + prompt


def test_what_is_shared_is_counted_once():
    own = Layer((WIDE, Dense(F)))
    reader = replace(own, shares_cache_of=0)
    copy = replace(own, shares_weights_of=0)
    shared = replace(MIXED, n_layers=5, mixed_layers=(own, own, reader, reader, copy))
    assert cache(shared, S).value == 3 * 2 * 3 * 7 * S
    apart = replace(shared, mixed_layers=(own,) * 5)
    one = C * 18 * 7 + 3 * C * F
    assert count_parameters(apart).total - count_parameters(shared).total == one
    assert decode_cost(shared, S).value == decode_cost(apart, S).value


def test_a_uniform_model_and_its_layers_spelt_out_are_equal():
    plain = ModelConfig(n_layers=5, d_model=C, n_heads=6, n_kv_heads=3, head_dim=7, d_ff=F, vocab_size=31,
                        sliding_window=5, n_sinks=2, full_layers=(1, 4))  # fmt: skip
    spelt = replace(plain, mixed_layers=plain.layers)
    assert plain.layers[1] is plain.layers[4] and plain.layer_counts == ((3, plain.layers[0]), (2, plain.layers[1]))
    assert count_parameters(spelt) == count_parameters(plain) and cache(spelt, S) == cache(plain, S)
    live = sum(p.numel() for p in Transformer.random(plain, 0).parameters())
    assert count_parameters(spelt).total == live


def test_layers_and_their_number_must_agree():
    with pytest.raises(ConfigError, match="mixed_layers must have n_layers = 6 layers, not 7"):
        replace(MIXED, n_layers=6)
    with pytest.raises(ConfigError, match="no mixture of experts; cost can be counted"):
        Transformer(MIXED)


def test_the_whole_is_torchs_count():
    """The uniform case against the bytes of a live cache, with widths that are distinct primes."""
    config = ModelConfig(n_layers=3, d_model=C, n_heads=6, n_kv_heads=2, head_dim=11, d_ff=F, vocab_size=31,
                         position="none")  # fmt: skip
    model = Transformer.random(config, 0)
    live = model.new_cache()
    model(torch.arange(S)[None], cache=live)
    assert cache(config, S, bits=32).value == sum(each.nbytes for each in live)
