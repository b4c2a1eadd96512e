"""The numbers behind a figure are written to a file unchanged; the standalone page says what the figure says."""

import csv
import io
import json
import re

from attnviz.figures.drawing import Drawing, quoted
from attnviz.figures.margins import with_room
from attnviz.figures.theme import base_figure
from attnviz.ui.charts import as_csv, as_html


def test_a_table_comes_back_from_csv():
    table = {"token": ["·the", 'a "quoted", one', "好"], "weight": [0.25, 1, 3]}
    rows = list(csv.reader(io.StringIO(as_csv(table))))
    assert rows == [["token", "weight"], ["·the", "0.25"], ['a "quoted", one', "1"], ["好", "3"]]


def test_a_missing_number_is_blank_or_named():
    table = {"weight": [0.5, float("nan"), None]}
    assert as_csv(table).split() == ["weight", "0.5", '""', '""'] and as_csv(table, "NaN").split()[2:] == ["NaN", "NaN"]


def test_no_cell_becomes_a_formula_in_a_spreadsheet():
    rows = list(csv.reader(io.StringIO(as_csv({"token": ["=1+1", "@x", "+a", "-b"], "n": [-1, 2, 3, 4]}))))
    assert [r[0] for r in rows[1:]] == ["'=1+1", "'@x", "'+a", "'-b"]
    assert rows[1][1] == "-1"


def test_a_standalone_page_has_title_note_link_and_room_for_its_labels():
    chart = base_figure(217, xaxis={"side": "top"})
    chart.add_bar(orientation="h", x=[2, 3], y=["long name", "b"])
    title = f"After {quoted('<b>*x*')}: **2** of 3"
    page = as_html(Drawing(chart, title, "A *note* with `code`.", "", {}), "http://host/heads?tab=off&query=7")
    assert page.count("After “&lt;b&gt;*x*”: 2 of 3") == 2 and "<p>A note with code.</p>" in page  # in the tab as well
    assert '<a href="http://host/heads?tab=off&amp;query=7">http://host/heads?tab=off&amp;query=7</a>' in page
    margin = json.loads(re.findall(r'"margin":({.*?})', page)[-1])
    assert margin == with_room(chart).layout["margin"] and margin["t"] > 30 and "Plotly.newPlot" in page
