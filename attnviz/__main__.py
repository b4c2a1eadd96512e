"""Open the app on this machine, and in the browser.

attnviz practice new | check | tasks: write and judge code of your own, as `attnviz practice --help` explains.
What stands after -- goes to Streamlit: attnviz -- --server.port=8600
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from importlib import metadata
from pathlib import Path

import attnviz
from attnviz.checks import is_hub_id
from attnviz.runs.file import check_run
from attnviz.started import APP

MAX_READ = 2**20  # bytes of a file that are looked at before the app starts
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
REQUIREMENT = re.compile(r"([\w.-]+)(?:\[.*?\])?(?:==([\w.]+))?")  # a package's name, and its version if it is pinned
OPENED = {  # option -> its environment variable, which the app reads
    "model": "ATTNVIZ_MODEL",
    "run": "ATTNVIZ_RUN",
    "code": "ATTNVIZ_CODE",
    "lessons": "ATTNVIZ_LESSONS",
}
# Only this machine's browser reaches the app, and so may open any folder; an installed app's files do not change.
STREAMLIT = ("--server.address=localhost", "--server.fileWatcherType=none")


def main(arguments: list[str] | None = None) -> int:
    """Return the exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    for stream in (sys.stdout, sys.stderr):  # a pipe on Windows has no letter for “ or ×
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    practice = given[:1] == ["practice"]
    parser = _parser()
    own, streamlit = split_at_dashes(given)
    options = None if practice else parser.parse_args(own)
    if absent := missing():
        print(how_to_install(absent), file=sys.stderr)
        return 2
    if options is None:
        from attnviz.practice.__main__ import main as judge

        return judge(given[1:])
    for option, variable in OPENED.items():
        if named := getattr(options, option):
            os.environ[variable] = named
    return run_app(streamlit)


def split_at_dashes(given: list[str]) -> tuple[list[str], list[str]]:
    """Return the arguments before and after the first --."""
    at = given.index("--") if "--" in given else len(given)
    return given[:at], given[at + 1 :]


def run_app(options: list[str]) -> int:
    """Run the app with Streamlit until it is stopped; of an option that is given twice, Streamlit takes the last."""
    import click
    from streamlit.web import cli

    try:
        cli.main(["run", *STREAMLIT, *options, str(APP)], prog_name="streamlit", standalone_mode=False)
    except click.Abort:  # Ctrl-C
        return 0
    except click.ClickException as error:  # an option that Streamlit does not have
        error.show()
        return error.exit_code
    return 0


def missing() -> list[str]:
    """Return the packages of the extra "app" that are absent, or not as pinned; a checkout has requirements.txt."""
    try:
        required = metadata.requires("attnviz") or []
    except metadata.PackageNotFoundError:
        return []
    of_app = [REQUIREMENT.match(line) for line in required if re.search(r"extra == .app\b", line)]
    return [" ".join(filter(None, found.groups())) for found in of_app if found and not _is_installed(*found.groups())]


def _is_installed(name: str, pinned: str | None) -> bool:
    try:
        return metadata.version(name) == (pinned or metadata.version(name))
    except metadata.PackageNotFoundError:
        return False


def how_to_install(absent: list[str]) -> str:
    """Return what is missing and the command that installs it."""
    return (
        f'The app needs {", ".join(absent)}: pip install "attnviz[app]"\n'
        f"On Linux, add --extra-index-url {CPU_INDEX} for PyTorch's CPU build, without gigabytes of CUDA libraries.\n"
        'With uvx or pipx, add [app] to the source, as in: uvx --from ".[app]" attnviz'
    )


def absolute(name: str) -> str:
    """Return the absolute path, without "~" and "..". An argparse type."""
    return str(Path(name).expanduser().resolve())


def existing(name: str) -> str:
    """Return the absolute path of a file or folder that exists. An argparse type."""
    if not Path(path := absolute(name)).exists():
        raise argparse.ArgumentTypeError(f"there is no file or folder {path}")
    return path


def model(name: str) -> str:
    """Return the absolute path of a model, or its hub id; a path wins, as in transformers. An argparse type."""
    if is_hub_id(name) and not Path(name).exists():
        return name
    folder = existing(name)
    if not (Path(folder) / "config.json").is_file():
        raise argparse.ArgumentTypeError(f"{folder} is no model: that is a folder with a config.json")
    return folder


def run(name: str) -> str:
    """Return the absolute path of a file that begins as a saved run does. An argparse type."""
    path = existing(name)
    try:
        check_run(path)
    except (ValueError, OSError) as error:
        raise argparse.ArgumentTypeError(getattr(error, "strerror", None) or str(error)) from error
    return path


def code(name: str) -> str:
    """Return the absolute path of a Python file; one that does not exist yet is said how to write. An argparse type."""
    path = Path(absolute(name))
    if path.is_dir():
        raise argparse.ArgumentTypeError(f"{path} is a folder; a Python file is judged")
    try:
        if path.exists() and b"\0" in path.read_bytes()[:MAX_READ]:
            raise argparse.ArgumentTypeError(f"{path} is no Python source: it has bytes that are not text")
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{path} cannot be read: {error.strerror}") from error
    return str(path)


def lessons(name: str) -> str:
    """Return the absolute path of a folder with lessons. An argparse type."""
    folder = existing(name)
    if not Path(folder).is_dir():
        raise argparse.ArgumentTypeError(f"{folder} is a file; lessons are a folder of .md files")
    return folder


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="attnviz", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", type=model, metavar="PATH|HUB-ID", help="open this model, in Hugging Face's layout")
    parser.add_argument("--run", type=run, metavar="FILE", help="open a run saved with attnviz.save_run")
    parser.add_argument(
        "--code", type=code, metavar="FILE", help="judge your own file on the page Practice, at every save"
    )
    parser.add_argument("--lessons", type=lessons, metavar="FOLDER", help="show your own lessons")
    parser.add_argument("--version", action="version", version=f"attnviz {attnviz.__version__}")
    return parser


if __name__ == "__main__":
    sys.exit(main())
