"""`check` in a notebook: what a function uses comes with it, and the verdict is the judge's."""

import linecache
import subprocess
import sys
from types import ModuleType

import pytest

from attnviz.practice import check
from attnviz.practice.cells import source_of
from tests.practice.answers import ANSWERS

IMPORTS = """
import math
import torch
import torch.nn.functional as F
from functools import partial
from torch import Tensor, nn
"""
CELLS = f"""{IMPORTS}
SMALL, UNUSED = 1e-6, object()
half = lambda x: x / 2

def scaled(q: Tensor, k: Tensor) -> Tensor:
    return q @ k.mT / math.sqrt(q.shape[-1])

def attention(q, k, v, mask=None):
    scores = scaled(q, k)
    if mask is None:
        mask = torch.ones_like(scores, dtype=torch.bool).tril()
    scores = scores.masked_fill(~mask, -math.inf)
    return F.softmax(scores, -1).nan_to_num(SMALL - 1e-6) @ v

def alone(x):
    return partial(scaled, x)
"""


@pytest.fixture
def cell(monkeypatch):
    """Run cells as IPython does: in one namespace, their source known to linecache."""

    def run(source: str) -> ModuleType:
        module = ModuleType("cells_of_a_notebook")
        monkeypatch.setitem(sys.modules, module.__name__, module)
        name = "<cell 1>"
        linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
        exec(compile(source, name, "exec"), vars(module))
        return module

    return run


def test_a_function_is_judged_with_what_it_uses_from_other_cells(cell):
    checked = check(cell(CELLS).attention, seed=3)
    assert checked.verdict.passed, checked
    assert checked.task.name == "attention" and f"{len(checked.verdict.checks)} checks passed" in repr(checked)
    for used in ("import math as math", "import torch.nn.functional as F", "from torch import Tensor", "SMALL = 1e-06"):
        assert used in checked.source
    assert "UNUSED" not in checked.source and checked.source.index("def scaled") < checked.source.index("def attention")


def test_a_mistake_is_named_and_a_class_and_several_definitions_are_judged(cell):
    module = cell(CELLS.replace(" / math.sqrt(q.shape[-1])", ""))
    assert "Your output equals ours without" in " ".join(repr(check(module.attention, seed=3)).split())
    (answer, *_) = ANSWERS["cache"]
    module = cell(IMPORTS + answer)
    checked = check(module.Cache, module.decode_step, seed=3)
    assert checked.verdict.passed and checked.task.name == "cache"


def test_source_is_judged_as_text_and_named_by_its_line():
    (answer, *_) = ANSWERS["rms-norm"]
    assert check(IMPORTS + answer, seed=5).verdict.passed
    assert check(f'TASK = "rms-norm"\n{IMPORTS}{answer}', seed=5).verdict.passed


def test_what_cannot_be_judged_is_a_sentence(cell):
    with pytest.raises(ValueError, match=r"does not name a task. Pass task= with one of: attention, "):
        check(cell(CELLS).alone)
    with pytest.raises(ValueError, match="no task 'flush'"):
        check("x = 1", task="flush")
    with pytest.raises(ValueError, match="invalid syntax in line 2"):
        check("x = 1\ndef (")
    made = {}
    exec("def attention(q, k, v, mask=None): return q", made)
    with pytest.raises(ValueError, match="source of attention cannot be found: pass it as text"):
        source_of(made["attention"])


def test_importing_practice_does_not_import_torch():
    code = "import sys, attnviz.practice; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
