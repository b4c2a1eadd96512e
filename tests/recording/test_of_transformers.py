"""Models of transformers, run by `attnviz.run`: three kinds of attention, and what a model writes.

Each map is compared with what transformers returns for a copy of the model made with eager attention, and of two models
with a softmax computed by hand from their weights.
"""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch

import attnviz
from attnviz.recording.of_transformers import run
from tests.recording import models, readers
from tests.recording.compare import TARGET, TEXT, differences, returned, softmax

START = {"T5": 0, "BART": 2, "Marian": 0}  # the id with which the decoder begins


@pytest.mark.parametrize("name", [*models.DECODERS, *models.ENCODERS])
def test_maps_are_those_of_transformers(name):
    model, tokenizer = models.TEXTS[name](), readers.byte_level()
    recorded = run(model, tokenizer, TEXT)
    (kind,) = recorded.kinds
    expected = returned(model, input_ids=tokenizer(TEXT, return_tensors="pt")["input_ids"]).attentions
    assert kind.name == "self" and max(differences(kind, expected)) < 1e-6
    assert kind.causal == (name in models.DECODERS) and len(kind.tokens) == 13
    rows = np.sort(kind.layers[0][:, -1], axis=-1)
    assert rows[:, -1].max() > 0.2, "nearly uniform weights compare nothing"


@pytest.mark.parametrize("name", models.TWO_TEXTS)
def test_an_encoder_decoder_has_three_kinds(name):
    model, tokenizer = models.TWO_TEXTS[name](), readers.byte_level()
    recorded = run(model, tokenizer, TEXT, target=TARGET, title="two texts")
    read, target = (tokenizer(text)["input_ids"] for text in (TEXT, TARGET))
    shifted = [START[name], *target]  # this tokenizer ends no text with </s>: all its tokens are read
    expected = returned(model, input_ids=torch.tensor([read]), decoder_input_ids=torch.tensor([shifted]))
    assert [kind.name for kind in recorded.kinds] == ["encoder", "decoder", "cross"]
    for kind, key in zip(recorded.kinds, ("encoder", "decoder", "cross"), strict=True):
        assert max(differences(kind, expected[f"{key}_attentions"])) < 1e-6
    encoder, decoder, cross = recorded.kinds
    assert (encoder.n_layers, decoder.n_layers) == (3, 2) and not encoder.causal and decoder.causal
    assert (
        cross.tokens == decoder.tokens and cross.key_tokens == encoder.tokens and cross.layers[0].shape[1:] == (5, 13)
    )
    assert decoder.tokens[1:] == ("A", "·red", "·ball", ".")
    assert recorded.output_from is None and recorded.title == "two texts"


def test_the_end_token_of_a_target_has_no_row():
    """Nothing follows </s>, which this tokenizer adds; ids that are given end where they end."""
    model, tokenizer = models.TWO_TEXTS["T5"](), readers.unigram()
    ended = run(model, tokenizer, TEXT, target="The girl.").kind("decoder")
    assert ended.tokens[1:] == ("·The", "·girl", ".") and tokenizer("The girl.")["input_ids"][-1] == 1
    for ids in ([257, 258, 259], torch.tensor([[257, 258, 259]]), np.array([257, 258, 259])):
        assert run(model, tokenizer, TEXT, target=ids).kind("decoder").layers[0].shape == (5, 4, 4)


def rotated(x: np.ndarray, theta: float = 10_000.0) -> np.ndarray:
    """Apply RoPE to (H, T, D): dimension i turns with i + D / 2."""
    n, width = x.shape[1:]
    half = width // 2
    angles = np.arange(n)[:, None] * theta ** (-np.arange(half) * 2 / width)  # (T, D/2)
    cos, sin = np.cos(angles), np.sin(angles)
    first, second = x[..., :half], x[..., half:]
    return np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)


