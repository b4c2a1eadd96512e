"""Decoding with a cache gives the logits of the whole text, and the text of transformers' generate."""

import math
from dataclasses import replace

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from attnviz.checkpoints import load_checkpoint
from attnviz.checks import ConfigError
from attnviz.decode import Sampling, distribution, generate, limited_cache, losses, read
from attnviz.decode.sampling import draw, uniform
from attnviz.modules import Recording, Transformer
from tests.decode.models import GROUPED, LATENT, PROMPT, small
from tests.oracles import agree

TEXT = "Once upon a time there was a little boy who lived in a house by the sea"


@pytest.mark.parametrize("name", ["mha", "mqa", "mla"])
def test_cached_logits_are_those_of_the_whole_text_recomputed(name):
    model, tokens = load_checkpoint(name)
    ids = tokens.encode(TEXT)
    steps = list(generate(model, ids, 23, Sampling(temperature=0.8, top_p=0.9, seed=5)))
    whole = ids + [step.id for step in steps]
    assert len(steps) == 23
    recomputed = model(torch.tensor([whole[:-1]]))[0, len(ids) - 1 :]
    for step, logits in zip(steps, recomputed, strict=True):
        assert agree(step.logits, logits)
        assert step.probability == pytest.approx(float(logits.softmax(-1)[step.id]), abs=1e-5)
    assert all(len(layer) == len(whole) - 1 for layer in steps[-1].cache)


def test_greedy_decoding_writes_what_transformers_writes():
    theirs, ours = theirs_and_ours("gqa-4")
    ids = load_checkpoint("gqa-4")[1].encode(TEXT)
    written = theirs.generate(
        torch.tensor([ids]), max_new_tokens=31, do_sample=False, pad_token_id=0, eos_token_id=None
    )
    assert [step.id for step in generate(ours, ids, 31, Sampling(temperature=0))] == written[0, len(ids) :].tolist()


def test_generation_stops_with_the_token_that_ends_the_text_as_in_transformers():
    theirs, ours = theirs_and_ours("gqa-4")
    ids = load_checkpoint("gqa-4")[1].encode(TEXT)
    free = [step.id for step in generate(ours, ids, 31, Sampling(temperature=0))]
    for ends in ({free[11]}, {free[5], free[17]}):
        stopped = [step.id for step in generate(ours, ids, 31, Sampling(temperature=0), ends=ends)]
        written = theirs.generate(
            torch.tensor([ids]), max_new_tokens=31, do_sample=False, pad_token_id=0, eos_token_id=[*ends]
        )
        assert stopped == written[0, len(ids) :].tolist() and len(stopped) < 31 and stopped[-1] in ends


def theirs_and_ours(name: str) -> tuple[LlamaForCausalLM, Transformer]:
    """The checkpoint, and transformers' Llama with its weights."""
    ours, _ = load_checkpoint(name)
    c = ours.config
    theirs = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=c.vocab_size, hidden_size=c.d_model, intermediate_size=c.d_ff, num_hidden_layers=c.n_layers,
            num_attention_heads=c.n_heads, num_key_value_heads=c.n_kv_heads, head_dim=c.head_dim, rms_norm_eps=1e-6,
            rope_parameters={"rope_type": "default", "rope_theta": c.rope_theta}, tie_word_embeddings=True,
        )
    ).eval()  # fmt: skip
    names = {
        "embed": "model.embed_tokens", "blocks": "model.layers", "attn": "self_attn", "ffn": "mlp",
        "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
    }  # fmt: skip
    weights = {
        ".".join(names.get(part, part) for part in name.split(".")): value for name, value in ours.state_dict().items()
    }
    weights["model.norm.weight"] = weights.pop("norm.weight")
    weights["lm_head.weight"] = weights["model.embed_tokens.weight"]
    theirs.load_state_dict(weights)
    return theirs, ours


