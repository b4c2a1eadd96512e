"""Saved runs as they are opened: which files, bounds, what belongs to whom, and what a view of one has.

Run: .venv/bin/python -m pytest tests/compute/test_recorded.py
"""

import json
from dataclasses import replace

import numpy as np
import pytest
from safetensors.numpy import save_file

from attnviz.checkpoints import OpenError
from attnviz.compute import compared, heads, look_here, recorded
from attnviz.compute.view import View, drawable
from attnviz.runs.file import save_run
from attnviz.runs.run import run_of
from attnviz.session import openable
from attnviz.session.settings import Settings
from tests import saved_runs
from tests.saved_runs import saved


@pytest.fixture(autouse=True)
def on_ones_own_machine(monkeypatch):
    monkeypatch.delenv(openable.ALLOWED, raising=False)
    monkeypatch.setattr(openable, "is_local", lambda: True)
    monkeypatch.setattr(recorded, "_refused", {})


def view_of(name, **settings):
    return View(Settings(model=name, **settings))


def sentence(name):
    with pytest.raises(OpenError) as problem:
        recorded.held(name)
    return str(problem.value)


# ---- what is shown of a run


def test_its_tokens_are_the_text_whatever_was_typed(tmp_path):
    view = view_of(saved(tmp_path, "encoder"), text="something else", selection="auto")
    assert view.labels == saved_runs.BERT and drawable(view)
    assert view.shown_text == "[CLS] the cats sat on the mat , they [SEP]"
    assert view.n_padding == 0 and view.but(padding=3).n_padding == 0
    assert len(heads.on_text(view).labels) == 3


def test_a_query_of_the_prompt_is_the_first_recorded_one(tmp_path):
    name = saved(tmp_path, "continued")
    assert view_of(name, query=3).query == 11 and view_of(name, query=14).query == 14
    assert view_of(name).rows == range(11, 17)
    view = view_of(name, query=14, layer=1, head=2)
    row = saved_runs.continued().kinds[0].layers[1][2, 3]  # row 3 of those of tokens 11 to 16
    assert view.key == int(row.argmax()) and np.array_equal(view.traced.weights[2, 14], row)
    assert view.sides.positions[0] == "11 out" and view.sides.key_positions[10:12] == ["10", "11 out"]


def test_cross_attention_is_chosen_by_its_kind_and_has_the_keys_of_the_other_text(tmp_path):
    name = saved(tmp_path, "encoder-decoder")
    view = view_of(name, run_kind="cross", selection="auto")
    weights = np.stack(saved_runs.encoder_decoder().kind("cross").layers)
    assert view.key_labels == [f"·e{i}" for i in range(7)] and len(view.labels) == 13 and view.two_texts
    assert (*view.layer_and_head, view.query, view.key) == np.unravel_index(weights.argmax(), weights.shape)
    assert look_here.found_in(view).weight == weights.max()
    assert view_of(name).saved.kind == "encoder" and view_of(name, run_kind="no").saved.kind == "encoder"
    assert np.isnan(heads.statistics_of(view).distance).all()
    entropy = -(weights * np.log2(weights)).sum(-1) / np.log2(7)
    assert np.allclose(heads.statistics_of(view).entropy, entropy.mean(-1), atol=1e-5)


def test_spaces_at_the_ends_of_a_token_are_marked_and_others_kept():
    assert [recorded.label_of(t) for t in (" the", "a b", "\n", "", "  ", "床 2/3", "1,2", "▁x")] == [
        "·the", "a b", "⏎", "∅", "··", "床 2/3", "1,2", "·x",
    ]  # fmt: skip


# ---- files


