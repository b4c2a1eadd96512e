"""What a walk through source code reports: the step and the entry that the user chose in it.

field: the setting that holds the line, since each walk has its own.
"""

from __future__ import annotations

from attnviz.ui import state

Place = tuple[int, bool]  # a row or a column, and whether it is a token


def take_step(step: int, field: str = "step") -> None:
    """Store the step; only the URL and the links rerun, since the browser already shows it."""
    state.change(**{field: step})
    state.rerun(state.LINKS)


def take_entry(step: int, row: Place, column: Place, field: str = "step") -> None:
    """Store the chosen entry: a row or column that is a token becomes the selected query or key of all pages."""
    if row[1]:
        state.change(query=row[0])
    take_entry_of_last(step, row, column, field)


def take_entry_of_last(step: int, _row: Place, column: Place, field: str = "decode_step") -> None:
    """Store the chosen entry's step and column; a decode step has one query, the last token."""
    state.change(**{field: step, "key" if column[1] else "column": column[0]})
    state.rerun("tabs")
