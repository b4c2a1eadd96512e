"""The model that is run stays as it was."""

from __future__ import annotations

import pickle
import threading

import numpy as np
import pytest
import torch

from attnviz.recording.eager import recorded
from attnviz.recording.of_transformers import run
from tests.recording import models, readers
from tests.recording.compare import TEXT, returned


def state(model) -> dict:
    configs = {name: module.config for name, module in model.named_modules() if hasattr(module, "config")}
    sections = {name: getattr(model.config, name) for name in model.config.sub_configs}
    return {
        "attention": {name: config._attn_implementation for name, config in (configs | sections).items()},
        "training": {name: module.training for name, module in model.named_modules()},
        "hooks": {name: len(module._forward_hooks) for name, module in model.named_modules()},
        "attributes": {name: sorted(vars(module)) for name, module in model.named_modules()},
        "grad": [(parameter.requires_grad, parameter.grad) for parameter in model.parameters()],
        "config": model.config.to_dict(),
        "generation": model.generation_config.to_dict(),
    }


def test_the_model_stays_as_it_was():
    model, tokenizer = models.DECODERS["Qwen3"](), readers.byte_level()
    model.train()
    model.model.layers[1].eval()
    for parameter in model.model.layers[0].parameters():
        parameter.requires_grad_(False)
    before, random = state(model), torch.get_rng_state()
    assert before["attention"][""] == "sdpa"
    run(model, tokenizer, TEXT, generate=2, qkv=True, logits=True)
    assert state(model) == before and torch.equal(torch.get_rng_state(), random)
    pickle.dumps(model)  # hooks of transformers would not allow it
    with pytest.raises(ValueError, match="rows: the tokenizer is another model's"):
        run(model, tokenizer, [5, 4000])
    assert state(model) == before
    model.model.norm.forward = None
    with pytest.raises(TypeError):
        run(model, tokenizer, TEXT)
    del model.model.norm.forward
    assert state(model) == before
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    assert "get_interface" not in vars(ALL_ATTENTION_FUNCTIONS)


def test_each_part_of_a_composite_model_keeps_its_attention():
    text = dict(models.GQA) | {"sliding_window": 5}
    vision = models.PICTURE | {"image_size": 40}
    model = models.random("Gemma3ForConditionalGeneration", "Gemma3Config", text_config=text, vision_config=vision)
    model.set_attn_implementation({"": "sdpa", "text_config": "sdpa", "vision_config": "eager"})
    before = state(model)
    assert {before["attention"][name] for name in ("text_config", "vision_config")} == {"sdpa", "eager"}
    recorded = run(model, readers.byte_level(), TEXT)
    assert recorded.kinds[0].n_layers == 3 and recorded.kinds[0].causal and state(model) == before


def test_two_threads_record_their_own_models():
    names = ("Llama", "GPT-2")
    built = {name: models.DECODERS[name]() for name in names}
    tokenizer = readers.byte_level()
    expected = {name: run(built[name], tokenizer, TEXT, qkv=True) for name in names}
    found = {name: [] for name in names}

    def repeat(name):
        found[name] += [run(built[name], tokenizer, TEXT, qkv=True) for _ in range(5)]

    threads = [threading.Thread(target=repeat, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for name in names:
        assert len(found[name]) == 5
        for each in found[name]:
            assert np.array_equal(each.k["self"][2], expected[name].k["self"][2])
            assert np.array_equal(each.kinds[0].layers[2], expected[name].kinds[0].layers[2])


def test_a_model_that_another_thread_runs_is_not_recorded():
    mine, other = models.DECODERS["Llama"](), models.eager_copy(models.DECODERS["Qwen3"]())
    with recorded(mine, max_bytes=10**6, qkv=True) as recorder:
        thread = threading.Thread(target=other, args=(torch.tensor([[5, 6, 7]]),))
        thread.start()
        thread.join()
        assert not recorder._computed
        other(torch.tensor([[5, 6, 7]]))
        assert len(recorder._computed) == 3


def test_queries_keys_and_values_are_kept_only_if_they_are_asked_for():
    """Of a large model they take as much memory as the weights."""
    model, ids = models.eager_copy(models.DECODERS["Llama"]()), torch.tensor([[5, 6, 7]])
    for qkv in (False, True):
        with recorded(model, max_bytes=10**6, qkv=qkv) as recorder:
            weights = model(ids, output_attentions=True).attentions[2]
        assert recorder.n_kv_heads(weights) == 2 and (recorder.vectors(weights) is not None) == qkv


def test_a_model_in_half_precision_is_read_as_float32():
    model, tokenizer = models.DECODERS["Qwen3"]().to(torch.bfloat16), readers.byte_level()
    recorded = run(model, tokenizer, TEXT, qkv=True, logits=True)
    expected = returned(model, **tokenizer(TEXT, return_tensors="pt")).attentions
    assert (
        max(np.abs(a - b[0].float().numpy()).max() for a, b in zip(recorded.kinds[0].layers, expected, strict=True))
        == 0
    )
    assert recorded.kinds[0].layers[0].dtype == recorded.q["self"][0].dtype == np.float32
