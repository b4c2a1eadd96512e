"""Checkpoints of a base model without its output layer, and a config.json that disagrees with the weights."""

import json
from pathlib import Path

import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
)  # fmt: skip

from attnviz.checkpoints import OpenError, open_model, opened
from tests.checkpoints.tokenizers import byte_level
from tests.oracles import agree

SIZES = dict(
    vocab_size=302, hidden_size=24, intermediate_size=20, num_hidden_layers=2, num_attention_heads=2,
    num_key_value_heads=1, head_dim=6, max_position_embeddings=64,
)  # fmt: skip
MODELS = {
    "llama": lambda: LlamaForCausalLM(LlamaConfig(**SIZES, tie_word_embeddings=True)),
    "gemma3": lambda: Gemma3ForCausalLM(Gemma3TextConfig(**SIZES)),
    "gpt2": lambda: GPT2LMHeadModel(GPT2Config(vocab_size=302, n_embd=24, n_layer=2, n_head=2)),
}


def rewrite(folder: Path, **fields: object) -> None:
    facts = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(facts | fields))


@pytest.mark.parametrize("name", MODELS)
def test_a_base_model_with_tied_embeddings_opens(name, tmp_path):
    MODELS[name]().base_model.save_pretrained(tmp_path)
    byte_level(tmp_path)
    ids = torch.tensor([[1, 2, 3]])
    theirs = AutoModelForCausalLM.from_pretrained(tmp_path)
    assert agree(open_model(tmp_path)[0](ids), theirs(ids).logits, 1e-4)
    rewrite(tmp_path, architectures=[type(theirs).__name__])  # as written by hand
    assert agree(open_model(tmp_path)[0](ids), theirs(ids).logits, 1e-4)


def test_one_without_an_output_layer_says_what_to_save(tmp_path):
    LlamaForCausalLM(LlamaConfig(**SIZES)).base_model.save_pretrained(tmp_path)
    with pytest.raises(OpenError, match=r"base model \(LlamaModel\) without the output layer .*ForCausalLM"):
        open_model(tmp_path)


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("llama", {"head_dim": 8}, r"q_proj.weight must .* \(16, 24\), not \(12, 24\): config.json and the weights "
                                   "disagree on hidden_size or num_attention_heads or head_dim"),
        ("llama", {"vocab_size": 9}, r"embed_tokens.weight .* disagree on hidden_size or vocab_size"),
        ("llama", {"intermediate_size": 9}, "mlp.* disagree on hidden_size or intermediate_size"),
        ("gpt2", {"n_positions": 9}, "wpe.weight .* disagree on n_embd or n_positions"),
        ("gpt2", {"n_layer": 3}, "n_layer is 3 in config.json, and the weights have 2 layers"),
    ],
)  # fmt: skip
def test_sizes_that_disagree_with_the_weights_are_named(name, change, words, tmp_path):
    MODELS[name]().save_pretrained(tmp_path)
    rewrite(tmp_path, **change)
    with pytest.raises(OpenError, match=words):
        open_model(tmp_path)


def test_thousands_of_layers_are_refused_before_they_are_built(tmp_path, monkeypatch):
    MODELS["llama"]().save_pretrained(tmp_path)
    rewrite(tmp_path, num_hidden_layers=10_000)
    monkeypatch.setattr(opened, "Transformer", pytest.fail)
    with pytest.raises(OpenError, match="num_hidden_layers is 10,000 in config.json, and the weights have 2 layers"):
        open_model(tmp_path)
