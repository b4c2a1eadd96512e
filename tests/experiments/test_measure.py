"""Counts and timings of the live modules; no test depends on durations.

pytest tests/experiments/test_measure.py
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from attnviz.config import ConfigError, ModelConfig
from attnviz.cost import kv_cache_bytes
from attnviz.experiments import measurement
from attnviz.experiments.measurement import REPEATS, counted_cache_bytes, counted_parameters, decode, timings
from attnviz.modules import Transformer

ROOT = Path(__file__).resolve().parents[2]
GQA = ModelConfig(n_layers=2, d_model=30, n_heads=6, n_kv_heads=2, head_dim=8, d_ff=41, vocab_size=101)
MLA = ModelConfig(
    n_layers=2, d_model=30, n_heads=5, attention="mla", kv_lora_rank=11, qk_nope_head_dim=7, qk_rope_head_dim=4,
    v_head_dim=3, d_ff=41, vocab_size=101,
)  # fmt: skip


@pytest.mark.parametrize("config", [GQA, MLA])
def test_what_is_counted_without_memory_is_what_a_model_in_memory_holds(config):
    live = Transformer.random(config, seed=0)
    assert counted_parameters(config)[0] == sum(p.numel() for p in live.parameters())
    cache = live.new_cache()
    decode(live, torch.zeros(3, 5, dtype=torch.int64), cache)
    assert counted_cache_bytes(config, 5, 3) * 2 == sum(layer.nbytes for layer in cache)  # bf16 against float32


@pytest.mark.parametrize(
    "change",
    [
        {}, {"n_layers": 5}, {"tie_embeddings": False}, {"qkv_bias": True, "o_bias": True}, {"ffn_bias": True},
        {"sliding_window": 3, "full_layers": (1,), "position": "none", "name": "a"},
    ],
    ids=str,
)  # fmt: skip
def test_one_layer_counted_n_layers_times_is_the_whole_counted(change):
    config = replace(GQA, **change)
    live = Transformer.random(config, seed=0)
    attention = sum(p.numel() for p in live.blocks[-1].attn.parameters())
    assert counted_parameters(config) == (sum(p.numel() for p in live.parameters()), attention)
    cache = live.new_cache()
    decode(live, torch.zeros(2, 3, dtype=torch.int64), cache)
    assert counted_cache_bytes(config, 3, 2, bits=32) == sum(layer.nbytes for layer in cache)


def test_what_changes_no_tensor_is_counted_once():
    config = replace(GQA, d_ff=43)
    counted_parameters(config)
    kept = measurement._counted_sizes.cache_info()
    for change in ({"sliding_window": 7, "n_sinks": 2}, {"causal": False}, {"rope_theta": 77.0}, {"n_layers": 9}):
        counted_parameters(replace(config, **change))
    found = measurement._counted_sizes.cache_info()
    assert (found.misses, found.hits) == (kept.misses, kept.hits + 4)


def test_what_does_not_run_live_is_not_counted():
    for count in (counted_parameters, lambda config: counted_cache_bytes(config, 3)):
        with pytest.raises(ConfigError, match="qk_norm"):
            count(replace(GQA, qk_norm="width"))


@pytest.mark.slow
def test_counting_imports_none_of_torchs_compiler():
    """A matrix product on the meta device would import it: more than a second and 70 MB, once."""
    code = (
        "import gc; gc.disable()  # an import creates what stays\n"
        "import sys, torch; from attnviz.config import ModelConfig\n"
        "from attnviz.modules import Transformer; from attnviz.experiments import measurement\n"
        "before = set(sys.modules)\n"
        "latent = dict(attention='mla', kv_lora_rank=4, qk_nope_head_dim=4, qk_rope_head_dim=2, v_head_dim=4)\n"
        "for c in (ModelConfig(2, 24, 6, 2, qkv_bias=True), ModelConfig(2, 24, 6, **latent, q_lora_rank=3)):\n"
        "    measurement.counted_parameters(c), measurement.counted_cache_bytes(c, 2**20, 7)\n"
        "    Transformer.random(c, 0)\n"
        "new = set(sys.modules) - before\n"
        "print(len(new), 'sympy' in new)"
    )
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    n_new, sympy = run.stdout.split()
    assert sympy == "False" and int(n_new) < 20, run.stdout


def test_a_million_tokens_can_be_counted():
    assert counted_cache_bytes(GQA, 2**20) == kv_cache_bytes(GQA, 2**20)


@pytest.mark.parametrize("config", [GQA, MLA, replace(GQA, sliding_window=3), replace(GQA, tie_embeddings=False)])
def test_decoding_token_by_token_gives_the_logits_of_reading_at_once(config):
    live, ids = Transformer.random(config, seed=1), torch.tensor([[5, 3, 99, 5, 7, 0, 2]])
    cache = live.new_cache()
    steps = torch.cat([decode(live, ids[:, i : i + 1], cache) for i in range(ids.shape[1])], dim=1)  # (1, T, vocab)
    torch.testing.assert_close(steps, live(ids), rtol=1e-4, atol=1e-4)


def test_every_model_is_timed_at_every_context_with_a_cache_of_that_length():
    found = list(timings([GQA, MLA], [4, 9]))
    assert [(t.config, t.n_tokens) for t in found] == [(GQA, 4), (MLA, 4), (GQA, 9), (MLA, 9)]
    for t in found:
        assert len(t.seconds) == REPEATS and min(t.seconds) > 0 and min(t.seconds) <= t.median <= max(t.seconds)
        assert t.cache_bytes == kv_cache_bytes(t.config, t.n_tokens, bits=32)


def test_a_cache_that_would_be_too_large_is_left_out(monkeypatch):
    monkeypatch.setattr(measurement, "LARGEST_CACHE", kv_cache_bytes(MLA, 9, bits=32))
    assert [(t.config, t.n_tokens) for t in timings([GQA, MLA], [4, 9])] == [(GQA, 4), (MLA, 4), (MLA, 9)]