def heads(x: np.ndarray, linear: torch.nn.Linear, n: int) -> np.ndarray:
    """Return x (T, C) after a linear layer, as (n, T, D)."""
    y = x @ linear.weight.detach().numpy().astype(float).T + linear.bias.detach().numpy()
    return y.reshape(len(x), n, -1).swapaxes(0, 1)


def test_the_first_layer_of_a_llama_is_computed_by_hand():
    model, tokenizer = models.DECODERS["Llama"](), readers.byte_level()
    recorded = run(model, tokenizer, TEXT, qkv=True)
    layer = model.model.layers[0]
    x = model.model.embed_tokens.weight.detach().numpy().astype(float)[tokenizer(TEXT)["input_ids"]]  # (T, C)
    x = x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + model.config.rms_norm_eps)
    x = x * layer.input_layernorm.weight.detach().numpy()
    attention = layer.self_attn
    q, k = rotated(heads(x, attention.q_proj, 6)), rotated(heads(x, attention.k_proj, 2))
    scores = np.einsum("htd,hsd->hts", q, k[[0, 0, 0, 1, 1, 1]]) / np.sqrt(14)  # (H, T, S)
    scores[:, ~np.tri(len(x), dtype=bool)] = -np.inf
    assert np.abs(recorded.kinds[0].layers[0] - softmax(scores)).max() < 1e-5
    assert np.abs(recorded.q["self"][0] - q).max() < 1e-4 and np.abs(recorded.k["self"][0] - k).max() < 1e-4
    assert np.abs(recorded.v["self"][0] - heads(x, attention.v_proj, 2)).max() < 1e-4
    assert recorded.kinds[0].n_kv_heads == (2, 2, 2) and recorded.sentences == ()


def test_the_first_layer_of_a_bert_is_computed_by_hand():
    model, tokenizer = models.ENCODERS["BERT"](), readers.word_piece()
    ids = tokenizer(TEXT)["input_ids"]
    table, layer = model.bert.embeddings, model.bert.encoder.layer[0].attention.self
    parts = (
        table.word_embeddings.weight[ids],
        table.position_embeddings.weight[: len(ids)],
        table.token_type_embeddings.weight[0],
    )
    x = sum(part.detach().numpy().astype(float) for part in parts)  # (T, C)
    x = (x - x.mean(axis=-1, keepdims=True)) / np.sqrt(x.var(axis=-1, keepdims=True) + model.config.layer_norm_eps)
    x = x * table.LayerNorm.weight.detach().numpy() + table.LayerNorm.bias.detach().numpy()
    q, k = heads(x, layer.query, 5), heads(x, layer.key, 5)
    weights = softmax(np.einsum("htd,hsd->hts", q, k) / np.sqrt(7))
    recorded = run(model, tokenizer, TEXT)
    assert np.abs(recorded.kinds[0].layers[0] - weights).max() < 1e-5 and not recorded.kinds[0].causal


@torch.no_grad()
def greedy(model, ids: list[int], n: int, **batch) -> list[int]:
    """Return the ids with the n most probable ones after them, each from a run on all tokens before it."""
    name = "decoder_input_ids" if batch else "input_ids"
    for _ in range(n):
        ids = [*ids, int(model(**batch, **{name: torch.tensor([ids])}).logits[0, -1].argmax())]
    return ids


def test_the_rows_of_what_a_model_writes_are_its_output():
    model, tokenizer = models.DECODERS["Qwen3"](), readers.byte_level()
    model.generation_config.eos_token_id = None
    recorded = run(model, tokenizer, TEXT, generate=5)
    ids = greedy(models.eager_copy(model), tokenizer(TEXT)["input_ids"], 5)
    (kind,) = recorded.kinds
    assert recorded.output_from == 13 and len(kind.tokens) == 18 and kind.first_row == 0
    assert max(differences(kind, returned(model, input_ids=torch.tensor([ids])).attentions)) < 1e-6
    assert kind.tokens[:13] == run(model, tokenizer, TEXT).kinds[0].tokens


