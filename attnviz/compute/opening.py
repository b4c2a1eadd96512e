"""Opening a model of one's own choice: what is known to be here, and downloads that run beside the pages."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path

from attnviz.compute import models
from attnviz.session import opening

_downloads: dict[str, Download] = {}


def chosen(written: str) -> str:
    """Return the name under which what a person wrote can be opened. ConfigError says why it cannot.

    A path becomes that of the folder itself, without "~" and "..".
    """
    name = written.strip()
    if name.startswith(("~", "/", ".")):
        name = str(Path(name).expanduser().resolve())
        if not opening.is_folder(name):
            raise models.OpenError(f"There is no folder {name} with a config.json in it.")
    elif not opening.is_hub_id(name):
        raise models.OpenError(f"“{name[:60]}” is neither a path nor a hub id, such as “HuggingFaceTB/SmolLM2-135M”.")
    if not opening.may_open(name):
        raise models.OpenError("Models cannot be opened here.")
    return name


def is_here(name: str) -> bool:
    """Whether nothing has to be downloaded for it."""
    try:
        models.folder_of(name)
    except models.OpenError:
        return False
    return True


def check(name: str) -> None:
    """Raise the ConfigError that says why the model cannot be opened, before the page is given to it."""
    models.opened_config(name)
    models.tokenizer_of(name)


def in_the_cache() -> list[str]:
    """List the hub ids whose files are all here."""
    return models.hub.all_cached()


@dataclass(eq=False)
class Download:
    """A download that runs in a thread of its own. size: bytes, 0 until it is known."""

    name: str
    there: int = 0
    size: int = 0
    done: bool = False
    problem: str = ""
    _stop: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Download; what goes wrong is kept as a sentence."""
        try:
            models.hub.download(self.name, self._told)
            self.done = True
        except models.hub.Stopped:
            self.problem = "The download was cancelled; it goes on from here when it is started again."
        except models.OpenError as error:
            self.problem = str(error)
        except Exception:
            self.problem = f"The download of {self.name} failed."
            raise
        finally:
            if not self.done and not self.problem:
                self.problem = f"The download of {self.name} failed."

    def _told(self, there: int, size: int) -> None:
        self.there, self.size = there, size
        if self._stop.is_set():
            raise models.hub.Stopped

    def cancel(self) -> None:
        """Stop at the next piece; what is there stays."""
        self._stop.set()

    @property
    def running(self) -> bool:
        return not self.done and not self.problem


def download(name: str) -> Download:
    """Start a download, or return the one that runs."""
    found = _downloads.get(name)
    if found is None or not found.running:
        found = _downloads[name] = Download(name)
        threading.Thread(target=found.run, name=f"download {name}", daemon=True).start()
    return found


def running() -> Download | None:
    """The download that runs, or that has ended and nobody has seen yet."""
    return next(iter(_downloads.values()), None)


def seen(found: Download) -> None:
    """Forget a download that has ended."""
    _downloads.pop(found.name, None)
