"""How AttnViz is started here: by the command `attnviz` of a wheel, or from a checkout. Standard library only."""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).parent
CARRIED = PACKAGE / "_app"  # in a wheel: app.py, pages/ and Streamlit's configuration (pyproject.toml)
INSTALLED = CARRIED.is_dir()
APP = (CARRIED if INSTALLED else PACKAGE.parent) / "app.py"
PRACTICE = "attnviz practice" if INSTALLED else ".venv/bin/python -m attnviz.practice"  # judges a person's own code


def with_code(file: str) -> str:
    """Return the command that opens the app for a person's own file."""
    return f"attnviz --code {file}" if INSTALLED else f"make run CODE={file}"
