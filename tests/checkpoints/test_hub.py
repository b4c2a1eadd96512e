"""Downloads from a local hub: only the files needed, with progress, cancelled and resumed."""

import shutil
from pathlib import Path

import pytest
import torch
from huggingface_hub import constants
from transformers import LlamaConfig, LlamaForCausalLM

from attnviz.checkpoints import OpenError, hub, open_model
from tests.checkpoints.fake_hub import fake_hub
from tests.checkpoints.tokenizers import byte_level
from tests.oracles import agree

NAME = "owner/small-model"


@pytest.fixture(scope="module")
def published(tmp_path_factory) -> tuple[Path, LlamaForCausalLM]:
    """Return the folder that the hub serves, and the model in it."""
    sizes = dict(vocab_size=307, hidden_size=640, intermediate_size=1100, num_hidden_layers=2, num_attention_heads=2)
    model = LlamaForCausalLM(LlamaConfig(**sizes)).eval()
    folder = tmp_path_factory.mktemp("published")
    model.save_pretrained(folder)
    byte_level(folder)
    (folder / "pytorch_model.bin").write_bytes(b"never asked for")
    (folder / "modeling_own.py").write_text("raise SystemExit")
    return folder, model


@pytest.fixture
def theirs(published) -> LlamaForCausalLM:
    return published[1]


@pytest.fixture
def served(published, tmp_path, monkeypatch):
    shutil.copytree(published[0], tmp_path / "files")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    with fake_hub(NAME, tmp_path / "files") as (server, address):
        monkeypatch.setattr(constants, "ENDPOINT", address)
        monkeypatch.setattr(
            constants, "HUGGINGFACE_CO_URL_TEMPLATE", address + "/{repo_id}/resolve/{revision}/{filename}"
        )
        yield server


@pytest.mark.slow
def test_an_id_is_downloaded_once_and_opens(served, theirs):
    assert hub.cached(NAME) is None and hub.all_cached() == []
    model, tokenizer = open_model(NAME)
    ids = torch.arange(11)[None]
    assert agree(model(ids), theirs(ids).logits, 1e-4)
    wanted = {"config.json", "generation_config.json", "tokenizer.json", "model.safetensors"}
    assert {name for _, name, _ in served.asked} == wanted
    assert tokenizer.ends == {theirs.generation_config.eos_token_id}
    before = len(served.asked)
    open_model(NAME)
    assert len(served.asked) == before and hub.all_cached() == [NAME]


@pytest.mark.slow
def test_sizes_are_known_before_and_progress_ends_at_them(served, tmp_path):
    remote, seen = hub.look_up(NAME), []
    sizes = {name: (tmp_path / "files" / name).stat().st_size for name in remote.files}
    assert remote.files == sizes and not (tmp_path / "cache").exists()
    hub.download(NAME, lambda there, of_all: seen.append((there, of_all)))
    assert seen == sorted(seen) and seen[-1] == (remote.nbytes, remote.nbytes) and len(seen) > 4


@pytest.mark.slow
def test_a_cancelled_download_goes_on_where_it_stopped(served, theirs, tmp_path, monkeypatch):
    size = (tmp_path / "files" / "model.safetensors").stat().st_size

    def stop(there: int, of_all: int) -> None:
        if there > of_all - size + 2_500_000:  # in the third chunk of the weights
            raise hub.Stopped

    monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 1_000_000)
    with pytest.raises(hub.Stopped):
        hub.download(NAME, stop)
    assert hub.cached(NAME) is None
    hub.download(NAME)
    starts = [start for method, name, start in served.asked if (method, name) == ("GET", "model.safetensors")]
    assert starts == [0, 2_000_000]
    ids = torch.arange(5)[None]
    assert agree(open_model(NAME)[0](ids), theirs(ids).logits, 1e-4)


@pytest.mark.slow
def test_what_the_hub_cannot_give_is_a_sentence(served, tmp_path, monkeypatch):
    with pytest.raises(OpenError, match="owner/missing does not exist"):
        open_model("owner/missing")
    with pytest.raises(OpenError, match="not a hub id"):
        hub.look_up("../../etc")
    (tmp_path / "files" / "model.safetensors").unlink()
    with pytest.raises(OpenError, match=r"no model.safetensors .* pickles"):
        open_model(NAME)
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(OpenError, match="cannot be reached"):
        open_model(NAME)


@pytest.mark.parametrize(
    "name", ["..", "../secret", "/etc", "a/b/c", "a//b", "-a/b", "a/.b", "a b", "", "a/b\n", "a/b..c"]
)
def test_what_is_no_hub_id_is_never_looked_for(name, monkeypatch):
    monkeypatch.setattr(hub, "download", lambda *_: pytest.fail("asked the hub"))
    assert hub.cached(name) is None
    if not Path(name).is_dir():
        with pytest.raises(OpenError, match="no folder"):
            hub.folder_of(name)


def test_one_file_is_wanted_before_an_index_as_by_transformers(served, tmp_path):
    for name in ("model.safetensors.index.json", "model-00001-of-00001.safetensors"):
        (tmp_path / "files" / name).write_text("{}")
    wanted = {"config.json", "generation_config.json", "tokenizer.json", "model.safetensors"}
    assert set(hub.look_up(NAME).files) == wanted
