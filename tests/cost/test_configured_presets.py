"""Published models given by the fields of their config.json, against whole models that `transformers` builds from them.

On torch's meta device, in bfloat16, without memory; caches and states after 9 and 40 tokens.
"""

from __future__ import annotations

import random
import re

import pytest
import torch
import transformers

from attnviz.cost import count_parameters, kv_cache_bytes, load_described, load_presets
from attnviz.cost.cached import cached_by_kind, state_bytes
from attnviz.facts import published_facts
from attnviz.practice.drills.heads import published_with
from tests.cost import decoders

PRESETS = load_presets()
CONFIGS = {id: facts["config"] for id, facts in published_facts().items() if "config" in facts}
SAME = {"kimi_k2": "deepseek_v3"}  # as transformers names it
FIRST = "qwen3-next-80b-a3b"
OTHERS = [pytest.param(id, marks=pytest.mark.slow) for id in CONFIGS if id != FIRST]


def live(id: str) -> torch.nn.Module:
    fields = dict(CONFIGS[id])
    model_type = fields.pop("model_type")
    configuration = decoders.configured(SAME.get(model_type, model_type), **fields)
    with torch.device("meta"):
        return transformers.AutoModelForCausalLM.from_config(configuration, dtype=torch.bfloat16).eval()


@pytest.mark.parametrize("id", [FIRST, *OTHERS])
def test_it_has_the_parameters_the_cache_and_the_state_of_transformers(id):
    built, model = live(id), PRESETS[id]
    assert count_parameters(model).total == decoders.n_parameters(built) - decoders.n_unused(built)
    if CONFIGS[id]["model_type"] not in decoders.REAL:  # those run only with weights
        for n_tokens in (9, 40):
            assert decoders.expected(model, n_tokens) == decoders.held(built, n_tokens)


@pytest.mark.parametrize("id", CONFIGS)
def test_its_parameters_are_near_those_that_its_maker_gives(id):
    """The number in the name, which makers round, and which may include a vision encoder or multi-token prediction."""
    found = re.search(r"\b([\d.]+)([MBT])\b", PRESETS[id].name.replace("-", " "))
    if found is None:
        assert id in {"gemma-3n-e4b", "gemma-4-e4b"}  # E4B: four billions that are used at a time
        return
    said = float(found[1]) * {"M": 1e6, "B": 1e9, "T": 1e12}[found[2]]
    assert count_parameters(PRESETS[id]).total == pytest.approx(
        said, rel=0.055, abs=0.07e9 if "." in found[1] else 0.9e9
    )


@pytest.mark.parametrize(
    "id, total",
    [
        ("falcon-h1-3b", 3_149_387_264), ("falcon-h1-7b", 7_585_648_736), ("falcon-mamba-7b", 7_272_665_088),
        ("granite-4.0-h-1b", 1_461_538_368), ("granite-4.0-h-tiny", 6_939_037_248), ("lfm2-2.6b", 2_569_272_320),
    ],
)  # fmt: skip
def test_its_parameters_are_those_of_the_published_weights(id, total):
    """The sum that the sources give of the published tensors."""
    assert count_parameters(PRESETS[id]).total == total


@pytest.mark.parametrize(
    "id, n_tokens, cache, n_layers",
    [
        ("gemma-3-1b", 32_768, (4 * 32_768 + 22 * 512) * 1_024, 26),  # 139 MiB: four global layers
        ("nemotron-3-super-120b-a12b", 1_000, 8 * 1_000 * 2 * 2 * 128 * 2, 8),  # 8 of 88 layers hold a cache
        ("qwen3.5-27b", 1_000, 16 * 1_000 * 2 * 4 * 256 * 2, 16),
        ("kimi-linear-48b-a3b", 1_000, 7 * 1_000 * 576 * 2, 7),
        ("deepseek-v3.2", 1_000, 61 * 1_000 * (576 + 128) * 2, 61),  # the latent, its RoPE key and the indexer's key
        ("jamba-1.5-large", 1_000, 9 * 1_000 * 2 * 8 * 128 * 2, 9),
        ("granite-4.0-h-small", 1_000, 4 * 1_000 * 2 * 8 * 128 * 2, 4),
        ("minimax-text-01", 1_000, 10 * 1_000 * 2 * 8 * 128 * 2, 10),
        ("lfm2-8b-a1b", 1_000, 6 * 1_000 * 2 * 8 * 64 * 2, 6),
        ("falcon-mamba-7b", 1_000, 0, 0),
    ],
)
def test_only_layers_of_attention_hold_a_cache(id, n_tokens, cache, n_layers):
    model = PRESETS[id]
    assert kv_cache_bytes(model, n_tokens) - state_bytes(model) == cache
    assert sum(kind.n_layers for kind in cached_by_kind(model, n_tokens) if kind.cache) == n_layers


def test_questions_are_asked_about_models_described_by_their_own_fields():
    drawn = []
    published_with(random.Random(7), lambda m: not drawn.append(m.id))
    assert set(drawn) == load_described().keys() and CONFIGS.keys() == PRESETS.keys() - set(drawn)
