"""The shipped weights match their card, and a damaged file gives a one-sentence error.

The texts here were written for this project, so the training never saw them.
"""

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from attnviz.checkpoints import FOLDER, CheckpointError, list_checkpoints, load_checkpoint, shipped_config
from attnviz.config import FAMILY, SHIPPED, ModelConfig
from attnviz.cost import cache
from attnviz.modules import Transformer
from attnviz.session.shared import DEFAULT_TEXT
from attnviz.text import tokenizer
from attnviz.trace import trace
from attnviz.training.evaluate import bits_per_character, passages, previous_token, repetition_scores
from attnviz.training.export import save_checkpoint

STORY = (Path(__file__).parents[2] / "attnviz" / "compute" / "long_text.txt").read_text(encoding="utf-8")
SCORES = json.loads((FOLDER / "scores.json").read_text())
LEAST_GAIN = {"hybrid": 0.2}  # nats per token: with attention in one layer of four it looks up less of a text
KV_HEADS = {"mha": 8, "gqa-4": 4, "gqa-2": 2, "mqa": 1}


@pytest.fixture(scope="module", params=SHIPPED)
def shipped(request):
    model, tokenizer = load_checkpoint(request.param)
    return request.param, model, torch.tensor(tokenizer.encode(STORY)), tokenizer


def test_the_family_is_whole_and_small():
    assert list_checkpoints() == list(SHIPPED)
    sizes = [(FOLDER / f"{name}.safetensors").stat().st_size for name in SHIPPED]
    assert max(sizes) <= 5e6 and sum(sizes) <= 40e6


def test_they_differ_in_their_attention_alone(shipped):
    name, model, *_ = shipped
    c, mha = model.config, shipped_config("mha")
    if name == "hybrid":
        assert [layer.mixer.attends for layer in c.layers] == [False, False, False, True]
        assert c.layers[3] == shipped_config("gqa-4").layers[3]
    elif name == "mla":
        assert c.attention == "mla" and cache(c, 1).value < cache(shipped_config("gqa-2"), 1).value
    else:
        assert c.n_kv_heads == KV_HEADS.get(name, 4)
    assert (c.n_layers, c.d_model, c.n_heads, c.d_ff, c.vocab_size) == (
        mha.n_layers, mha.d_model, mha.n_heads, mha.d_ff, mha.vocab_size,
    )  # fmt: skip


def test_a_head_looks_at_the_previous_token(shipped):
    name, model, ids, _ = shipped
    if name in FAMILY:  # in the hybrid a convolution and a state do it
        assert previous_token(model, passages(ids, 4, 128))["previous_token"] >= 0.5


@pytest.mark.slow
def test_a_head_looks_up_what_followed_in_real_text_and_in_random_tokens(shipped):
    name, model, ids, _ = shipped
    for segments in (passages(ids, 6, 40), torch.randint(2048, (6, 40))):
        scored = repetition_scores(model, segments)
        assert (scored["induction"] >= 0.30 or name not in FAMILY) and scored["gain"] >= LEAST_GAIN.get(name, 1.5), (
            scored
        )


@pytest.mark.slow
def test_a_story_it_never_saw_is_less_of_a_surprise_than_to_a_model_untrained(shipped):
    _, model, _, tokenizer = shipped
    untrained, start = Transformer.random(model.config, 0), STORY[:500]
    assert bits_per_character(model, tokenizer, start) < 1.9 < bits_per_character(untrained, tokenizer, start)


def test_the_cards_scores_are_those_of_trained_models_that_look_up():
    assert set(SCORES) == set(SHIPPED)
    for name, s in SCORES.items():
        assert s["bits_per_character"] <= {"mha": 1.55, "shared": 1.61}.get(name, 1.6), name
        assert s["previous_token"]["previous_token"] >= 0.5 or name not in FAMILY, name
        for kind in ("repeated_text", "repeated_random"):
            assert s[kind]["gain"] >= LEAST_GAIN.get(name, 1.5), (name, kind)
            assert s[kind]["induction"] >= 0.30 or name not in FAMILY, (name, kind)


def test_every_character_outside_ascii_is_split_into_its_bytes():
    """As the card says of the vocabulary."""
    vocabulary = tokenizer().token_bytes(list(range(tokenizer().vocab_size)))
    assert all(len(each) == 1 for each in vocabulary if not each.isascii())


def test_the_card_names_these_files_and_no_others():
    card = (FOLDER / "README.md").read_text()
    for name in SHIPPED:
        assert hashlib.sha256((FOLDER / f"{name}.safetensors").read_bytes()).hexdigest() in card
        assert f"{SCORES[name]['bits_per_character']:.3f}" in card


