"""Permission to open models: when hosted only listed names, exactly; on the user's own machine any folder or hub id."""

import pytest

from attnviz.session import openable
from attnviz.session.settings import Settings

HERE = "owner/model"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "listed").mkdir()
    (tmp_path / "listed" / "config.json").write_text("{}")
    return tmp_path / "listed"


@pytest.fixture
def hosted(folder, monkeypatch):
    monkeypatch.setenv(openable.ALLOWED, f"{folder}, {HERE}")
    monkeypatch.setattr(openable, "is_local", lambda: True)  # a proxy on the same machine can look local


def ways_around(folder) -> list[str]:
    """Other names of files on disk, some of them of the listed folder itself."""
    (folder.parent / "link").symlink_to(folder)
    (folder.parent / "other").mkdir()
    (folder.parent / "other" / "config.json").write_text("{}")
    return [
        f"{folder}/", f"{folder}/.", f"{folder}/../listed", f"{folder.parent}/link", f"{folder.parent}/other",
        f"{folder}/config.json", "/", "/etc", "..", "../..", "~", ".", f"//{folder}", f"file://{folder}",
        f"{HERE}/", f"{HERE} ", "owner/../model", "owner/other", HERE.upper(), f"{folder}\0", "x" * 10_000,
    ]  # fmt: skip


def test_hosted_only_what_is_listed_opens_word_for_word(hosted, folder):
    assert not openable.may_choose()
    assert openable.may_open(str(folder)) and openable.may_open(HERE)
    for name in ways_around(folder):
        assert not openable.may_open(name), name
        found, notices = Settings.from_link({"model": name})
        assert found == Settings() and len(notices) == 1
        assert "cannot be opened here; gqa-4 is shown" in notices[0]


def test_a_listed_one_comes_back_from_its_link(hosted, folder):
    found, notices = Settings.from_link({"model": str(folder)})
    assert not notices and found.opened and found.model_name == "listed"
    assert Settings.from_link(found.to_link()) == (found, [])


def test_without_a_list_nothing_opens_but_on_ones_own_machine(folder, monkeypatch):
    monkeypatch.delenv(openable.ALLOWED, raising=False)
    assert not any(map(openable.may_open, [str(folder), HERE, "..", "gpt2"]))
    monkeypatch.setattr(openable, "is_local", lambda: True)
    assert openable.may_open(str(folder)) and openable.may_open(HERE) and openable.may_open("gpt2")
    for name in ("..", "../listed", str(folder.parent), "a/b/c", "-x/y", "a/..", "", "/etc", f"{folder}\0"):
        assert not openable.may_open(name), name


def test_the_model_of_make_run_is_listed_and_the_last_opened_are_offered(folder, monkeypatch):
    monkeypatch.setenv(openable.FIRST, str(folder))
    monkeypatch.setattr(openable, "_recent", [])
    assert openable.may_open(str(folder)) and openable.offered("own", ("own",)) == [str(folder)]
    openable.remember("a/b"), openable.remember("c/d"), openable.remember("a/b")
    assert openable.offered("own", ("own",)) == [str(folder)]
    monkeypatch.setattr(openable, "is_local", lambda: True)
    assert openable.offered("e/f", ("own",)) == [str(folder), "a/b", "c/d", "e/f"]


def test_an_opened_models_own_theta_and_windows_are_kept_unless_chosen():
    from attnviz.config import ModelConfig

    own = ModelConfig(4, 12, 3, sliding_window=7, full_layers=(1,), rope_theta=500.0)
    plain = Settings(model=HERE)
    assert plain.run_of(own) == own
    changed = Settings(model=HERE, theta=99.0, window=5, n_sinks=2, rope=False, causal=False).run_of(own)
    assert (changed.rope_theta, changed.sliding_window, changed.full_layers, changed.n_sinks) == (99.0, 5, (), 2)
    assert changed.position == "none" and not changed.causal
    assert Settings(model=HERE, theta=10_000.0).run_of(own).rope_theta == 10_000.0
    learned = ModelConfig(4, 12, 3, position="learned", learned_position_rows=9)
    assert Settings(model=HERE, rope=False, theta=99.0).run_of(learned) == learned


def test_a_chosen_base_is_that_of_gemma_3s_windowed_layers_too():
    from attnviz.config import ModelConfig

    own = ModelConfig(4, 12, 3, sliding_window=7, full_layers=(1,), rope_theta=1e6, rope_theta_windowed=1e4)
    assert Settings(model=HERE).run_of(own) == own
    chosen = Settings(model=HERE, theta=500.0).run_of(own)
    assert (chosen.rope_theta, chosen.rope_theta_windowed) == (500.0, 500.0)
