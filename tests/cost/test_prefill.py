"""The prefill of a prompt, against a case solved by hand, the decode steps it replaces, and torch's FLOP counter.

pytest tests/cost/test_prefill.py
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode

from attnviz.config import ConfigError, ModelConfig, MoEConfig
from attnviz.cost import Serving, count_parameters, decode_step, load_accelerators, load_presets, prefill
from attnviz.figures import cost as figures
from attnviz.figures.cost.formulas import prefill_equations
from attnviz.figures.cost.rates import rate_text
from attnviz.modules import Transformer
from tests.arithmetic import check

MQA = ModelConfig(n_layers=3, d_model=29, n_heads=7, n_kv_heads=1, head_dim=11, d_ff=41, vocab_size=101)
MLA = ModelConfig(
    n_layers=3, d_model=29, n_heads=5, attention="mla", kv_lora_rank=17, qk_nope_head_dim=7, qk_rope_head_dim=4,
    v_head_dim=3, q_lora_rank=13, d_ff=41, vocab_size=101,
)  # fmt: skip
EXPERTS = MoEConfig(n_routed_experts=7, experts_per_token=2, d_ff_expert=5, n_shared_experts=1, n_dense_layers=1)
PRESETS, CARDS = load_presets(), load_accelerators()


def test_a_prompt_of_13_tokens_by_hand():
    found = prefill(MQA, 13)
    # q and o 29 · 77, k and v 29 · 11, three matrices of 29 · 41; the output layer 101 · 29, for the last token
    assert found.layer_weights == 3 * (2 * 2233 + 2 * 319 + 3 * 1189) == 26_013
    assert found.output_weights == 2929
    assert found.pairs == 3 * (1 + 2 + 3 + 4 + 5 + 6 + 7 + 8 + 9 + 10 + 11 + 12 + 13) == 273
    assert found.attention_flops == 4 * 7 * 11 * 273 == 84_084
    assert found.flops == 2 * 26_013 * 13 + 2 * 2929 + 84_084 == 766_280


def test_of_a_mixture_only_the_experts_of_a_token_are_multiplied():
    found = prefill(replace(MQA, moe=EXPERTS), 13)
    # one dense feed-forward of 3 · 29 · 41, two of a router 29 · 7 and 2 + 1 experts of 3 · 29 · 5
    assert found.layer_weights == 3 * 5104 + 3567 + 2 * (203 + 3 * 435) == 21_895
    assert found.flops == 2 * 21_895 * 13 + 2 * 2929 + 84_084


def test_a_window_and_its_sinks_bound_the_keys_of_a_query():
    model = replace(MQA, sliding_window=4, n_sinks=1, full_layers=(1,))
    assert prefill(model, 13).pairs == 91 + 2 * (1 + 2 + 3 + 4 + 5 * 9) == 201
    assert prefill(model, 3).pairs == 3 * (1 + 2 + 3)


def test_mla_expands_its_latent_for_a_prompt():
    assert prefill(MLA, 13).attention_flops == 2 * 5 * (7 + 4 + 3) * 273 == 38_220


@settings(max_examples=30)
@given(st.integers(1, 40), st.sampled_from([None, 4, 19]))
def test_a_prompt_costs_what_its_tokens_cost_one_by_one_but_for_the_output_layer(n_tokens, window):
    model = replace(MQA, sliding_window=window, full_layers=() if window is None else (2,))
    steps = sum(decode_step(model, i).flops for i in range(1, n_tokens + 1))
    assert prefill(model, n_tokens).flops == steps - 2 * (n_tokens - 1) * 101 * 29


@pytest.mark.parametrize("model", [replace(MQA, head_dim=22), MLA], ids=["mqa", "mla"])
def test_products_of_a_prompt_are_those_that_torch_counts(model):
    live, n, found = Transformer.random(model, seed=1), 13, prefill(model, 13)
    with torch.inference_mode(), FlopCounterMode(display=False) as counter:
        live(torch.zeros(1, n, dtype=torch.long))
    # the modules compute masked scores too, n² instead of n (n + 1) / 2, and the output layer for every token
    whole = 2 * found.layer_weights * n + 2 * found.output_weights * n + found.attention_flops * 2 * n // (n + 1)
    assert counter.get_total_flops() == whole


def test_the_bound_is_the_slower_of_arithmetic_and_one_reading_of_the_weights():
    card, llama = CARDS["h100-sxm"], PRESETS["llama-3-8b"]
    short, long = prefill(llama, 1), prefill(llama, 8192)
    read = 2 * (count_parameters(llama).total - 128_256 * 4096)
    assert short.bound_by(card) == "memory" and short.seconds(card) == read / 3.35e12
    assert long.bound_by(card) == "compute" and long.seconds(card) == long.flops / card.flops
    by_hand = 2 * 8192 * (32 * (2 * 4096**2 + 2 * 4096 * 1024 + 3 * 4096 * 14_336)) + 2 * 128_256 * 4096
    assert long.flops == by_hand + 32 * 4 * 4096 * 8192 * 8193 // 2


@pytest.mark.parametrize("options", [{"n_tokens": 0}, {"n_tokens": 2.0}, {"n_tokens": 3, "weight_bits": 0}])
def test_an_impossible_prompt_is_refused(options):
    with pytest.raises(ConfigError):
        prefill(MQA, **options)


@pytest.mark.parametrize("id", ["llama-3-8b", "gemma-3-27b", "deepseek-v3", "gpt2-small"])
@pytest.mark.parametrize("n_tokens", [1, 4097, 2**20])
def test_title_point_table_and_equation_are_one_number(id, n_tokens):
    serving = Serving(PRESETS[id], CARDS["t4"], n_tokens, weights="int4")
    drawing, seconds = figures.first_token(serving), serving.prefill().seconds(serving.machine)
    attention, flops, bound = prefill_equations(serving.model, serving.prefill(), serving.machine)
    assert (attention.value, flops.value) == (serving.prefill().attention_flops, serving.prefill().flops)
    assert bound.value == pytest.approx(seconds, rel=1e-12) and check(drawing.formula) == []
    line, *_, point = drawing.figure.data
    assert line.y[line.x.index(n_tokens)] == point.y[0] == seconds
    row = drawing.table["tokens of the prompt"].index(n_tokens)
    shown = drawing.table["seconds to the first token at least"][row]
    assert shown == pytest.approx(seconds, rel=5e-3) and f" {rate_text(seconds)} s" in drawing.title
