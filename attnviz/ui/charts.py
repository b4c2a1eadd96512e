"""A drawing on the page: title, note, chart, formula, table of numbers and downloads."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any, Literal

import streamlit as st

from attnviz.figures.drawing import Caption, Drawing
from attnviz.figures.margins import with_room
from attnviz.phrases import unbroken
from attnviz.ui import state
from attnviz.ui.components.save_picture import prints_link, save_picture
from attnviz.ui.qr_code import address

# Of plotly's buttons only the one that Streamlit adds is shown: it opens the chart full-screen.
UNUSED = ["toImage", "zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "autoScale2d", "resetScale2d"]
CONFIG = {"displayModeBar": True, "modeBarButtonsToRemove": UNUSED, "responsive": True}
PRESENTED_HEIGHT = 350  # pixels: with its title, it fits above a lesson bar with an open answer, at 1280 x 720
TABLE_HEIGHT = 240  # pixels: header and five and a half rows; the half row shows that the table scrolls


def show(drawing: Drawing, key: str) -> None:
    """Put the drawing on the page, and below it one row: its calculation, its numbers and downloads, full screen.

    `key` is unique on the page: letters, digits and hyphens.
    """
    with st.container(key=f"drawn-{key}"):
        picture(drawing, key)
        with st.container(horizontal=True, gap="small"):
            calculation(drawing.formula, drawing.legend, key)
            with _folded("Numbers and downloads", f"numbers-{key}", "rerun") as numbers:
                if is_open(numbers):
                    _numbers(drawing, key)


def is_open(expander: Any) -> bool:
    """Check whether an expander is open; its content is computed only then."""
    return expander.open


def beside(key: str) -> Any:
    """Return the place of what belongs into the row of a component's own buttons, right above."""
    return st.container(key=f"beside-{key}")


def on_demand(label: str, make: dict[str, Callable[[], Drawing | Caption]]) -> None:
    """Expander whose drawings, by key, are computed only when it is opened; the page already shows their content.

    Of a caption only the numbers are shown: the page's own picture of it can be saved and enlarged.
    """
    with _folded(label, f"numbers-{'-'.join(make)}", "rerun") as numbers:
        if is_open(numbers):
            for key, draw in make.items():
                drawing = draw()
                if isinstance(drawing, Drawing):
                    picture(drawing, key)
                else:
                    st.markdown(f"## {drawing.title}")
                _equations(drawing.formula, drawing.legend)
                _numbers(drawing, key)


def picture(drawing: Drawing, key: str) -> None:
    """Show the title, the note and the chart, without numbers and downloads."""
    with st.container(key=f"figure-{key}"):  # the element that a lesson marks and a link with `only` selects
        heading(drawing.title, drawing.note, drawing.more)
        chart = with_room(drawing.chart)
        if state.current().present and (drawing.tall or chart.layout["height"] > PRESENTED_HEIGHT):
            chart = chart.at_height(PRESENTED_HEIGHT)
        st.plotly_chart(chart.sent(), theme="streamlit", config=CONFIG, alt=drawing.alt, key=f"chart-{key}")
        if drawing.below:
            st.caption(unbroken(drawing.below))


def heading(title: str, note: str = "", more: str = "") -> None:
    """Write what stands above a drawing or a list: the finding, and how to read it.

    more: behind a question mark, how it was computed, measured or checked, with tolerances, and by whom (markdown).
    """
    st.markdown(f"## {title}", help=(more or None) if not note else None)
    if note:
        st.caption(unbroken(note), help=more or None)


def calculation(formula: str, letters: str, key: str) -> None:
    """Fold the equations and the meaning of their letters.

    The browser alone opens them (components/chart_calculations.js), so no click reruns anything. They are sent while
    they are folded too, since a printed page shows them (server/printed.js).
    """
    if not formula and not letters:
        return
    with _folded("Show the calculation", f"calculation-{key}", "ignore"):
        _equations(formula, letters)


def _folded(label: str, key: str, on_change: Literal["ignore", "rerun"]) -> Any:
    return st.expander(label, key=key, type="compact", on_change=on_change)


def _equations(formula: str, letters: str) -> None:
    if formula:
        equations(formula)
    if letters:
        st.caption(unbroken(letters))


def equations(lines: str) -> None:
    """Show lines of LaTeX below each other; page_style.css wraps each of them where it is wider than the page."""
    st.latex("\n$$\n$$\n".join(lines.splitlines()))  # a block each: within one, KaTeX wraps nothing after `\\\\`


def _numbers(drawing: Drawing | Caption, key: str) -> None:
    name, n_rows = state.file_name(key), len(next(iter(drawing.table.values())))
    missing = drawing.missing if isinstance(drawing, Drawing) else ""
    if drawing.more:  # as text too: for print, and for a screen reader, to which the note's help is a button
        st.caption(drawing.more)
    st.dataframe(drawing.table, hide_index=True, height=TABLE_HEIGHT if n_rows > 5 else "content", placeholder=missing)
    with st.container(horizontal=True, vertical_alignment="center"):
        if isinstance(drawing, Drawing):
            _picture_downloads(drawing, key, name)
        st.download_button(
            "CSV", lambda: as_csv(drawing.table, missing), f"{name}.csv", "text/csv", key=f"csv-{key}",
            on_click="ignore",
        )  # fmt: skip


def _picture_downloads(drawing: Drawing, key: str, name: str) -> None:
    link = address(st.context.url or "", state.current()) if prints_link() else ""
    save_picture(f"chart-{key}", _plain(drawing.below))
    st.download_button(
        "HTML", lambda: as_html(drawing, link), f"{name}.html", "text/html", key=f"html-{key}", on_click="ignore"
    )


def as_html(drawing: Drawing, link: str) -> str:
    """Return a standalone HTML page that works offline: title, note, chart with plotly's script, link to the view.

    link: "" for none.
    """
    title, note, below = (escape(_plain(text)) for text in (drawing.title, drawing.note, drawing.below))
    url = f'<p><a href="{escape(link)}">{escape(link)}</a></p>\n' if link else ""
    figure = with_room(drawing.chart).figure()
    chart = figure.to_html(include_plotlyjs=True, full_html=False, config={"displaylogo": False})
    return (
        f'<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n<title>{title}</title>\n'
        f'<body style="font: 15px sans-serif">\n<h1 style="font-size: 1.2em">{title}</h1>\n<p>{note}</p>\n{chart}\n'
        f"<p>{below}</p>\n{url}</body>\n</html>\n"
    )


def _plain(markdown: str) -> str:
    """Return a drawing's markdown as plain text: without escapes and emphasis."""
    return re.sub(r"\\([!-/:-@\[-`{-~])|[*`]", r"\1", markdown)


def as_csv(table: Mapping[str, Sequence], missing: str = "") -> str:
    """Convert columns to CSV; `missing` stands for None and NaN.

    A text that a spreadsheet would evaluate as a formula is prefixed with an apostrophe.
    """
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(table)
    for row in zip(*table.values(), strict=True):
        writer.writerow([_cell(value, missing) for value in row])
    return out.getvalue()


def _cell(value: object, missing: str) -> Any:
    if isinstance(value, str):
        return f"'{value}" if value[:1] in "=+-@\t\r" else value
    return missing if value is None or (isinstance(value, float) and math.isnan(value)) else value
