"""A model with layers of gated DeltaNet: it decodes as it recomputes, is traced, counted and refused by name."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from attnviz.config import ConfigError
from attnviz.cost import count_parameters
from attnviz.decode import Sampling, generate
from attnviz.experiments.measurement import decode
from attnviz.layerwise import LayerwiseTrace
from attnviz.mechanisms import Dense, Layer
from attnviz.modules import Transformer
from attnviz.modules.delta import gated_delta_rule
from attnviz.trace import trace, trace_bytes
from tests.mixed import DELTA, HYBRID, H

IDS = [5, 7, 2, 5, 19, 30, 0, 5, 7, 11, 13]


@pytest.fixture
def model() -> Transformer:
    return Transformer.random(HYBRID, seed=3)


def test_the_same_seed_gives_the_same_weights_and_the_formula_counts_them(model):
    other = Transformer.random(HYBRID, seed=3)
    for one, two in zip(model.parameters(), other.parameters(), strict=True):
        assert torch.equal(one, two) and one.isfinite().all()
    assert count_parameters(HYBRID).total == sum(p.numel() for p in model.parameters())
    rates = [block.attn.A_log.exp() for block in (model.blocks[0], model.blocks[2])]
    assert all(rate.min() >= 1 and rate.max() <= 16 for rate in rates)


@torch.inference_mode()
def test_decoding_equals_recomputing(model):
    whole = model(torch.tensor([IDS]))
    cache = model.new_cache()
    steps = [decode(model, torch.tensor([[token]]), cache) for token in IDS]
    assert (torch.cat(steps, 1) - whole).abs().max() < 1e-4
    assert [len(each) for each in cache] == [len(IDS)] * 3
    state = sum(int(each.numbers.value) for each in DELTA.state())
    assert cache[0].nbytes == 4 * state and cache[1].nbytes == 4 * 2 * 3 * 13 * len(IDS)
    written = [step.id for step in generate(model, IDS, 4, Sampling(temperature=0))]
    greedy = list(IDS)
    for _ in range(4):
        greedy.append(int(model(torch.tensor([greedy]))[0, -1].argmax()))
    assert written == greedy[-4:]


def test_a_trace_holds_each_layers_own(model):
    traced = trace(model, IDS)
    assert trace_bytes(HYBRID, len(IDS)) == traced.nbytes
    maps = [layer.mixer.maps for layer in traced.layers]
    assert maps == ["effective weights", "attention weights", "effective weights"]
    for one in (traced.layers[0], traced.layers[2]):
        output = np.stack([one.weights_of(h) @ one.values_of(h) for h in range(H)])
        np.testing.assert_allclose(output, one.own["rule_output"], atol=1e-5)
        given = (one.q, np.stack([one.keys_of(h) for h in range(H)]), one.v, one.own["decay"], one.own["beta"])
        again, state = gated_delta_rule(*(torch.tensor(x)[None] for x in given))
        np.testing.assert_allclose(again[0], one.own["rule_output"], atol=1e-5)
        np.testing.assert_allclose(state[0], one.own["state"], atol=1e-5)
        assert np.array_equal(one.allowed, np.tril(np.ones((len(IDS),) * 2, bool)))
    lazy = LayerwiseTrace(lambda: model, IDS)
    np.testing.assert_allclose(lazy.layers[2].weights, traced.layers[2].weights, atol=1e-5)
    np.testing.assert_allclose(lazy.logits, traced.logits, atol=1e-4)


def test_padding_is_not_read_by_any_layer(model):
    padded, plain = trace(model, [9, 4, 9, *IDS], n_padding=3), trace(model, IDS)
    for one, other in zip(padded.layers, plain.layers, strict=True):
        if not one.mixer.attends:
            np.testing.assert_allclose(one.own["rule_output"][:, 3:], other.own["rule_output"], atol=1e-5)
            assert not one.weights[:, :, :3].any()


def test_what_does_not_run_is_refused_by_name():
    def hybrid(**fields):
        return replace(HYBRID, mixed_layers=(Layer((replace(DELTA, **fields), Dense(23))), *HYBRID.mixed_layers[1:]))

    for config, name in [
        (replace(HYBRID, causal=False), "causal"),
        (hybrid(decay="low rank"), "decay"),
        (hybrid(gate="low rank"), "gate"),
        (hybrid(n_key_heads=4), "n_key_heads must divide"),
    ]:
        with pytest.raises(ConfigError, match=name):
            Transformer.random(config, 0)
    assert "one decay per head" in replace(DELTA, decay="full").cannot("run") and not DELTA.cannot("run")