def test_the_front_pages_maps_are_the_checkpoints_own():
    with np.load(FOLDER / "front.npz", allow_pickle=False) as stored:
        model, tokenizer = load_checkpoint("gqa-4")
        assert stored["ids"].tolist() == tokenizer.encode(DEFAULT_TEXT)
        np.testing.assert_allclose(stored["weights"], trace(model, stored["ids"].tolist()).weights, atol=1e-3)


def test_weights_are_float16_in_the_file_and_float32_when_run(shipped):
    name, model, *_ = shipped
    with safe_open(FOLDER / f"{name}.safetensors", "pt") as file:
        assert all(file.get_tensor(key).dtype == torch.float16 for key in file.keys())  # noqa: SIM118
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    assert not any(p.requires_grad for p in model.parameters())


def test_a_checkpoint_round_trips(tmp_path):
    config = ModelConfig(2, 22, 11, 1, qkv_bias=True, full_layers=(1,), sliding_window=3, vocab_size=2048)
    model = Transformer.random(config, 0)
    save_checkpoint(model, tmp_path / "own.safetensors")
    again, tokenizer = load_checkpoint(tmp_path / "own.safetensors")
    assert again.config == config and tokenizer.vocab_size == 2048
    for a, b in zip(model.parameters(), again.parameters(), strict=True):
        assert torch.equal(a.half().float(), b)


def damaged(kind: str, path: Path) -> Path:
    good = (FOLDER / "mqa.safetensors").read_bytes()
    contents = {"truncated": good[:100_000], "empty": b"", "another kind of file": b"GIF89a" * 100}
    if kind in contents:
        path.write_bytes(contents[kind])
    elif kind == "no configuration":
        save_file({"embed.weight": torch.zeros(3, 5)}, path)
    elif kind == "impossible configuration":
        save_file({"embed.weight": torch.zeros(3, 5)}, path, {"config": '{"n_layers": 1, "d_model": 8, "n_heads": 3}'})
    elif kind == "tensors missing":
        config = json.dumps(shipped_config("mqa").to_dict())
        save_file({"embed.weight": torch.zeros(3, 5)}, path, {"config": config})
    elif kind == "a folder":
        path.mkdir()
    return path


@pytest.mark.parametrize(
    "kind",
    [
        "truncated", "empty", "another kind of file", "no configuration", "impossible configuration", "tensors missing",
        "a folder", "missing",
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_used_gives_one_clear_sentence(kind, tmp_path):
    with pytest.raises(CheckpointError) as error:
        load_checkpoint(damaged(kind, tmp_path / "x.safetensors"))
    assert "x.safetensors" in str(error.value) and "\n" not in str(error.value)


def test_those_beside_the_family_have_what_their_name_says():
    sinks, shared = map(shipped_config, ("sinks", "shared"))
    assert [(layer.mixer.window, layer.mixer.sink_logits) for layer in sinks.layers] == [(32, True), (None, True)] * 2
    assert [layer.shares_cache_of for layer in shared.layers] == [None, None, 1, 1]
    assert 2 * cache(shared, 1).value == cache(shipped_config("gqa-4"), 1).value


def test_the_indexer_keeps_most_of_what_dense_attention_would_weigh():
    """Of 256 tokens it keeps 32 keys: the nearest 32 keep less of the same maps in each layer."""
    assert {(layer.mixer.top_k, layer.mixer.n_kv_heads) for layer in shipped_config("sparse").layers} == {(32, 4)}
    dense, tokenizer = load_checkpoint("sparse")
    ids = tokenizer.encode(STORY)[:256]
    for block in dense.blocks:
        block.attn.top_k = 256
    kept, nearest = [], []
    for one in trace(dense, ids).layers:
        last = one.weights[:, 128:].mean(0)  # (128, 256), queries with at least 129 keys
        best = np.argsort(np.where(one.allowed[128:], one.own["index_scores"][128:], -np.inf))[:, -32:]
        kept.append(np.take_along_axis(last, best, 1).sum(-1).mean())
        near = np.arange(128, 256)[:, None] - np.arange(32)
        nearest.append(np.take_along_axis(last, near, 1).sum(-1).mean())
    assert np.mean(kept) > 0.7 and np.all(np.greater(kept, nearest)), (kept, nearest)
    assert kept[1] > nearest[1] + 0.4, (kept, nearest)  # the layer of the induction heads
