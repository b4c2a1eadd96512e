"""Models and saved runs that can be chosen, and permission to open others: any on the user's own machine, listed ones
when hosted.

Every server counts as hosted unless known to be local: `is_local` is false until attnviz/ui/local_session.py sets it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePath

from attnviz.checks import is_hub_id
from attnviz.config import SHIPPED
from attnviz.session.kinds import Kind

ALLOWED = "ATTNVIZ_MODELS"  # environment variable: comma-separated hub ids and folders
FIRST = "ATTNVIZ_MODEL"  # environment variable: the model of `make run MODEL=…`
RUN = "ATTNVIZ_RUN"  # environment variable: a saved run, which is opened at once (`attnviz --run FILE`)
CODE = "ATTNVIZ_CODE"  # environment variable: a person's own file for the page Practice (`attnviz --code FILE`)
RUN_BEGINS = (
    "run:"  # a saved run's name in settings and links; then its path, or the digest and name of an uploaded file
)
MODEL_NAMES = {**SHIPPED, "own": "My own settings"}
MODELS = tuple(MODEL_NAMES)
MAX_LAYERS, MAX_HEADS = 48, 64  # of any model that is drawn
SMALL = {  # suggested hub ids: parameters, layers × heads, licence
    "HuggingFaceTB/SmolLM2-135M": "135 M, 30 × 9 heads (3 KV), Apache 2.0",
    "openai-community/gpt2": "124 M, 12 × 12 heads, MIT",
    "Qwen/Qwen2.5-0.5B": "494 M, 24 × 14 heads (2 KV), Apache 2.0",
    "Qwen/Qwen3-0.6B": "596 M, 28 × 16 heads (8 KV), Apache 2.0",
    "TinyLlama/TinyLlama_v1.1": "1,100 M, 22 × 32 heads (4 KV), Apache 2.0",
}
N_DIGITS = 24  # of an uploaded file's SHA-256
UPLOADED = re.compile(rf"{RUN_BEGINS}[0-9a-f]{{{N_DIGITS}}}/[^/]+")

is_local: Callable[[], bool] = lambda: False  # noqa: E731


def listed() -> tuple[str, ...]:
    """Return the models and saved runs that the server's operator has listed."""
    names = [os.environ.get(FIRST, ""), started_with(), *os.environ.get(ALLOWED, "").split(",")]
    return tuple(dict.fromkeys(name.strip() for name in names if name.strip()))


def started_with() -> str:
    """Return the name of the saved run that the app was started with; "" without one."""
    path = os.environ.get(RUN, "").strip()
    return run_name(str(Path(path).absolute())) if path else ""


def may_choose() -> bool:
    """Check whether the user may open any model: on their own machine, without a list of allowed ones."""
    return not os.environ.get(ALLOWED) and is_local()


def may_open(name: str) -> bool:
    """Check whether this may be opened: a folder, hub id or saved run as listed, or any on the user's own machine."""
    return name in listed() or (may_choose() and (is_hub_id(name) or is_folder(name) or is_run(name)))


def is_folder(name: str) -> bool:
    """Check whether this is the absolute path of a folder with a config.json."""
    return is_absolute(Path(name)) and "\0" not in name and len(name) < 4000 and (Path(name) / "config.json").is_file()


def is_absolute(path: PurePath) -> bool:
    r"""Check whether the path is absolute and of this machine: Windows would send credentials to \\host\share."""
    return path.is_absolute() and not path.drive.startswith("\\\\")


def is_run(name: str) -> bool:
    """Check whether this names a saved run, whether or not its file is there."""
    if not name.startswith(RUN_BEGINS) or "\0" in name or len(name) > 4000:
        return False
    return is_upload(name) or is_absolute(Path(run_path(name)))


def run_name(path: str) -> str:
    """Return the name of the saved run in the file at this absolute path."""
    return f"{RUN_BEGINS}{path}"


def run_path(name: str) -> str:
    return name.removeprefix(RUN_BEGINS)


def upload_name(digest: str, file: str) -> str:
    """Return the name of a saved run that was uploaded."""
    return f"{RUN_BEGINS}{digest[:N_DIGITS]}/{short_name(file.replace(chr(92), '/'))[:100]}"


def upload_digest(name: str) -> str:
    return run_path(name).partition("/")[0]


def is_upload(name: str) -> bool:
    return UPLOADED.fullmatch(name) is not None


_recent: list[str] = []  # models opened before; only used on the user's own machine, so for a single user
MAX_RECENT = 6


def remember(name: str) -> None:
    """Add the model to the front of the recently opened ones."""
    _recent[:] = [name, *(other for other in _recent if other != name)][:MAX_RECENT]


def offered(current: str, shipped: tuple[str, ...]) -> list[str]:
    """List the models that the sidebar offers besides the shipped ones: allowed, recently opened, and current."""
    names = [*listed(), *(_recent if may_choose() else ()), *([] if current in shipped else [current])]
    return list(dict.fromkeys(names))


def other_run(name: str) -> str:
    """Return another saved run that is offered; "" without one."""
    return next((each for each in offered(name, MODELS) if is_run(each) and each != name), "")


def short_name(name: str) -> str:
    """Return the last part of a folder, hub id or file, for display."""
    return Path(name).name or name


@dataclass(frozen=True)
class ModelName(Kind):
    """A shipped checkpoint, "own", or a folder, hub id or saved run that may be opened here."""

    def read(self, written: str) -> object:
        if written not in MODELS and not may_open(written):
            raise ValueError
        return written

    def range(self) -> str:
        return f"one of {', '.join(MODELS)}, or a model that may be opened here"

    def notice(self, name: str, given: str, used: object) -> str:
        if RUN_BEGINS in given[:10]:
            return (
                f"The link's {name} is the saved run {given.removeprefix('not ')}, which this server does not open; "
                f"{used} is shown. AttnViz on your own machine opens it, with “Open a run”."
            )
        return f"The link's {name} is {given.removeprefix('not ')}, which cannot be opened here; {used} is shown."
