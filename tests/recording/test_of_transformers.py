"""Models of transformers, run by `attnviz.run`: maps, labels, what is kept, and that the model stays as it was.

Each map is compared with what transformers returns for a copy of the model made with eager attention, and of two models
with a softmax computed by hand from their weights.
"""

from __future__ import annotations

import inspect
import pickle
import subprocess
import sys
import threading

import numpy as np
import pytest
import torch

import attnviz
from attnviz.recording.of_transformers import run
from tests.recording import models, readers

TEXT = "The little girl 床 found a red ball."
TARGET = "A red ball."
START = {"T5": 0, "BART": 2, "Marian": 0}  # the id with which the decoder begins


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def returned(model, **batch):
    """Return what transformers returns for a copy of the model with eager attention."""
    with torch.no_grad():
        return models.eager_copy(model)(**batch, output_attentions=True)


def differences(kind, expected) -> list[float]:
    assert kind.n_layers == len(expected) and [layer.dtype for layer in kind.layers] == [np.float32] * kind.n_layers
    return [float(np.abs(layer - each[0].numpy()).max()) for layer, each in zip(kind.layers, expected, strict=True)]


# ---- maps


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
    shifted = [START[name], *target[:-1]]
    expected = returned(model, input_ids=torch.tensor([read]), decoder_input_ids=torch.tensor([shifted]))
    assert [kind.name for kind in recorded.kinds] == ["encoder", "decoder", "cross"]
    for kind, key in zip(recorded.kinds, ("encoder", "decoder", "cross"), strict=True):
        assert max(differences(kind, expected[f"{key}_attentions"])) < 1e-6
    encoder, decoder, cross = recorded.kinds
    assert (encoder.n_layers, decoder.n_layers) == (3, 2) and not encoder.causal and decoder.causal
    assert (
        cross.tokens == decoder.tokens and cross.key_tokens == encoder.tokens and cross.layers[0].shape[1:] == (4, 13)
    )
    assert decoder.tokens[1:] == ("A", "·red", "·ball")
    assert recorded.output_from is None and recorded.title == "two texts"


@pytest.mark.parametrize("name", models.PICTURES)
def test_a_picture_is_read_in_patches(name):
    make, before = models.PICTURES[name]
    model = make()
    processor = readers.image_processor(40 if name == "SigLIP" else 56, 40)
    picture = np.random.default_rng(3).integers(0, 256, (61, 97, 3), dtype=np.uint8)
    recorded = run(model, processor, picture)
    pixels = processor(images=picture, return_tensors="pt")["pixel_values"]
    assert max(differences(recorded.kinds[0], returned(model, pixel_values=pixels).attentions)) < 1e-6
    rows = 5 if name == "SigLIP" else 7
    assert recorded.patches == (rows, 5) and recorded.n_before == len(before)
    assert list(recorded.kinds[0].tokens[: len(before) + 6]) == [*before, "1,1", "1,2", "1,3", "1,4", "1,5", "2,1"]
    resized = processor(images=picture, return_tensors="np", do_normalize=False, do_rescale=False)["pixel_values"][0]
    assert np.abs(recorded.picture.transpose(2, 0, 1).astype(int) - resized).max() <= 1


def test_a_patch_is_named_by_its_place_in_the_picture():
    """Change the pixels of one patch: of the first layer's keys, that patch's alone changes."""
    model, processor = models.PICTURES["DINOv2, registers"][0](), readers.image_processor()
    picture = np.random.default_rng(3).integers(0, 256, (56, 40, 3), dtype=np.uint8)
    other = picture.copy()
    other[24:32, 8:16] = 255 - other[24:32, 8:16]  # row 4, column 2 of 8 × 8 pixels
    first, second = (run(model, processor, each, qkv=True) for each in (picture, other))
    changed = np.abs(first.k["self"][0] - second.k["self"][0]).max(axis=(0, 2)) > 1e-6  # (S,)
    assert [first.kinds[0].tokens[i] for i in changed.nonzero()[0]] == ["4,2"]


# ---- by hand


def rotated(x: np.ndarray, theta: float = 10_000.0) -> np.ndarray:
    """Apply RoPE to (H, T, D): dimension i turns with i + D / 2."""
    n, width = x.shape[1:]
    half = width // 2
    angles = np.arange(n)[:, None] * theta ** (-np.arange(half) * 2 / width)  # (T, D/2)
    cos, sin = np.cos(angles), np.sin(angles)
    first, second = x[..., :half], x[..., half:]
    return np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)


