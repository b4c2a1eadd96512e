"""The registry of placeholders."""

from __future__ import annotations

from collections.abc import Callable

from attnviz.compute.view import View

MISSING = "–"

Computed = Callable[[View], str]
FUNCTIONS: dict[str, Computed] = {}  # placeholder name -> function


def placeholder(function: Computed) -> Computed:
    """Register a function as the placeholder of its name."""
    FUNCTIONS[function.__name__] = function
    return function


def percent(share: float) -> str:
    """Format a share as a percentage with three significant digits: "93.1%"."""
    return f"{100 * share:.3g}%"
