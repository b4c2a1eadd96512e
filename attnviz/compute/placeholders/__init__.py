"""The placeholders in the texts of lessons, computed for the settings of each step: one file per subject."""

from __future__ import annotations

from attnviz.compute.placeholders import cache, cost, head, model, practice, prediction, rope
from attnviz.compute.placeholders.registry import FUNCTIONS, MISSING
from attnviz.compute.view import View, drawable
from attnviz.session.lessons import replaced

__all__ = ["FUNCTIONS", "cache", "cost", "filled", "head", "model", "practice", "prediction", "rope"]


def filled(text: str, view: View) -> str:
    """Fill in each placeholder's value for this view; a dash if the model cannot run on this text."""
    runs = drawable(view)
    return replaced(text, lambda name: FUNCTIONS[name](view) if runs else MISSING)