@pytest.mark.parametrize("settings", [GROUPED, LATENT])
def test_each_token_is_drawn_from_the_distribution_behind_the_text(settings):
    model, sampling, ids = small(**settings), Sampling(temperature=1.3, top_k=7, repetition_penalty=1.1), list(PROMPT)
    for step in generate(model, PROMPT, 19, sampling):
        logits = model(torch.tensor([ids]))[0, -1].detach()
        assert step.id == draw(distribution(logits, ids, sampling), uniform(0, len(ids)))
        ids.append(step.id)


@pytest.mark.parametrize("settings", [GROUPED, LATENT])
def test_an_interrupted_text_goes_on_with_its_cache_as_if_written_at_once(settings):
    model, sampling = small(**settings), Sampling(temperature=1.5, seed=3)
    at_once = [step.id for step in generate(model, PROMPT, 13, sampling)]
    ids, cache = list(PROMPT), None
    for n in (1, 5, 7):
        for step in generate(model, ids, n, sampling, cache):
            ids, cache = [*ids, step.id], step.cache
    assert ids[len(PROMPT) :] == at_once
    assert len(set(at_once)) > 3


def test_another_seed_writes_another_text():
    texts = {tuple(s.id for s in generate(small(), PROMPT, 13, Sampling(seed=seed))) for seed in range(5)}
    assert len(texts) == 5


@pytest.mark.parametrize("settings", [GROUPED, LATENT])
def test_what_is_recorded_is_the_last_row_of_each_map(settings):
    model, record = small(**settings), Recording()
    steps = list(generate(model, PROMPT, 3, record=record))
    whole = Recording()
    model(torch.tensor([PROMPT + [steps[0].id, steps[1].id]]), record=whole)
    for layer in range(2):
        assert agree(record[4 + layer].weights, whole[layer].weights[:, :, -1:])


def test_the_loss_of_each_token_is_that_of_the_whole_text():
    model, ids = small(), PROMPT * 2
    expected = torch.nn.functional.cross_entropy(
        model(torch.tensor([ids]))[0, :-1], torch.tensor(ids[1:]), reduction="none"
    )
    assert losses(model, ids, model.new_cache()) == pytest.approx(expected.tolist(), abs=1e-5)


def test_a_window_of_the_model_itself_is_kept_to():
    model = small(sliding_window=3, full_layers=(1,), **GROUPED)
    cache = model.new_cache()
    stepwise = torch.cat([read(model, [i], cache) for i in PROMPT])
    assert agree(stepwise, model(torch.tensor([PROMPT]))[0])
    without = model.with_config(replace(model.config, sliding_window=None, full_layers=()))
    assert not agree(stepwise, without(torch.tensor([PROMPT]))[0], 1e-3)


def test_nothing_needs_a_gradient_and_grad_mode_is_left_as_it_was():
    step = next(generate(small(), PROMPT, 1))
    assert not step.logits.requires_grad and torch.is_grad_enabled()


def test_what_cannot_be_continued_is_refused_at_once():
    model = small()
    for ids in ([], [17], [-1]):
        with pytest.raises(ConfigError):
            generate(model, ids, 1)
    with pytest.raises(ConfigError, match="n_tokens"):
        generate(model, PROMPT, -1)
    step = list(generate(model, PROMPT, 1))[0]
    with pytest.raises(ValueError, match=f"holds {len(PROMPT)} tokens"):
        generate(model, PROMPT, 1, cache=step.cache)


def test_no_tokens_may_be_asked_for():
    assert list(generate(small(), PROMPT, 0)) == []


def test_a_full_cache_ends_the_text():
    model = small()
    steps = list(generate(model, PROMPT, 50, Sampling(temperature=0), limited_cache(model, 13)))
    assert len(steps) == 3 and len(steps[-1].cache[0]) == 13  # 11, 12 and 13 tokens were read
    free = list(generate(model, PROMPT, 3, Sampling(temperature=0)))
    assert [s.id for s in steps] == [s.id for s in free]
    assert math.isclose(len(losses(model, PROMPT, limited_cache(model, 5))), 5)
