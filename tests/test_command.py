"""The command `attnviz`: what it hands to the app and to Streamlit, and what it says of what is wrong."""

import os
from importlib import metadata
from pathlib import Path

import pytest
import streamlit as st

from attnviz import __main__ as command
from attnviz.practice.judge import unusable
from attnviz.runs.file import save_run
from attnviz.server import open_browser
from attnviz.session import lesson, openable
from attnviz.started import APP
from tests import saved_runs


@pytest.fixture
def handed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[list[str]]:
    """The arguments that Streamlit was run with. The command runs in an empty folder, without variables of the app."""
    given: list[list[str]] = []
    monkeypatch.setattr("streamlit.web.cli.main", lambda arguments, **_: given.append(arguments))
    monkeypatch.setattr(command, "missing", list)
    monkeypatch.setattr(os, "environ", {k: v for k, v in os.environ.items() if not k.startswith("ATTNVIZ_")})
    monkeypatch.chdir(tmp_path)
    return given


def test_the_app_is_run_for_this_machine_alone(handed: list[list[str]]) -> None:
    assert command.main([]) == 0 and [name for name in os.environ if name.startswith("ATTNVIZ_")] == []
    (arguments,) = handed
    assert (arguments[0], arguments[-1]) == ("run", str(APP)) and APP.is_file()
    assert "--server.address=localhost" in arguments


def test_what_follows_two_dashes_goes_to_streamlit_after_our_own_options(handed: list[list[str]]) -> None:
    command.main(["--", "--server.address=0.0.0.0", "--", "x"])
    assert handed[0][-4:-1] == ["--server.address=0.0.0.0", "--", "x"]


