"""AttnViz: the real attention modules, run on any text, and everything they compute drawn.

For code: `show` draws attention weights in a notebook or a page of their own, `run` records a model of transformers,
`save_run` and `open_run` keep a run in a file, and `figures` is the package of drawings. Each is imported when it is
first used: `import attnviz` alone imports neither numpy nor torch, streamlit or plotly.
"""

from importlib import import_module as _import
from typing import Any as _Any

__version__ = "0.6.2"  # the only place: pyproject.toml reads it

_HOMES = {
    "open_run": "attnviz.runs.file",
    "run": "attnviz.recording.of_transformers",
    "save_run": "attnviz.runs.file",
    "show": "attnviz.notebook",
}

__all__ = ["figures", *_HOMES]  # noqa: PLE0604


def __getattr__(name: str) -> _Any:
    if name == "figures":
        return _import("attnviz.figures")
    if name not in _HOMES:
        raise AttributeError(f"module 'attnviz' has no attribute {name!r}")
    return getattr(_import(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