def softmax(scores: np.ndarray) -> np.ndarray:
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


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


# ---- queries, keys, values, logits


@pytest.mark.parametrize(
    "name", ["Llama", "Qwen3", "Mistral, window", "Gemma 3, windows", "DeepSeek-V3, MLA", "ModernBERT"]
)
def test_weights_are_the_softmax_of_the_queries_and_keys(name):
    recorded = run(models.TEXTS[name](), readers.byte_level(), TEXT, qkv=True)
    (kind,) = recorded.kinds
    for weights, q, k, n_kv in zip(kind.layers, recorded.q["self"], recorded.k["self"], kind.n_kv_heads, strict=True):
        of_group = np.arange(len(q)) * n_kv // len(q)
        scores = np.einsum("htd,hsd->hts", q, k[of_group]) / np.sqrt(q.shape[-1])
        scores[weights == 0] = -np.inf
        assert len(k) == n_kv and np.abs(softmax(scores) - weights).max() < 1e-4
    windows = {len(set((layer[0] > 0).sum(axis=-1))) for layer in kind.layers}
    assert ("window" in name) == (min(windows) == 5 and len(kind.tokens) == 13)


@pytest.mark.parametrize("name", ["gpt-oss, sinks", "Gemma 2, capped"])
def test_queries_are_left_out_where_their_scores_are_not_those_of_the_weights(name):
    recorded = run(models.DECODERS[name](), readers.byte_level(), TEXT, qkv=True)
    assert not recorded.q and len(recorded.k["self"]) == len(recorded.v["self"]) == 3
    assert any("queries" in note and "left out" in note for note in recorded.sentences)
    assert ("sum to" in " ".join(recorded.sentences)) == ("sinks" in name)


def test_a_relative_bias_is_said_and_cross_attention_keeps_its_queries():
    recorded = run(models.TWO_TEXTS["T5"](), readers.byte_level(), TEXT, target=TARGET, qkv=True)
    assert set(recorded.q) == {"cross"} and set(recorded.k) == {"encoder", "decoder", "cross"}
    weights, q, k = (each["cross"][1] for each in ({"cross": recorded.kind("cross").layers}, recorded.q, recorded.k))
    assert np.abs(softmax(np.einsum("htd,hsd->hts", q, k) / np.sqrt(7)) - weights).max() < 1e-4
    assert any("scales q · k by 1;" in note for note in recorded.notes)


@pytest.mark.parametrize(
    "name, expected",
    [
        ("Qwen3", 2),
        ("Phi", 3),
        ("GPT-2", 5),
        ("Falcon, MQA", 1),
        ("BLOOM, ALiBi", None),
        ("DeepSeek-V3, MLA", 6),
        ("BERT", 5),
    ],
)
def test_kv_heads_are_those_that_ran(name, expected):
    assert set(run(models.TEXTS[name](), readers.byte_level(), TEXT).kinds[0].n_kv_heads) == {expected}


def test_a_model_with_attention_code_of_its_own_says_that_it_passes_on_no_queries():
    recorded = run(models.DECODERS["BLOOM, ALiBi"](), readers.byte_level(), TEXT, qkv=True)
    assert not recorded.q and not recorded.k and "does not pass on the queries" in recorded.notes[0]


def test_logits_are_one_row_per_token():
    model, tokenizer = models.DECODERS["Llama"](), readers.byte_level()
    expected = returned(model, **tokenizer(TEXT, return_tensors="pt")).logits[0]
    recorded = run(model, tokenizer, TEXT, logits=True)
    assert recorded.logits.shape == (13, models.VOCAB) and np.abs(recorded.logits - expected.numpy()).max() < 1e-4
    assert run(model, tokenizer, TEXT).logits is None
    assert "no logits" in run(models.ENCODERS["RoBERTa"](), tokenizer, TEXT, logits=True).notes[0]


def test_a_hybrid_names_the_layers_that_have_weights():
    recorded = run(models.DECODERS["Qwen3-Next, linear"](), readers.byte_level(), TEXT)
    assert recorded.names == ("layers.3", "layers.7")
    assert recorded.notes == (
        "Layers 0, 1, 2, 4, 5 and 6, counted from 0, have no attention weights: linear_attention.",
    )


