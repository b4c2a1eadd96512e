"""What a user can write to open a model, and opened models that cannot run or cannot read a text."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import LlamaConfig, LlamaForCausalLM

from attnviz.compute import models, query_groups
from attnviz.compute import opening as compute
from attnviz.compute.view import View
from attnviz.compute.vocabulary import vocabulary
from attnviz.session import openable
from attnviz.session.settings import Settings
from tests.checkpoints.tokenizers import byte_level


@pytest.fixture
def own_machine(monkeypatch):
    monkeypatch.delenv(openable.ALLOWED, raising=False)
    monkeypatch.setattr(openable, "is_local", lambda: True)


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    found = tmp_path / "owner" / "model"
    found.mkdir(parents=True)
    (found / "config.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    return found


@pytest.mark.usefixtures("own_machine")
def test_a_folder_is_found_however_its_path_is_written(folder):
    (folder / "part").mkdir()
    (folder / "part" / "config.json").write_text("{}")
    for written in (f"{folder}", f" {folder}/ ", f'"{folder}"', f"'{folder}'", f"{folder}/config.json", "owner/model",
                    "./owner/model", "owner/model/config.json", "owner/model/../model"):  # fmt: skip
        assert compute.resolved_name(written) == str(folder), written
    assert compute.resolved_name("owner/model/part") == str(folder / "part")  # no hub id: two slashes


@pytest.mark.usefixtures("own_machine")
def test_a_hub_id_stays_one(folder):
    (folder / "config.json").unlink()
    for name in ("owner/model", "owner/other", "gpt2"):  # a folder without a model is none
        assert compute.resolved_name(name) == name


@pytest.mark.usefixtures("own_machine")
def test_what_is_no_model_is_a_sentence(folder):
    (folder / "config.json").rename(folder / "adapter_config.json")
    for written, words in ((f"{folder}", "adapter.*merge it"), ("", "neither a path"), ("/nothing", "no folder"),
                           ("/" + "x" * 9000, "neither a path"), ("~nobody-here/x", "neither a path"),
                           ("a\0b", "neither a path"), ("owner/model/a/b", "neither a path")):  # fmt: skip
        with pytest.raises(models.OpenError, match=words):
            compute.resolved_name(written)


def test_where_no_model_may_be_chosen_a_relative_path_is_not_looked_up(folder, monkeypatch):
    monkeypatch.setenv(openable.ALLOWED, "owner/model")
    assert compute.resolved_name("owner/model") == "owner/model"


def saved(folder: Path, vocab_size: int, spoil=lambda weights: None) -> Settings:
    """Save a small Llama whose weights `spoil` changes; its tokenizer has 302 tokens."""
    config = LlamaConfig(vocab_size=vocab_size, hidden_size=8, intermediate_size=8, num_hidden_layers=1,
                         num_attention_heads=2, max_position_embeddings=64)  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder)
    weights = load_file(folder / "model.safetensors")
    spoil(weights)
    save_file(weights, folder / "model.safetensors")
    byte_level(folder)
    return Settings(model=str(folder), text="a dog and a <tool>")


def test_a_token_without_an_embedding_is_named(tmp_path):
    settings = saved(tmp_path, 301)
    assert View(settings).problem == (
        "The token “<tool>” (id 301) is beyond the model's 301 embeddings; leave it out of the text, or choose another "
        "model."
    )
    assert View(settings).but(text="a dog").problem is None


def test_a_tokenizer_of_another_model_is_refused(tmp_path):
    problem = View(saved(tmp_path, 200)).problem
    assert "is not that of its weights: the token “" in problem and "200 embeddings" in problem


def test_a_refused_model_is_not_read_again_by_each_part_of_a_page_and_opens_once_repaired(tmp_path, monkeypatch):
    settings, read, open_folder = saved(tmp_path, 200), [], models.open_folder
    monkeypatch.setattr(models, "open_folder", lambda folder: read.append(folder) or open_folder(folder))
    refusals = {View(settings).problem for _ in range(3)}
    assert len(refusals) == len(read) == 1 and View(settings).model_problem and not View(settings).but().config_problem
    saved(tmp_path, 302)
    models._refused.expire(models._refused.timer() + models._refused.ttl)  # as time does
    assert View(settings).problem is None


def test_a_model_that_was_not_there_is_opened_once_it_is(tmp_path):
    settings = Settings(model=str(tmp_path / "later"), text="a dog")
    assert f"There is no folder {tmp_path / 'later'}" in View(settings).model_problem
    saved(tmp_path / "later", 302)
    assert View(settings).model_problem is None


def test_weights_that_compute_no_numbers_are_refused(tmp_path):
    def spoil(weights):
        for name in ("model.layers.0.mlp.up_proj.weight", "model.layers.0.mlp.down_proj.weight"):
            weights[name][:] = 3e38

    assert "not finite (NaN or infinity): its weights are too large" in View(saved(tmp_path, 302, spoil)).problem


def test_a_file_with_nan_is_refused_wherever_it_is(tmp_path):
    def spoil(weights):
        weights["model.embed_tokens.weight"][301] = torch.nan

    assert "8 of the 2,416 weights in the tensor model.embed_tokens" in View(saved(tmp_path, 302, spoil)).problem


def test_a_damaged_tokenizer_is_a_sentence_too(tmp_path):
    settings = saved(tmp_path, 302)
    (tmp_path / "tokenizer.json").write_text(json.dumps({}))
    assert "tokenizer.json cannot be read" in View(settings).problem


def logits(settings: Settings) -> np.ndarray:
    return models.trace_of(settings, (1, 2, 3)).logits


def expected(folder: Path) -> np.ndarray:
    with torch.no_grad():
        return LlamaForCausalLM.from_pretrained(folder)(torch.tensor([[1, 2, 3]])).logits[0].numpy()


def test_weights_that_were_replaced_or_written_to_are_read_again(tmp_path):
    settings, other = saved(tmp_path / "one", 302), saved(tmp_path / "other", 302)
    old, file = logits(settings), tmp_path / "one" / "model.safetensors"
    (tmp_path / "other" / "model.safetensors").replace(file)
    new = expected(tmp_path / "one")
    assert np.allclose(logits(settings), new, atol=1e-5) and not np.allclose(new, old, atol=1e-5)
    saved(tmp_path / "other", 302)
    file.write_bytes((tmp_path / "other" / "model.safetensors").read_bytes())
    os.utime(file, (0, 0))
    assert np.allclose(logits(settings), logits(other)) and not np.allclose(logits(settings), new, atol=1e-5)


def test_a_configuration_or_tokenizer_that_was_changed_is_read_again(tmp_path):
    settings, config, names = saved(tmp_path, 302), tmp_path / "config.json", tmp_path / "tokenizer.json"
    old, ids = logits(settings), models.read("a dog", str(tmp_path))[1]
    config.write_text(json.dumps(json.loads(config.read_text()) | {"rope_parameters": {
        "rope_type": "default", "rope_theta": 7.0}}))  # fmt: skip
    compute.check(str(tmp_path))
    assert models.config_of(settings).rope_theta == 7.0 and not np.allclose(logits(settings), old, atol=1e-6)
    assert np.allclose(logits(settings), expected(tmp_path), atol=1e-5)
    facts = json.loads(names.read_text())
    facts["model"]["merges"], vocab = [], facts["model"]["vocab"]
    a, b = vocab["a"], vocab["b"]
    assert [vocabulary(settings)[i] for i in (a, b)] == ["a", "b"]
    vocab |= {"a": b, "b": a}
    names.write_text(json.dumps(facts))
    assert len(models.read("a dog", str(tmp_path))[1]) == 5 > len(ids)
    assert [vocabulary(settings)[i] for i in (a, b)] == ["b", "a"]


def test_files_that_change_while_they_are_read_are_not_shown(tmp_path, monkeypatch):
    settings, open_folder = saved(tmp_path, 302), models.open_folder

    def meanwhile(folder):
        found = open_folder(folder)
        saved(tmp_path, 302)
        return found

    monkeypatch.setattr(models, "open_folder", meanwhile)
    assert "changed while they were read; open it again" in View(settings).problem
    monkeypatch.setattr(models, "open_folder", open_folder)
    assert View(settings).problem is None and np.allclose(logits(settings), expected(tmp_path), atol=1e-5)


def test_older_versions_of_a_model_and_others_make_room_for_it():
    class Kept:
        nbytes = 40

    cache = models._OpenedCache(100)
    for key in (("a", 1), ("b", 1), ("a", 2)):
        cache.get(key, Kept)
    cache.make_room("a", 60)
    assert [cache.find(key) is None for key in (("a", 1), ("b", 1), ("a", 2))] == [True, False, True]
    cache.make_room("c", 61)
    assert cache.nbytes == 0


def test_a_model_of_the_hub_is_identified_by_its_folder_and_files(tmp_path, monkeypatch):
    saved(tmp_path, 302)
    monkeypatch.setattr(models.hub, "cached", {"owner/identified": tmp_path}.get)
    folder, *files = models.files_of("owner/identified")
    assert folder == tmp_path and [name for name, *_ in files] == ["config.json", "model.safetensors", "tokenizer.json"]
    assert models.files_of("gqa-4") is models.files_of("owner/missing") is None


@pytest.mark.usefixtures("own_machine")
def test_a_file_of_a_model_stands_for_its_folder_and_others_say_what_they_are(folder):
    for name in ("tokenizer.json", "model-00001-of-00002.safetensors", "q4.gguf", "a.bin"):
        (folder / name).write_bytes(b"")
    for written in (
        f"{folder}/tokenizer.json",
        f"{folder}/model-00001-of-00002.safetensors",
        "owner/model/tokenizer.json",
    ):
        assert compute.resolved_name(written) == str(folder), written
    for written, words in (("owner/model/q4.gguf", "GGUF"), (f"{folder}/a.bin", "a pickle"),
                           ("./owner/modle", "owner has model: is that")):  # fmt: skip
        with pytest.raises(models.OpenError, match=words):
            compute.resolved_name(written)


def test_what_is_on_a_servers_disk_is_not_told(tmp_path, monkeypatch):
    (tmp_path / "secret").mkdir()
    monkeypatch.setenv(openable.ALLOWED, str(tmp_path / "secrt"))
    said = View(Settings(model=str(tmp_path / "secrt"))).model_problem
    assert said == f"There is no folder {tmp_path / 'secrt'} with a config.json."


def test_an_opened_models_decode_step_is_compared_with_other_numbers_of_kv_heads(tmp_path):
    """Only counted: no other model was trained like it."""
    config = LlamaConfig(vocab_size=302, hidden_size=20, intermediate_size=8, num_hidden_layers=1, head_dim=4,
                         num_attention_heads=10, num_key_value_heads=5)  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(tmp_path)
    byte_level(tmp_path)
    settings = Settings(model=str(tmp_path))
    assert [c.n_kv_heads for c in query_groups.compared(settings)] == [10, 5, 2, 1]
    assert query_groups.compared(settings)[1] == models.config_of(settings)
