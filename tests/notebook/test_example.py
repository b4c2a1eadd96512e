"""The example notebook: its cells run in their order, and what they show are views of the run that they made."""

import ast
import json
from pathlib import Path
from typing import Any

import pytest

from attnviz.notebook import View
from attnviz.runs.file import open_run

NOTEBOOK = Path(__file__).resolve().parents[2] / "docs" / "notebook.ipynb"


def cells() -> list[str]:
    found = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in found if cell["cell_type"] == "code"]


def shown(source: str, names: dict[str, Any]) -> Any:
    """Run a cell as a notebook does, and return the value of its last line."""
    *lines, last = ast.parse(source).body
    exec(compile(ast.Module(lines, []), "cell", "exec"), names)
    assert isinstance(last, ast.Expr), "the last line of a cell is what it shows"
    return eval(compile(ast.Expression(last.value), "cell", "eval"), names)


def test_the_cells_run_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    array, cross, causal, chart, model = (shown(source, names) for source in cells())
    assert isinstance(array, View) and array.run.kinds[0].n_heads == (4, 4, 4)
    assert (len(cross.run.kinds[0].tokens), len(cross.run.kinds[0].key_tokens)) == (5, 6) and cross.run.kinds[0].cross
    assert (tmp_path / "cross.html").read_text(encoding="utf-8") == cross.html()
    assert causal is False and open_run(tmp_path / "run.safetensors").title == "An encoder"
    assert "Rollout through 3 layers" in chart.layout.title.text
    sizes = {kind.name: (kind.n_layers, len(kind.tokens), len(kind.key_tokens)) for kind in model.run.kinds}
    assert sizes == {"encoder": (2, 5, 5), "decoder": (3, 3, 3), "cross": (3, 3, 5)}
    for view in (array, cross, model):
        assert view._repr_html_().startswith("<iframe")


def test_no_output_is_stored() -> None:
    assert '"outputs": []' in NOTEBOOK.read_text(encoding="utf-8") and NOTEBOOK.stat().st_size < 10_000
