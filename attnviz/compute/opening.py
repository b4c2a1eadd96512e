"""Opening other models: which are available locally, and downloads in background threads."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path

from attnviz.checkpoints import refusals
from attnviz.checks import is_hub_id
from attnviz.compute import models
from attnviz.session import openable

_downloads: dict[str, Download] = {}


def resolved_name(written: str) -> str:
    """Return the model name for the user's input. ConfigError if it cannot be opened.

    A path is made absolute, without "~" and ".."; that of a model's JSON or safetensors file stands for its folder. A
    relative path to a model or a file wins over a hub id of the same name, as in transformers.
    """
    name = written.strip().strip("\"'").strip()
    path = _path(name)
    if path is not None:
        name = str(path)
        if not openable.is_folder(name):
            raise models.OpenError(models.why_no_model(path))
    elif not is_hub_id(name):
        raise models.OpenError(f"“{name[:60]}” is neither a path nor a hub id such as “HuggingFaceTB/SmolLM2-135M”.")
    if not openable.may_open(name):
        raise models.OpenError("This server opens no models; run AttnViz on your own machine to open one.")
    return name


def _path(name: str) -> Path | None:
    """Return the absolute path that the user means; None for a hub id, and for a path that no system accepts."""
    try:
        path = Path(name).expanduser().resolve()
        path = path.parent if path.name == refusals.CONFIG or _is_of_model(path) else path
        exists, is_file = path.is_dir(), path.is_file()
    except (OSError, ValueError, RuntimeError):  # too long, a NUL, the home of an unknown user
        return None
    if name.startswith(("~", ".")) or Path(name).is_absolute():
        return path
    is_model = exists and openable.is_folder(str(path))
    is_meant = is_model or is_file or (exists and bool(name) and not is_hub_id(name))
    return path if is_meant and openable.may_choose() else None


def _is_of_model(path: Path) -> bool:
    """Check whether this is a file in a model's folder that stands for it."""
    return path.suffix in (".json", ".safetensors") and path.is_file() and (path.parent / refusals.CONFIG).is_file()


def is_cached_locally(name: str) -> bool:
    """Check whether the model is available without a download."""
    try:
        models.folder_of(name)
    except models.OpenError:
        return False
    return True


def check(name: str) -> None:
    """Raise ConfigError if the model cannot be opened."""
    models.opened_config(name)
    models.tokenizer_of(name)


def cached_hub_ids() -> list[str]:
    """List the hub ids whose files are all in the local cache."""
    return models.hub.all_cached()


@dataclass(eq=False)
class Download:
    """A download in a background thread. received: bytes so far. size: bytes in total, 0 until known."""

    name: str
    received: int = 0
    size: int = 0
    done: bool = False
    problem: str = ""
    _stop: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Download the model; an error is stored as a sentence in `problem`."""
        try:
            models.hub.download(self.name, self._on_progress)
            self.done = True
        except models.hub.Stopped:
            self.problem = "The download was cancelled. Start it again to resume it."
        except models.OpenError as error:
            self.problem = str(error)
        finally:
            if not self.done and not self.problem:
                self.problem = f"The download of {self.name} failed. Start it again to resume it."

    def _on_progress(self, received: int, size: int) -> None:
        self.received, self.size = received, size
        if self._stop.is_set():
            raise models.hub.Stopped

    def cancel(self) -> None:
        """Stop at the next chunk; what was downloaded is kept."""
        self._stop.set()

    @property
    def running(self) -> bool:
        return not self.done and not self.problem


def download(name: str) -> Download:
    """Start a download, or return the running one."""
    running = _downloads.get(name)
    if running is None or not running.running:
        running = _downloads[name] = Download(name)
        threading.Thread(target=running.run, name=f"download {name}", daemon=True).start()
    return running


def running() -> Download | None:
    """Return the download that is running, or has ended and not been reported yet."""
    return next(iter(_downloads.values()), None)


def discard(found: Download) -> None:
    """Remove a download whose end has been reported."""
    _downloads.pop(found.name, None)
