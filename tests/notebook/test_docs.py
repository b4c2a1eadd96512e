"""What docs/notebook.md says of a run's arrays."""

from __future__ import annotations

import re
from pathlib import Path

from tests import saved_runs

DOCS = Path(__file__).parents[2] / "docs" / "notebook.md"


def test_the_arrays_of_a_run_are_where_the_text_says() -> None:
    (code,) = re.findall(r"```python\n(kind = .*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    run, lines = saved_runs.decoder(), code.split("\n")
    names: dict = {"run": run}
    exec(lines[0], names)
    shapes = [eval(line, names) for line in lines[1:] if line]
    assert shapes[0].shape == (17, 17) and not shapes[0].flags.writeable
    assert shapes[1][0] == shapes[1][1] == tuple(saved_runs.DECODED)
    assert [each.shape for each in shapes[2]] == [(6, 17, 7), (2, 17, 7)] and shapes[3] is None