def test_a_file_that_was_replaced_is_read_again_and_two_of_one_name_do_not_mix(tmp_path):
    (tmp_path / "a").mkdir(), (tmp_path / "b").mkdir()
    one, two = (str(save_run(tmp_path / x / "run.safetensors", saved_runs.encoder(i))) for i, x in enumerate("ab"))
    first, second = (view_of(f"run:{path}") for path in (one, two))
    for view, seed in ((first, 0), (second, 1)):
        assert np.array_equal(view.traced.weights, saved_runs.encoder(seed).kinds[0].layers[1])
    assert first.run != second.run
    save_run(one, saved_runs.encoder(2))
    assert np.array_equal(view_of(f"run:{one}").traced.weights, saved_runs.encoder(2).kinds[0].layers[1])
    new, old = (heads.on_text(view).measures for view in (view_of(f"run:{one}"), first))  # old: its content is held
    for measures, seed in ((new, 2), (old, 0)):
        weights = saved_runs.encoder(seed).kinds[0].layers[1]
        assert np.allclose(measures[1][0], (-(weights * np.log2(weights)).sum(-1) / np.log2(11)).mean(-1), atol=1e-5)


def test_a_file_that_is_gone_or_broken_is_a_sentence(tmp_path):
    name = saved(tmp_path, "encoder")
    assert "There is no file" in sentence(name.replace("encoder", "other"))
    path = tmp_path / "encoder.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    assert "not whole in the file" in sentence(name)
    path.write_bytes((2_000_000_000).to_bytes(8, "little") + b"{" * 50)  # a header of 2 GB
    assert sentence(name).startswith("encoder.safetensors is no saved run")
    save_file({"weight": np.zeros((3, 5), np.float32)}, path)
    assert "no saved run" in sentence(name) and sentence(name).endswith(".")
    assert view_of(name).model_problem == sentence(name) and not drawable(view_of(name))


def test_what_cannot_be_drawn_is_refused_with_its_numbers(tmp_path):
    weights = saved_runs.encoder().kinds[0].layers
    tall = save_run(tmp_path / "tall.safetensors", list(weights) * 17, saved_runs.BERT)
    assert "51 layers of up to 5 heads; at most 48 layers of 64 heads" in sentence(f"run:{tall}")
    large = save_run(tmp_path / "large.safetensors", [2 * layer for layer in weights], saved_runs.BERT)
    assert "weights of up to 1.88" in sentence(f"run:{large}")
    uneven = save_run(tmp_path / "uneven.safetensors", [weights[0], weights[1][:2]], saved_runs.BERT)
    assert "have 2 and 5 heads" in sentence(f"run:{uneven}")
    long = save_run(tmp_path / "long.safetensors", np.full((1, 1, 1, 513), 1 / 513), ["a"], key_tokens=["b"] * 513)
    assert "513 tokens; at most 512" in sentence(f"run:{long}")


def test_a_header_that_promises_more_than_the_limit_is_refused_before_memory_is_taken(tmp_path):
    path = tmp_path / "promise.safetensors"
    described = {"format": 1, "kinds": [{"name": "self", "n_layers": 1, "tokens": ["a"], "key_tokens": ["a"]}]}
    tensor = {"dtype": "F32", "shape": [64, 512, 65_536], "data_offsets": [0, 4 * 64 * 512 * 65_536]}
    header = json.dumps({"__metadata__": {"attnviz_run": json.dumps(described)}, "attention.self.0": tensor}).encode()
    with path.open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(8 + len(header) + 4 * 64 * 512 * 65_536)  # sparse: no disk is used
    assert "GB" in sentence(f"run:{path}")


def test_an_upload_is_named_by_its_content_and_says_so_when_it_is_gone(tmp_path, monkeypatch):
    saved(tmp_path, "decoder")
    content = (tmp_path / "decoder.safetensors").read_bytes()
    name = recorded.upload("C:\\runs\\my run.safetensors", content)
    assert openable.is_upload(name) and openable.short_name(name) == "my run.safetensors"
    assert recorded.title_of(name) == "my run · A small GQA decoder" and openable.may_open(name)
    assert drawable(view_of(name)) and Settings.from_link({"model": name})[1] == []
    monkeypatch.setattr(recorded, "_held", recorded.ByteCache(1))
    assert "Open its file again" in sentence(name)
    with pytest.raises(OpenError, match="is no saved run"):
        recorded.upload("x.safetensors", b"no tensors")


