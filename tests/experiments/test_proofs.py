"""The equivalent formulations: they agree where they should, they can fail, and other computations confirm the numbers.

.venv/bin/python -m pytest tests/experiments/test_proofs.py
"""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from attnviz.config import ModelConfig
from attnviz.experiments.equalities import Comparison, cached_bytes, equalities_in_both, tiling
from attnviz.modules import Recording, Transformer, attend
from attnviz.modules import attention as attention_module
from attnviz.modules.transformer import layer_input

CONFIG = ModelConfig(n_layers=3, d_model=13, n_heads=6, n_kv_heads=2, head_dim=10, d_ff=17, vocab_size=19)
MLA = ModelConfig(
    n_layers=2, d_model=13, n_heads=3, attention="mla", kv_lora_rank=7, qk_rope_head_dim=2, qk_nope_head_dim=5,
    v_head_dim=11, d_ff=17, vocab_size=19,
)  # fmt: skip
IDS = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5]


def equalities(model: Transformer, ids: list[int], layer: int, dtype: str = "float32") -> list[Comparison]:
    return [both[dtype == "float64"] for both in equalities_in_both(model, ids, layer)]


def model_of(**changes) -> Transformer:
    model = Transformer.random(replace(CONFIG, attention=None, **changes), seed=3)
    generator = torch.Generator().manual_seed(4)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if name.endswith("bias"):
                p.normal_(generator=generator)
    return model


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"n_kv_heads": 6},
        {"n_kv_heads": 1},
        {"qkv_bias": True, "o_bias": True},
        {"position": "none", "causal": False},
        {"sliding_window": 3},
        {"rope_layout": "interleaved"},
        {"n_heads": 1, "n_kv_heads": 1},
    ],
    ids=str,
)
def test_every_equality_holds_on_every_kind_of_layer(changes, dtype):
    found = equalities(model_of(**changes), IDS, 1, dtype)
    assert len(found) == 4
    for c in found:
        assert c.equal, c
        assert c.dtype == dtype
        assert 0 <= c.difference <= c.tolerance < (1e-3 if dtype == "float32" else 1e-11)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_latent_attention_absorbed_is_expanded(dtype):
    found = equalities(Transformer.random(MLA, 0), IDS, 1, dtype)
    assert [c.claim for c in found] == ["Absorbed form = expanded form", "Matches PyTorch's kernel"]
    assert all(c.equal for c in found)


def test_the_two_sides_are_not_one_computation():
    """In float32 different orders of summation leave a trace somewhere: not every difference is exactly zero."""
    differences = [c.difference for layer in range(3) for c in equalities(model_of(), IDS, layer)]
    assert any(d > 0 for d in differences)


@pytest.mark.parametrize("broken", ["scale", "tiled"])
def test_a_broken_attention_is_found_out(monkeypatch, broken):
    """The comparisons can fail: each mistake in attend() makes at least two of them unequal."""

    def wrong(q, k, v, mask=None, **options):
        if broken == "scale":
            return attend(q, k, v, mask, **{**options, "scale": q.shape[-1] ** -0.4})
        tiles = q.shape[1] // k.shape[1]
        return attend(q, k.repeat(1, tiles, 1, 1), v.repeat(1, tiles, 1, 1), mask, **options)

    monkeypatch.setattr(attention_module, "attend", wrong)
    unequal = [c.claim for c in equalities(model_of(), IDS, 1) if not c.equal]
    assert "Matches PyTorch's kernel" in unequal and len(unequal) >= 2


def test_the_input_is_what_the_layer_gets_inside_the_model():
    model, seen = model_of(sliding_window=4), []
    model.blocks[2].attn.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    with torch.no_grad():
        model(torch.tensor([IDS]))
    torch.testing.assert_close(layer_input(model, IDS, 2), seen[0])


def test_tiling_differs_by_what_the_published_mistake_gives():
    model = model_of()
    found = tiling(model, IDS, 1)
    record = Recording()
    with torch.no_grad():
        model.double()(torch.tensor([IDS]), record=record)
    r, o_proj = record[1], model.blocks[1].attn.o_proj

    def output(k, v):
        read = F.scaled_dot_product_attention(r.q, k, v, is_causal=True)
        return o_proj(read.transpose(1, 2).flatten(2))

    right = output(r.k.repeat_interleave(3, 1), r.v.repeat_interleave(3, 1))
    wrong = output(r.k.repeat(1, 3, 1, 1), r.v.repeat(1, 3, 1, 1))
    # the model above ran in float64, the comparison in float32
    assert found.difference == pytest.approx((right - wrong).abs().max().item(), rel=1e-4)
    assert not found.equal


@pytest.mark.parametrize("n_kv_heads", [1, 6])
def test_tiling_is_harmless_only_at_both_ends(n_kv_heads):
    assert tiling(model_of(n_kv_heads=n_kv_heads), IDS, 0).equal


def test_nothing_of_the_model_is_changed():
    model = model_of()
    before = {name: p.clone() for name, p in model.state_dict().items()}
    equalities_in_both(model, IDS, 0)
    tiling(model, IDS, 0)
    assert all(p.dtype == torch.float32 and torch.equal(p, before[n]) for n, p in model.state_dict().items())


@pytest.mark.parametrize("config", [CONFIG, MLA], ids=["gqa", "mla"])
def test_the_cache_is_counted_as_a_model_with_weights_fills_it(config):
    model = Transformer.random(config, 0)
    cache = model.new_cache()
    with torch.no_grad():
        model(torch.tensor([IDS]), cache=cache)
    assert cached_bytes(config, len(IDS)) == sum(layer.nbytes for layer in cache)
    numbers = 2 * 2 * 10 if config is CONFIG else 7 + 2  # 2 · K · D, or R + P
    assert cached_bytes(config, len(IDS)) == len(IDS) * config.n_layers * numbers * 4
