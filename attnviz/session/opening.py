"""Which models besides the shipped ones may be opened: on one's own machine any, hosted those that the operator lists.

Hosted is whatever is not surely local: `is_local` says no until the frame of the page has set it (attnviz/ui/local.py).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

ALLOWED = "ATTNVIZ_MODELS"  # of the environment: hub ids and folders, with commas between
FIRST = "ATTNVIZ_MODEL"  # the model of `make run MODEL=…`
MOST_LAYERS, MOST_HEADS = 48, 64  # of any model that is drawn
HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}(/[A-Za-z0-9][\w.-]{0,95})?")
SMALL = {  # hub ids worth looking at: parameters, layers x heads, licence
    "HuggingFaceTB/SmolLM2-135M": "135 M, 30 × 9 heads (3 KV), Apache 2.0",
    "openai-community/gpt2": "124 M, 12 × 12 heads, MIT",
    "Qwen/Qwen2.5-0.5B": "494 M, 24 × 14 heads (2 KV), Apache 2.0",
    "Qwen/Qwen3-0.6B": "596 M, 28 × 16 heads (8 KV), Apache 2.0",
    "TinyLlama/TinyLlama_v1.1": "1,100 M, 22 × 32 heads (4 KV), Apache 2.0",
}

is_local: Callable[[], bool] = lambda: False  # noqa: E731


def listed() -> tuple[str, ...]:
    """The models that whoever started the server has named."""
    names = [os.environ.get(FIRST, ""), *os.environ.get(ALLOWED, "").split(",")]
    return tuple(dict.fromkeys(name.strip() for name in names if name.strip()))


def may_choose() -> bool:
    """Whether the person at the browser may open any model: on one's own machine, where no list is given."""
    return not os.environ.get(ALLOWED) and is_local()


def may_open(name: str) -> bool:
    """Whether this folder or hub id may be opened: word for word one that is listed, or any on one's own machine."""
    return name in listed() or (may_choose() and (is_hub_id(name) or is_folder(name)))


def is_hub_id(name: str) -> bool:
    """Whether this can be the name of a model on the hub."""
    return HUB_ID.fullmatch(name) is not None and ".." not in name


def is_folder(name: str) -> bool:
    """Whether this is the whole path of a folder that holds a model."""
    return name.startswith("/") and "\0" not in name and len(name) < 4000 and (Path(name) / "config.json").is_file()


_recent: list[str] = []  # opened before, on one's own machine, where there is one person
MOST_RECENT = 6


def remember(name: str) -> None:
    """Offer the model in the list from now on, the last opened first."""
    _recent[:] = [name, *(other for other in _recent if other != name)][:MOST_RECENT]


def offered(current: str, shipped: tuple[str, ...]) -> list[str]:
    """List what the Model list offers beside the shipped ones: what is listed, opened before, and open now."""
    names = [*listed(), *(_recent if may_choose() else ()), *([] if current in shipped else [current])]
    return list(dict.fromkeys(names))


def short_name(name: str) -> str:
    """The last part of a folder or hub id, as it is shown."""
    return name.rstrip("/").rpartition("/")[2] or name
