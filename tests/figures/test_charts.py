"""The numbers behind a figure are written to a file unchanged."""

import csv
import io

from attnviz.ui.charts import as_csv


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
