"""The command `attnviz`: what it hands to the app and to Streamlit, and what it says of what is wrong."""

import os
from importlib import metadata
from pathlib import Path

import pytest

from attnviz import __main__ as command
from attnviz.compute import own_code
from attnviz.session import lesson, openable
from attnviz.started import APP


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
    (tmp_path / "bert.safetensors").touch()
    command.main(["--model", "smol", "--run=bert.safetensors", "--code", "new/gqa.py", "--lessons", "./lessons"])
    assert {variable: os.environ[variable] for variable in command.OPENED.values()} == {
        openable.FIRST: str(tmp_path / "smol"),
        openable.RUN: str(tmp_path / "bert.safetensors"),
        own_code.VARIABLE: str(tmp_path / "new" / "gqa.py"),  # need not exist: the page says how it is written
        lesson.FOLDER: str(tmp_path / "lessons"),
    }


def test_a_hub_id_stays_one_unless_it_is_a_folder_here(handed: list[list[str]], tmp_path: Path) -> None:
    command.main(["--model", "Qwen/Qwen3-0.6B"])
    assert os.environ[openable.FIRST] == "Qwen/Qwen3-0.6B"
    (tmp_path / "Qwen" / "Qwen3-0.6B").mkdir(parents=True)
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
