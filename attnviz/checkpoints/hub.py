"""Models of the Hugging Face hub: look-up in its local cache, and resumable download of the listed files.

Needs `huggingface_hub`, a dependency of `tokenizers`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnviz.checkpoints import refusals
from attnviz.checkpoints.opened import GENERATION, OpenError, open_config, open_folder, weight_files
from attnviz.checkpoints.refusals import CONFIG, INDEX, ONE_FILE, TOKENIZER
from attnviz.checks import ConfigError, is_hub_id
from attnviz.modules import Transformer
from attnviz.text import Tokenizer

USED = (CONFIG, TOKENIZER)
SHARD = re.compile(r"model-\d{5}-of-\d{5}\.safetensors")
Progress = Callable[[int, int], None]  # callback with the bytes received and the total; may raise Stopped


class Stopped(Exception):
    """Raised by a progress callback to cancel the download."""


@dataclass(frozen=True)
class Remote:
    """The files of a model on the hub."""

    id: str
    commit: str
    files: dict[str, int]  # name -> bytes

    @property
    def nbytes(self) -> int:
        return sum(self.files.values())


def open_model(path_or_hub_id: str | Path) -> tuple[Transformer, Tokenizer]:
    """Open a model from a folder, or from a hub id, downloading it if it is not cached; in evaluation mode.

    OpenError names a missing file, an unsupported field or a tensor of the wrong shape.
    """
    return open_folder(folder_of(path_or_hub_id))


def folder_of(path_or_hub_id: str | Path) -> Path:
    """Return the folder of a model: a path unchanged, or a hub id's folder in the cache, downloaded if missing."""
    path = Path(path_or_hub_id).expanduser()
    if path.is_dir():
        return path
    name = str(path_or_hub_id)
    if not is_hub_id(name):
        raise OpenError(refusals.of_path(path) or f"There is no folder {name}.")
    return cached(name) or download(name)


def cached(name: str) -> Path | None:
    """Return the folder of a hub id if all its files are in the cache, or None."""
    from huggingface_hub import try_to_load_from_cache

    if not is_hub_id(name):
        return None
    config_file = try_to_load_from_cache(name, "config.json")
    if not isinstance(config_file, str):
        return None
    folder = Path(config_file).parent
    try:
        weight_files(folder)
    except ConfigError:
        return None
    return folder if (folder / "tokenizer.json").is_file() else None


def all_cached() -> list[str]:
    """Return the hub ids whose files are all in the cache, in alphabetical order."""
    from huggingface_hub import constants

    folders = Path(constants.HF_HUB_CACHE).glob("models--*")
    ids = sorted(folder.name.removeprefix("models--").replace("--", "/") for folder in folders)
    return [name for name in ids if cached(name)]


def look_up(name: str) -> Remote:
    """Query the hub for the names and sizes of the files to download."""
    from huggingface_hub import HfApi

    if not is_hub_id(name):
        raise OpenError(f"“{name[:60]}” is not a hub id such as “HuggingFaceTB/SmolLM2-135M”.")
    with _as_open_error(name):
        info = HfApi().model_info(name, files_metadata=True, timeout=10)
    sizes = {each.rfilename: each.size or 0 for each in info.siblings or ()}
    is_split = INDEX in sizes and ONE_FILE not in sizes
    weights = [*(file for file in sizes if SHARD.fullmatch(file)), INDEX] if is_split else [ONE_FILE]
    wanted = [*USED, *weights]
    optional = [GENERATION] if GENERATION in sizes else []
    if missing := [file for file in wanted if file not in sizes]:
        raise OpenError(refusals.on_the_hub(name, sizes, missing[0]))
    return Remote(
        name, str(info.sha), {file: sizes[file] for file in sorted([*wanted, *optional], key=sizes.__getitem__)}
    )


def download(name: str, progress: Progress = lambda there, of_all: None) -> Path:
    """Download a model's files to the hub's cache, small ones first; return its folder.

    OpenError as soon as its config.json is there if the model cannot be run: before its weights.
    """
    from huggingface_hub import hf_hub_download

    remote = look_up(name)
    downloaded, folder = 0, Path()
    for file, nbytes in remote.files.items():
        progress(downloaded, remote.nbytes)

        def report(in_file: int, before: int = downloaded) -> None:
            progress(before + in_file, remote.nbytes)

        with _as_open_error(name):
            _fetch(remote, file, report)
            folder = Path(hf_hub_download(name, file, revision=remote.commit)).parent
        if file == CONFIG:
            open_config(folder)
        downloaded += nbytes
    progress(downloaded, remote.nbytes)
    _name_as_main(folder, remote)
    return folder


def _fetch(remote: Remote, file: str, report: Callable[[int], None]) -> None:
    """Download a file to the cache's blobs, resuming an earlier attempt."""
    from huggingface_hub import constants, get_hf_file_metadata, hf_hub_url
    from huggingface_hub.file_download import http_get, repo_folder_name

    metadata = get_hf_file_metadata(hf_hub_url(remote.id, file, revision=remote.commit), timeout=10)
    if not metadata.etag or not re.fullmatch(r"[\w.-]+", metadata.etag):
        raise OSError(f"the hub sent no usable ETag for {file}")
    blobs = Path(constants.HF_HUB_CACHE) / repo_folder_name(repo_id=remote.id, repo_type="model") / "blobs"
    blob, part = blobs / metadata.etag, blobs / f"{metadata.etag}.part"
    if blob.exists():
        return
    blobs.mkdir(parents=True, exist_ok=True)
    with part.open("ab") as to:
        bar = _progress_bar(report)
        http_get(metadata.location, to, resume_size=to.tell(), expected_size=metadata.size, tqdm_class=bar)
    part.replace(blob)


def _progress_bar(report: Callable[[int], None]) -> Any:
    """Return a tqdm class, as the library requires, that draws nothing and reports the bytes received."""
    from huggingface_hub.utils import tqdm

    class SilentBar(tqdm):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **{**options, "disable": True})
            self.received = options.get("initial") or 0

        def update(self, n: float | None = 1) -> None:
            self.received += int(n or 0)
            report(self.received)

    return SilentBar


def _name_as_main(folder: Path, remote: Remote) -> None:
    """Record the commit as "main", the revision by which the cache is queried."""
    refs = folder.parent.parent / "refs"
    refs.mkdir(exist_ok=True)
    (refs / "main").write_text(remote.commit, encoding="utf-8")


class _as_open_error:
    """Context manager that converts errors of hub and network to an OpenError of one sentence; Stopped passes."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError

        if isinstance(error, GatedRepoError):
            raise OpenError(f"The model {self.name} is gated: accept its terms on huggingface.co first.") from None
        if isinstance(error, RepositoryNotFoundError):
            raise OpenError(f"The model {self.name} does not exist on the hub, or it is private. A folder is given by "
                            f"its path: ./{self.name}.") from None  # fmt: skip
        if isinstance(error, Exception) and not isinstance(error, (OpenError, Stopped)):
            reason = " ".join(str(error).split())[:200] or type(error).__name__
            raise OpenError(refusals.no_network(self.name, reason)) from None
