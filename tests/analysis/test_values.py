"""The outputs of heads, against the module's own output projection and the model's own logits."""

import numpy as np
import pytest
import torch

from attnviz.analysis.values import logit_effects, mean_logit_effects, writes
from attnviz.checkpoints import load_checkpoint
from attnviz.compute.heads import w_o
from attnviz.config import ModelConfig
from attnviz.modules import Transformer
from attnviz.trace import final_stream, logits_of, trace

IDS = [5, 17, 3, 101, 17, 3, 211, 7, 2, 19, 31]
OWN = ModelConfig(n_layers=3, d_model=70, n_heads=5, n_kv_heads=5, vocab_size=223)


@pytest.fixture(scope="module", params=["gqa-2", "mla", "own"])
def model(request):
    return Transformer.random(OWN, 11) if request.param == "own" else load_checkpoint(request.param)[0]


def written(model, run, layer, head):
    kv_head = run.config.mixer.kv_head_of[head]
    return writes(run.weights[layer, head], run.v[layer, kv_head], w_o(model, layer, head))


@torch.inference_mode()
def outputs_of_o_proj(model, ids, n_padding=0):
    """Return (C,) of each token and layer, as computed by o_proj itself."""
    found = []
    hooks = [b.attn.o_proj.register_forward_hook(lambda _, __, out: found.append(out[0].numpy())) for b in model.blocks]
    trace(model, ids, n_padding)
    for hook in hooks:
        hook.remove()
    return found


@pytest.mark.parametrize("n_padding", [0, 3])
def test_the_heads_outputs_add_up_to_that_of_o_proj(model, n_padding):
    run = trace(model, IDS, n_padding)
    for layer, expected in enumerate(outputs_of_o_proj(model, IDS, n_padding)):
        total = sum(written(model, run, layer, h).outputs for h in range(model.config.n_heads))
        assert np.abs(total - expected).max() < 2e-5 * max(1, np.abs(expected).max())


def test_norms_of_each_key_are_those_of_the_vectors_that_are_summed(model):
    run, layer, head = trace(model, IDS), 1, 3
    w = torch.tensor(w_o(model, layer, head)).double()
    v = torch.tensor(run.v[layer, run.config.mixer.kv_head_of[head]]).double()
    found = written(model, run, layer, head)
    for q, k in [(10, 4), (7, 0), (3, 3)]:
        weighted = float(run.weights[layer, head, q, k]) * v[k]
        assert found.weighted[q, k] == pytest.approx(float(weighted.norm()), rel=1e-6)
        assert found.projected[q, k] == pytest.approx(float((w @ weighted).norm()), rel=1e-6)
    assert found.projected[2, 5] == 0  # masked
    assert (found.norms <= found.projected.sum(-1) + 1e-9).all()  # a sum is no longer than its parts together


def test_the_final_stream_is_what_the_logits_come_from(model):
    stream = torch.tensor(final_stream(model, IDS, 2))
    with torch.inference_mode():
        x = model.norm(stream)
        logits = x @ (model.embed.weight if model.lm_head is None else model.lm_head.weight).T
    assert np.allclose(logits.numpy(), trace(model, IDS, 2).logits, atol=1e-4)
    assert np.allclose(logits_of(model, stream[3].numpy()), logits[3], atol=1e-5)


def effects(model, output, stream):
    unembedding = (model.embed if model.lm_head is None else model.lm_head).weight.detach().numpy()
    return logit_effects(output, stream, model.norm.weight.detach().numpy(), model.norm.eps, unembedding)


def test_the_effects_of_all_parts_of_the_stream_add_up_to_the_logits(model):
    """The effect of the whole stream is the logits minus their mean, and the effects of its parts add up to it."""
    stream, q = final_stream(model, IDS), 7
    logits = trace(model, IDS).logits[q].astype(np.float64)
    assert np.allclose(effects(model, stream[q], stream[q]), logits - logits.mean(), atol=1e-4)
    parts = np.random.default_rng(13).normal(size=(3, stream.shape[1]))
    summed = sum(effects(model, part, stream[q]) for part in parts)
    assert np.allclose(effects(model, parts.sum(0), stream[q]), summed)
    assert np.allclose(effects(model, 2.5 * parts[0], stream[q]), 2.5 * effects(model, parts[0], stream[q]))


@pytest.mark.parametrize("centred", [False, True])
def test_the_mean_effect_is_that_of_all_tokens(centred):
    """By torch in float64, each of the 113 logits of each part: its norm's divisor is the stream's."""
    numbers = np.random.default_rng(17)
    parts, gain, unembedding = numbers.normal(size=(5, 23)), numbers.normal(size=23), numbers.normal(size=(113, 23))
    stream = parts.sum(0) + 0.7
    x, whole = torch.tensor(parts), torch.tensor(stream)
    divisor = (whole.var(unbiased=False) if centred else whole.square().mean()).add(1e-3).sqrt()
    x = x - x.mean(1, keepdim=True) if centred else x
    expected = (x / divisor * torch.tensor(gain)) @ torch.tensor(unembedding).T  # (5, 113)
    found = mean_logit_effects(parts, stream, gain, 1e-3, unembedding, centred)
    assert np.allclose(found, expected.mean(1))
    for part, logits in zip(parts, expected, strict=True):
        effect = logit_effects(part, stream, gain, 1e-3, unembedding, centred)
        assert np.allclose(effect, logits - logits.mean())