def test_a_decoder_deeper_than_its_encoder_writes():
    sizes = dict(vocab_size=models.VOCAB, d_model=31, d_kv=7, d_ff=37, num_layers=2, num_decoder_layers=3, num_heads=5)
    model = models.random("T5ForConditionalGeneration", "T5Config", **sizes, eos_token_id=None)
    recorded = run(model, readers.byte_level(), TEXT, generate=4)
    assert [kind.n_layers for kind in recorded.kinds] == [2, 3, 3] and len(recorded.kind("cross").tokens) == 5


def test_a_decoder_that_has_its_causal_mask_only_without_a_cache_is_run_without():
    fields = dict(d_model=60, encoder_layers=2, decoder_layers=2, encoder_attention_heads=5, decoder_attention_heads=3)
    sizes = dict(src_vocab_size=models.VOCAB, tgt_vocab_size=models.VOCAB, encoder_ffn_dim=37, decoder_ffn_dim=41)
    model = models.random(
        "FSMTForConditionalGeneration", "FSMTConfig", **fields, **sizes, langs=["en", "de"], **models.IDS
    )
    assert run(model, readers.byte_level(), TEXT, target=TARGET).kind("decoder").causal


@pytest.mark.parametrize("generate, n", [(4, 5), (0, 33)])
def test_an_encoder_decoder_writes_its_second_text(generate, n):
    model, tokenizer = models.TWO_TEXTS["BART"](), readers.byte_level()
    model.generation_config.eos_token_id = model.generation_config.forced_eos_token_id = None
    recorded = run(model, tokenizer, TEXT, generate=generate)
    read = tokenizer(TEXT, return_tensors="pt")["input_ids"]
    ids = greedy(models.eager_copy(model), [2], n - 1, input_ids=read)
    expected = returned(model, input_ids=read, decoder_input_ids=torch.tensor([ids]))
    assert recorded.output_from == 1 and len(recorded.kind("decoder").tokens) == n
    assert max(differences(recorded.kind("cross"), expected.cross_attentions)) < 1e-6


def test_a_run_is_saved_and_opened_with_all_that_it_has(tmp_path):
    recorded = run(models.DECODERS["Qwen3"](), readers.byte_level(), TEXT, generate=3, qkv=True, logits=True)
    opened = attnviz.open_run(attnviz.save_run(tmp_path / "run.safetensors", recorded))
    assert opened.kinds[0].tokens == recorded.kinds[0].tokens and opened.output_from == 13
    assert opened.kinds[0].n_kv_heads == (2, 2, 2) and opened.title == "Qwen3ForCausalLM"
    for name in ("q", "k", "v"):
        assert np.array_equal(getattr(opened, name)["self"][2], getattr(recorded, name)["self"][2])
    assert np.array_equal(opened.logits, recorded.logits)


def test_a_run_describes_itself_in_a_line():
    """A notebook prints what a cell ends with: not the arrays."""
    tokenizer = readers.byte_level()
    recorded = run(models.DECODERS["Qwen3"](), tokenizer, TEXT, qkv=True, logits=True)
    assert (
        repr(recorded) == "<Qwen3ForCausalLM: self-attention, 3 layers × 6 heads, 13 tokens; with q, k, v and logits>"
    )
    two = repr(run(models.TWO_TEXTS["BART"](), tokenizer, TEXT, target=TARGET, title="mine"))
    assert two.startswith(
        "<mine: encoder self-attention, 3 layers × 5 heads, 13 tokens; decoder self-attention, 2 layers"
    )
    assert two.endswith("; cross-attention, 2 layers × 3 heads, 5 query tokens, 13 key tokens>")


def test_neither_torch_nor_transformers_is_imported_before_a_model_runs():
    code = "import sys, attnviz; attnviz.run; print(not {'torch', 'transformers'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "True\n"