# ---- what a model writes


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


# ---- labels


@pytest.mark.parametrize(
    "make, expected",
    [
        (readers.byte_level, ["The", "·little", "·", "床 1/3", "床 2/3", "床 3/3", "·a", "</s>"]),
        (readers.word_piece, ["[CLS]", "the", "lit", "##tle", "[UNK]", "a", *["[UNK]"] * 2, "s", "[UNK]", "[SEP]"]),
        (readers.unigram, ["·The", "·lit", "tle", "·", "床 1/3", "床 2/3", "床 3/3", "·a", "</s>", "</s>"]),
    ],
)  # fmt: skip
def test_tokens_are_labelled_as_they_are_read(make, expected):
    kind = run(models.ENCODERS["BERT"](), make(), "The little 床 a</s>").kinds[0]
    assert list(kind.tokens) == expected


def test_what_continues_a_word_is_marked():
    assert run(models.ENCODERS["BERT"](), readers.word_piece(), "girls").kinds[0].tokens == (
        "[CLS]",
        "girl",
        "##s",
        "[SEP]",
    )


def test_ids_a_pair_and_a_tokenizer_of_the_library_are_read():
    bert, tokenizer = models.ENCODERS["BERT"](), readers.word_piece()
    ids = tokenizer("the girl")["input_ids"]
    pair = run(bert, tokenizer, ("the girl", "a ball"))
    assert pair.kinds[0].tokens == ("[CLS]", "the", "girl", "[SEP]", "a", "ball", "[SEP]")
    expected = returned(bert, **tokenizer("the girl", "a ball", return_tensors="pt")).attentions
    assert max(differences(pair.kinds[0], expected)) < 1e-6
    same = [run(bert, tokenizer, each) for each in ("the girl", ids, torch.tensor(ids), tokenizer("the girl"))]
    same.append(run(bert, tokenizer.backend_tokenizer, "the girl"))
    assert {each.kinds[0].tokens for each in same} == {("[CLS]", "the", "girl", "[SEP]")}
    assert run(bert, None, ids).kinds[0].tokens == ("id 2", *(f"id {i}" for i in ids[1:]))


@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_is_trimmed(side):
    model, tokenizer = models.DECODERS["Llama"](), readers.byte_level()
    padded = tokenizer(TEXT, padding="max_length", max_length=19, padding_side=side, return_tensors="pt")
    recorded, plain = run(model, tokenizer, padded), run(model, tokenizer, TEXT)
    assert recorded.kinds[0].tokens == plain.kinds[0].tokens
    assert np.array_equal(recorded.kinds[0].layers[2], plain.kinds[0].layers[2])


# ---- the model stays as it was


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


def test_a_model_in_half_precision_is_read_as_float32():
    model, tokenizer = models.DECODERS["Qwen3"]().to(torch.bfloat16), readers.byte_level()
    recorded = run(model, tokenizer, TEXT, qkv=True, logits=True)
    expected = returned(model, **tokenizer(TEXT, return_tensors="pt")).attentions
    assert (
        max(np.abs(a - b[0].float().numpy()).max() for a, b in zip(recorded.kinds[0].layers, expected, strict=True))
        == 0
    )
    assert recorded.kinds[0].layers[0].dtype == recorded.q["self"][0].dtype == np.float32


# ---- what is refused

REFUSED = [
    ("Llama", dict(text=""), "the text has no tokens"),
    ("Llama", dict(text=["a", "b"]), "one text at a time, not a list of 2"),
    ("Llama", dict(text=3.5j), "a text is a string"),
    ("Llama", dict(text=TEXT, target="b"), "LlamaForCausalLM has one text"),
    ("Llama", dict(text=TEXT, generate=-1), "generate must be a whole number"),
    ("Llama", dict(text={"attention_mask": [[1]]}), "reads input_ids; the batch has attention_mask"),
    ("Llama", dict(text={"input_ids": [[5, 6], [7, 8]]}), "a batch of 2"),
    ("Llama", dict(text={"input_ids": [[5, 6, 7]], "attention_mask": [[1, 0, 1]]}), "hides tokens between others"),
    ("BERT", dict(text="a " * 70), "embeddings for 61 positions"),
    ("BERT", dict(text="a", generate=2), "BertForMaskedLM has no generate"),
    ("GPT-2", dict(text="a", generate=61), "62 tokens are too many"),
    ("BART", dict(text="a", target="b", generate=2), "give one of them"),
    ("BART", dict(text="a", target=[]), "the target has no tokens"),
    ("T5", dict(text="a " * 100, generate=3, max_bytes=100_000), "3 layers × 5 heads × 101 × 101 weights; max_"),
    ("Llama", dict(text="a", generate=99, max_bytes=100_000), "3 layers × 6 heads × 100 × 100 weights"),
    ("Llama", dict(text="a a a", logits=True, max_bytes=4_000), "× 331 logits"),
]  # fmt: skip


