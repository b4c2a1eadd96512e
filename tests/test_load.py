"""docs/load.md has a row for each figure with a bound, and the bound that `make bench` and `make soak` use."""

import re
from pathlib import Path

from tests.bench import __main__ as bench
from tests.bench.bounds import row
from tests.soak import __main__ as soak

LOAD = Path(__file__).resolve().parents[1] / "docs" / "load.md"


def test_the_tables_have_all_bounds():
    rows = re.findall(r"^\| (.+) \| \S+ \| ([\d.]+) \|$", LOAD.read_text(encoding="utf-8"), re.MULTILINE)
    assert {name: float(most) for name, most in rows} == bench.AT_MOST | soak.AT_MOST


def test_a_figure_beyond_its_bound_is_marked():
    assert [row("a / b", value, 1.3) for value in (1.3, 1.31)] == [
        "| a / b | 1.30 | 1.3 |",
        "| a / b | 1.31 | 1.3 |  not met",
    ]
    assert row("seconds", 7, None) == "| seconds | 7.00 |  |"
