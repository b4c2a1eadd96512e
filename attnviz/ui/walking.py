"""What a walk through source code reports: the step and the entry that the user chose in it."""

from __future__ import annotations

from attnviz.ui import state


def take_step(step: int) -> None:
    """Store the step; only the URL and the links rerun, since the browser already shows it."""
    state.change(step=step)
    state.rerun(state.LINKS)


def take_entry(step: int, row: tuple[int, bool], column: tuple[int, bool]) -> None:
    """Store the chosen entry: a row or column that is a token becomes the selected query or key of all pages."""
    if row[1]:
        state.change(query=row[0])
    take_entry_of_last(step, row, column)


def take_entry_of_last(step: int, _row: tuple[int, bool], column: tuple[int, bool]) -> None:
    """Store the chosen entry's step and column; a decode step has one query, the last token."""
    state.change(**{"step": step, "key" if column[1] else "column": column[0]})
    state.rerun("parts")