@pytest.mark.parametrize("name, given, sentence", REFUSED)
def test_what_cannot_be_run_is_said_before_it_runs(name, given, sentence, monkeypatch):
    model = models.TEXTS[name]()
    before = inspect.signature(model.forward)

    def forward(*args, **kwargs):
        raise AssertionError("the model ran")

    forward.__signature__ = before
    monkeypatch.setattr(model, "forward", forward)
    with pytest.raises(ValueError) as error:
        run(model, readers.byte_level(), given.pop("text") if "text" in given else TEXT, **given)
    assert sentence in str(error.value) and "\n" not in str(error.value)


def without_weights():
    return models.random(
        "MambaForCausalLM", "MambaConfig", vocab_size=models.VOCAB, hidden_size=32, num_hidden_layers=2
    )


def in_windows():
    return models.random("SwinModel", "SwinConfig", image_size=56, patch_size=4, embed_dim=12, depths=[1, 1],
                         num_heads=[2, 3], window_size=7)  # fmt: skip


def as_wide_as_the_text():
    """A Longformer whose weights have as many columns as there are tokens."""
    return models.random("LongformerModel", "LongformerConfig", **models.MHA, attention_window=[4] * 3)


def not_switched():
    fields = models.MHA | {"hidden_size": 60}
    return models.random("FalconForCausalLM", "FalconConfig", **fields, multi_query=True, **models.IDS)


@pytest.mark.parametrize(
    "make, given, sentence",
    [
        (without_weights, TEXT, "MambaForCausalLM returned no attention weights"),
        (as_wide_as_the_text, [5, 6, 7, 8, 9], "LongformerModel returns attention of the shape (1, 5, 5, 5)"),
        (
            not_switched,
            TEXT,
            "keeps the attention that it was loaded with, sdpa: load it with attn_implementation='eager'",
        ),
        (lambda: torch.nn.Linear(2, 3), TEXT, "attnviz.show(attention, tokens)"),
    ],
)
def test_a_model_without_a_weight_per_pair_of_tokens_is_refused(make, given, sentence):
    with pytest.raises(ValueError) as error:
        run(make(), readers.byte_level(), given)
    assert sentence in str(error.value)


def test_windows_of_a_picture_are_refused():
    picture = np.zeros((56, 56, 3), np.uint8)
    with pytest.raises(ValueError, match=r"SwinModel returns attention of the shape \(4, 2, 49, 49\)"):
        run(in_windows(), readers.image_processor(56, 56), picture)


def test_no_tokenizer_is_said():
    with pytest.raises(ValueError, match="the tokenizer is a NoneType"):
        run(models.ENCODERS["BERT"](), None, TEXT)


# ---- beside the others


def test_a_run_is_saved_and_opened_with_all_that_it_has(tmp_path):
    recorded = run(models.DECODERS["Qwen3"](), readers.byte_level(), TEXT, generate=3, qkv=True, logits=True)
    opened = attnviz.open_run(attnviz.save_run(tmp_path / "run.safetensors", recorded))
    assert opened.kinds[0].tokens == recorded.kinds[0].tokens and opened.output_from == 13
    assert opened.kinds[0].n_kv_heads == (2, 2, 2) and opened.title == "Qwen3ForCausalLM"
    for name in ("q", "k", "v"):
        assert np.array_equal(getattr(opened, name)["self"][2], getattr(recorded, name)["self"][2])
    assert np.array_equal(opened.logits, recorded.logits)


def test_neither_torch_nor_transformers_is_imported_before_a_model_runs():
    code = "import sys, attnviz; attnviz.run; print(not {'torch', 'transformers'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "True\n"
