"""Weights are read into memory of this process, in the order of transformers, and only if all numbers are finite."""

import json
import os
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from attnviz.checkpoints import OpenError, open_model, weights
from tests.checkpoints.tokenizers import byte_level

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
SIZES = dict(vocab_size=302, hidden_size=24, intermediate_size=20, num_hidden_layers=2, num_attention_heads=2)


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("saved")
    LlamaForCausalLM(LlamaConfig(**SIZES, max_position_embeddings=64)).bfloat16().save_pretrained(folder)
    byte_level(folder)
    return folder


@pytest.fixture
def llama(saved, tmp_path) -> Path:
    return shutil.copytree(saved, tmp_path / "llama")


def change(folder: Path, name: str, change) -> None:
    """Change one tensor of a folder's weights in place."""
    tensors = load_file(folder / WEIGHTS)
    change(tensors[name])
    save_file(tensors, folder / WEIGHTS, {"format": "pt"})


def test_an_open_model_does_not_change_with_its_file(llama):
    model, _ = open_model(llama)
    before = model(torch.tensor([[1, 2, 3]]))
    assert str(llama) not in Path("/proc/self/maps").read_text()  # a mapped file that is shortened raises SIGBUS
    with (llama / WEIGHTS).open("r+b") as file:
        file.truncate(1000)
        file.write(b"\0" * 500)
    assert torch.equal(model(torch.tensor([[1, 2, 3]])), before)


def test_a_file_that_is_shortened_while_it_is_read_is_a_sentence(llama):
    found = weights.entries([llama / WEIGHTS])
    os.truncate(llama / WEIGHTS, 1000)
    with pytest.raises(ValueError, match="model.safetensors became shorter while it was read; open the model again"):
        found["model.norm.weight"].read("model.norm.weight")


def test_a_fused_tensor_is_read_once(tmp_path):
    GPT2LMHeadModel(GPT2Config(vocab_size=302, n_embd=24, n_layer=2, n_head=2)).save_pretrained(tmp_path)
    byte_level(tmp_path)
    attn = open_model(tmp_path)[0].blocks[1].attn
    assert len({p.weight.untyped_storage().data_ptr() for p in (attn.q_proj, attn.k_proj, attn.v_proj)}) == 1


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_numbers_that_are_not_finite_are_counted_and_named(value, llama):
    """They are in rows that a check of a few tokens does not read."""
    change(llama, "model.embed_tokens.weight", lambda tensor: tensor[40:300].fill_(value))
    words = (
        r"6,240 of the 7,248 weights in the tensor model.embed_tokens.weight are not finite numbers .*download the file"
    )
    with pytest.raises(OpenError, match=words):
        open_model(llama)


def test_a_single_one_is_found_in_each_part_of_a_large_tensor(monkeypatch):
    monkeypatch.setattr(weights, "COUNTED_AT_ONCE", 7)
    for at in (0, 6, 7, 19):
        tensor = torch.zeros(4, 5, dtype=torch.float16)
        tensor.view(-1)[at] = torch.inf
        with pytest.raises(ValueError, match="1 of the 20 weights in the tensor x is not a finite number"):
            weights._refuse_non_finite("x", tensor)
    weights._refuse_non_finite("x", torch.full((3, 0), torch.nan))


def test_weights_larger_than_the_machines_memory_are_refused(llama, monkeypatch):
    monkeypatch.setattr(os, "sysconf", {"SC_PAGE_SIZE": 4, "SC_PHYS_PAGES": 250}.__getitem__)
    with pytest.raises(OpenError, match=r"weights take 0.0 GB, and this machine has 0.0 GB of memory; open a smaller"):
        open_model(llama)


def test_one_file_is_read_before_an_index_as_by_transformers(llama):
    tensors = load_file(llama / WEIGHTS)
    other = "model-00001-of-00001.safetensors"
    save_file({name: torch.zeros_like(tensor) for name, tensor in tensors.items()}, llama / other, {"format": "pt"})
    (llama / INDEX).write_text(json.dumps({"weight_map": dict.fromkeys(tensors, other)}))
    theirs = LlamaForCausalLM.from_pretrained(llama).model.embed_tokens.weight
    assert torch.equal(open_model(llama)[0].embed.weight, theirs.float()) and theirs.any()