def test_ctrl_c_is_no_failure_and_a_wrong_option_is_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    assert command.main(["--", "--nonsense=3"]) == 2
    assert "No such option '--nonsense'" in capsys.readouterr().err

    def stopped(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("streamlit.web.cli._main_run", stopped)
    assert command.main([]) == 0
    assert capsys.readouterr() == ("", "\n")


def test_paths_are_absolute_for_the_app(handed: list[list[str]], tmp_path: Path) -> None:
    for name in ("smol", "lessons"):
        (tmp_path / name).mkdir()
    (tmp_path / "smol" / "config.json").touch()
    save_run(tmp_path / "bert.safetensors", saved_runs.encoder())
    command.main(["--model", "smol", "--run=bert.safetensors", "--code", "new/gqa.py", "--lessons", "./lessons"])
    assert {variable: os.environ[variable] for variable in command.OPENED.values()} == {
        openable.FIRST: str(tmp_path / "smol"),
        openable.RUN: str(tmp_path / "bert.safetensors"),
        openable.CODE: str(tmp_path / "new" / "gqa.py"),  # need not exist: the page says how it is written
        lesson.FOLDER: str(tmp_path / "lessons"),
    }


def test_a_hub_id_stays_one_unless_it_is_a_folder_here(handed: list[list[str]], tmp_path: Path) -> None:
    command.main(["--model", "Qwen/Qwen3-0.6B"])
    assert os.environ[openable.FIRST] == "Qwen/Qwen3-0.6B"
    (tmp_path / "Qwen" / "Qwen3-0.6B").mkdir(parents=True)
    (tmp_path / "Qwen" / "Qwen3-0.6B" / "config.json").touch()
    command.main(["--model", "Qwen/Qwen3-0.6B"])
    assert os.environ[openable.FIRST] == str(tmp_path / "Qwen" / "Qwen3-0.6B")


@pytest.mark.parametrize(
    "arguments", [["--model", "../nowhere/at all"], ["--run", "no.safetensors"], ["--lessons", "x"]]
)
def test_what_is_not_there_is_said(
    handed: list[list[str]], capsys: pytest.CaptureFixture, arguments: list[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        command.main(arguments)
    said = capsys.readouterr().err
    assert ended.value.code == 2 and handed == []
    assert f"argument {arguments[0]}: there is no file or folder {Path(arguments[1]).resolve()}" in said


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--model", "empty"], "empty is no model: that is a folder with a config.json"),
        (["--model", "./bin.py"], "bin.py is no model: that is a folder with a config.json"),
        (["--run", "empty"], "empty is a folder; a saved run is one file"),
        (["--run", "blank.py"], "blank.py is no saved run: it is not a safetensors file"),
        (["--run", "bin.py"], "bin.py is no saved run: it is not a safetensors file"),
        (["--code", "empty"], "empty is a folder; a Python file is judged"),
        (["--code", "bin.py"], "bin.py is no Python source: it has bytes that are not text"),
        (["--lessons", "blank.py"], "blank.py is a file; lessons are a folder of .md files"),
    ],
)
def test_what_cannot_be_opened_is_said_before_the_app_starts(
    handed: list[list[str]], capsys: pytest.CaptureFixture, arguments: list[str], reason: str
) -> None:
    Path("empty").mkdir()
    Path("blank.py").touch()
    Path("bin.py").write_bytes(b"\x93\0\xff" * 11)
    with pytest.raises(SystemExit) as ended:
        command.main(arguments)
    said = capsys.readouterr().err
    assert ended.value.code == 2 and handed == [] and reason in said and said.count("error:") == 1


@pytest.mark.parametrize(
    ("name", "written", "reason"),
    [
        ("none.py", None, "There is no file {}."),
        ("folder", ..., "{} is a folder; a Python file is judged."),
        ("blank.py", b" \n", "{} is empty."),
        ("bin.py", b"\x93\0\xff" * 11, "{} is no Python source: it has bytes that are not text."),
        ("latin.py", b"# caf\xe9", "{} is no Python source: it has bytes that are not text."),
    ],
)
def test_the_judge_says_in_one_sentence_what_is_wrong_with_a_file(
    handed: list[list[str]], capsys: pytest.CaptureFixture, tmp_path: Path, name: str, written, reason: str
) -> None:
    path = tmp_path / name
    if written is ...:
        path.mkdir()
    elif written is not None:
        path.write_bytes(written)
    for asked in ([], ["--task", "gqa"]):
        assert command.main(["practice", "check", str(path), *asked]) == 2
        assert capsys.readouterr() == ("", f"{reason.format(path)}\n")


def test_a_source_in_its_declared_encoding_is_text(tmp_path: Path) -> None:
    (path := tmp_path / "latin.py").write_bytes(b"# -*- coding: latin-1 -*-\n# caf\xe9")
    assert unusable(path) == ""


def test_a_skeleton_that_cannot_be_written_is_said(handed: list[list[str]], capsys: pytest.CaptureFixture) -> None:
    Path("taken").touch()
    for folder, reason in (("taken", "taken already exists"), ("taken/in", "taken/in/gqa.py cannot be written: Not a")):
        assert command.main(["practice", "new", "gqa", "--folder", folder]) == 2
        assert capsys.readouterr().err.startswith(reason)


@pytest.mark.parametrize(
    ("started", "page"),
    [
        ({"ATTNVIZ_CODE": "/x/gqa.py", "ATTNVIZ_MODEL": "/x/m"}, "practice?tab=write"),
        ({"ATTNVIZ_MODEL": "/x/m", "ATTNVIZ_LESSONS": "/x/l"}, "heads?model=%2Fx%2Fm"),
        ({"ATTNVIZ_LESSONS": "/x/l"}, "lessons"),
        ({}, ""),
    ],
)
@pytest.mark.parametrize("base", ["", "viz"])
def test_the_browser_opens_the_page_of_what_was_asked(
    handed: list[list[str]], monkeypatch: pytest.MonkeyPatch, started: dict[str, str], page: str, base: str
) -> None:
    monkeypatch.setattr(st, "get_option", {"server.port": 8501, "server.baseUrlPath": base}.get)
    os.environ.update(started)
    assert open_browser.address() == f"http://localhost:8501/{'/'.join(filter(None, (base, page)))}"


def test_practice_is_the_judge(handed: list[list[str]], capsys: pytest.CaptureFixture) -> None:
    assert command.main(["practice", "tasks"]) == 0 and handed == []
    assert "gqa             Grouped-query attention" in capsys.readouterr().out


REQUIRED = ["numpy<3", 'torch<3,>=2.13; extra == "app"', "a-b[x,y]==1.67.0; extra == 'app'", 'z; extra == "apps"']


@pytest.mark.parametrize(
    ("installed", "absent"),
    [
        ({"torch": "2.14.0", "a-b": "1.67.0"}, []),
        ({"torch": "2.14.0"}, ["a-b 1.67.0"]),
        ({"a-b": "1.68.0"}, ["torch", "a-b 1.67.0"]),
    ],
)
def test_packages_of_the_app_are_missed(
    monkeypatch: pytest.MonkeyPatch, installed: dict[str, str], absent: list[str]
) -> None:
    def version(name: str) -> str:
        if name not in installed:
            raise metadata.PackageNotFoundError(name)
        return installed[name]

    monkeypatch.setattr(metadata, "requires", lambda _: REQUIRED)
    monkeypatch.setattr(metadata, "version", version)
    assert command.missing() == absent


def test_a_checkout_misses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def requires(name: str) -> list[str]:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "requires", requires)
    assert command.missing() == []