def test_runs_of_one_class_are_told_apart_by_their_files(tmp_path, monkeypatch):
    monkeypatch.setattr(openable, "_recent", [])
    (tmp_path / "a").mkdir(), (tmp_path / "b").mkdir()
    long = "bert-base-uncased-on-the-validation-set-epoch-17"
    paths = [tmp_path / "a" / "x.safetensors", tmp_path / "b" / "x.safetensors", tmp_path / f"{long}.safetensors"]
    names = [f"run:{save_run(path, saved_runs.encoder())}" for path in paths]
    assert recorded.title_of(names[0]) == "x · A small BERT"
    for name in names:
        openable.remember(name)
    assert [recorded.title_of(name) for name in names] == [
        "a/x · A small BERT", "b/x · A small BERT", "bert-base-un…set-epoch-17 · A small BERT",
    ]  # fmt: skip


def test_a_typed_path_may_have_quotes_and_a_tilde(tmp_path, monkeypatch):
    saved(tmp_path, "encoder")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert recorded.name_of(' "~/encoder.safetensors" ') == f"run:{tmp_path / 'encoder.safetensors'}"
    for wrong in ("", "~nobody-of-this-name/x", "\0"):
        with pytest.raises(OpenError):
            recorded.name_of(wrong)


# ---- two runs


def test_two_runs_of_the_same_tokens_are_subtracted_head_by_head(tmp_path):
    one = view_of(saved(tmp_path, "encoder"))
    two = compared.other_of(one, f"run:{save_run(tmp_path / 'other.safetensors', saved_runs.encoder(8))}")
    assert compared.why_not_subtracted(one, two) == ""
    apart = np.abs(np.stack(saved_runs.encoder(0).kinds[0].layers) - np.stack(saved_runs.encoder(8).kinds[0].layers))
    found = compared.difference(one, two, (2, 3), (2, 3))
    assert np.abs(found.first - found.second).max() == apart[2, 3].max()
    assert found.by_head[0][2] == apart.max() and len(found.by_head) == 15
    assert {(i, h): d for i, h, d in found.by_head} == {(i, h): apart[i, h].max() for i in range(3) for h in range(5)}


def test_of_a_run_that_recorded_some_rows_only_these_are_compared(tmp_path):
    whole = view_of(f"run:{save_run(tmp_path / 'w.safetensors', saved_runs.decoder())}")
    rows = [layer[:, 11:] for layer in saved_runs.decoder().kinds[0].layers]
    part = view_of(f"run:{save_run(tmp_path / 'p.safetensors', rows, saved_runs.DECODED)}")
    found = compared.difference(whole, part, (1, 4), (1, 4))
    assert not found.allowed[:11].any() and not found.first[:11].any()
    assert all(apart == 0 for _, _, apart in found.by_head)


def test_runs_of_other_tokens_are_not_subtracted_and_the_first_difference_is_named(tmp_path):
    one, two = view_of(saved(tmp_path, "encoder")), view_of(saved(tmp_path, "decoder"))
    assert "first has 11 tokens, the other 17" in compared.why_not_subtracted(one, two)
    changed = run_of(saved_runs.encoder().kinds[0].layers, [*saved_runs.BERT[:4], "stood", *saved_runs.BERT[5:]])
    other = view_of(f"run:{save_run(tmp_path / 'c.safetensors', changed)}")
    assert "differ in 1 token, first in 4: “sat” and “stood”" in compared.why_not_subtracted(one, other)


def test_a_model_beside_a_run_reads_its_text(tmp_path):
    run = view_of(saved(tmp_path, "decoder"))
    other = compared.other_of(run, "gqa-4")
    assert other.settings.text == "a b c a d b e f a g h i a b j k l" and other.config.n_layers == 4
    assert replace(other.settings, text="", model=run.settings.model).model == run.settings.model
