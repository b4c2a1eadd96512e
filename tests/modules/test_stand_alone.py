"""The mechanisms can be copied: each file alone in an empty folder runs, and computes what it computes here.

.venv/bin/python -m pytest tests/test_stand_alone.py
"""

import ast
import builtins
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from attnviz.modules import GroupedQueryAttention, KVCache, RMSNorm, Rope, SwiGLU, apply_rope, rope_frequencies
from attnviz.modules.sources import sources
from tests.oracles import agree

pytestmark = pytest.mark.slow

MODULES = Path(__file__).resolve().parents[2] / "attnviz" / "modules"
ALONE = ("attention", "rope", "norm", "feedforward", "cache")

# What each file is asked for: `inputs` and `weights` come from this process, `outputs` go back to it.
SCRIPTS = {
    "attention": """
        from attention import GroupedQueryAttention
        layer = GroupedQueryAttention(13, 6, 2, head_dim=5)
        layer.load_state_dict(weights)
        record = []
        outputs = [layer(inputs[0], causal=True, record=lambda **found: record.append(found))]
        outputs += [record[0][name] for name in "qkv"]
    """,
    "rope": """
        from rope import Rope, apply_rope, rope_frequencies
        frequencies = rope_frequencies(4)
        outputs = [Rope(frequencies)(inputs[0], 3), apply_rope(inputs[0], torch.arange(7), frequencies, "interleaved")]
    """,
    "norm": """
        from norm import RMSNorm
        layer = RMSNorm(13)
        layer.load_state_dict(weights)
        outputs = [layer(inputs[0])]
    """,
    "feedforward": """
        from feedforward import SwiGLU
        layer = SwiGLU(13, 17)
        layer.load_state_dict(weights)
        outputs = [layer(inputs[0])]
    """,
    "cache": """
        from cache import KVCache
        cache = KVCache()
        cache.append(inputs[0][:, :3], inputs[0][:, :3])
        outputs = list(cache.append(inputs[0][:, 3:], inputs[0][:, 3:])) + [torch.tensor(cache.nbytes)]
    """,
}


def alone(name: str, folder: Path, inputs: list[torch.Tensor], weights: dict) -> list[torch.Tensor]:
    """Copy one file into the folder and run its script there, in a Python that sees nothing else of ours."""
    shutil.copy(MODULES / f"{name}.py", folder)
    torch.save((inputs, weights), folder / "given.pt")
    body = "\n".join(line.strip() for line in SCRIPTS[name].splitlines())
    code = f"""
import sys
sys.path = ["."] + [p for p in sys.path if p]
import torch
inputs, weights = torch.load("given.pt")
{body}
assert not any(m.split(".")[0] == "attnviz" for m in sys.modules)
torch.save(outputs, "found.pt")
"""
    environment = {"PATH": "", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-I", "-c", code]  # isolated: neither PYTHONPATH nor a folder of the user's
    run = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return torch.load(folder / "found.pt")


def test_attention_alone_equals_ours_and_torchs_kernel(tmp_path: Path) -> None:
    x, layer = torch.randn(2, 7, 13), GroupedQueryAttention(13, 6, 2, head_dim=5)
    output, q, k, v = alone("attention", tmp_path, [x], layer.state_dict())
    assert agree(output, layer(x, causal=True))
    kernel = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    assert agree(output, layer.o_proj(kernel.transpose(1, 2).flatten(2)))


def test_rope_alone_equals_ours(tmp_path: Path) -> None:
    x, frequencies = torch.randn(2, 3, 7, 6), rope_frequencies(4)
    half, interleaved = alone("rope", tmp_path, [x], {})
    assert agree(half, Rope(frequencies)(x, 3)) and not agree(half, x, 0.1)
    assert agree(interleaved, apply_rope(x, torch.arange(7), frequencies, "interleaved"))


@pytest.mark.parametrize("name, layer", [("norm", RMSNorm(13)), ("feedforward", SwiGLU(13, 17))])
def test_norm_and_feed_forward_alone_equal_ours(name: str, layer: torch.nn.Module, tmp_path: Path) -> None:
    x = torch.randn(2, 7, 13)
    (output,) = alone(name, tmp_path, [x], layer.state_dict())
    assert agree(output, layer(x))


def test_the_cache_alone_holds_what_it_was_given(tmp_path: Path) -> None:
    x, ours = torch.randn(2, 7, 13), KVCache()
    ours.append(x, x)
    k, v, n_bytes = alone("cache", tmp_path, [x], {})
    assert agree(k, x) and agree(v, x) and n_bytes == ours.nbytes == 2 * x.nbytes


def test_the_reader_sees_attention_in_at_most_120_lines() -> None:
    assert len((MODULES / "attention.py").read_text().splitlines()) <= 120


# --- what "View source" shows ---------------------------------------------------------------------------------------


def undefined(source: str) -> set[str]:
    """Names that a file reads and nothing in it makes: imports, assignments, definitions and arguments."""
    tree, read, made = ast.parse(source), set(), {*dir(builtins), "__file__", "__name__"}
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Load()):
                read.add(name)
            case ast.Name(id=name) | ast.arg(arg=name) | ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                made.add(name)
            case ast.Import() | ast.ImportFrom():
                made |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
                made.add(name)
    return read - made


@pytest.mark.parametrize("model", ["mha", "gqa-4", "mqa", "mla", "own"])
def test_each_file_that_is_shown_is_whole_and_defines_its_names(model: str) -> None:
    shown = sources(model)
    assert set(shown) - {"latent.py"} == {f"{name}.py" for name in ALONE}
    assert ("latent.py" in shown) == (model == "mla")
    for name, source in shown.items():
        assert source == (MODULES / name).read_text()
        compile(source, name, "exec")
        assert undefined(source) == set(), name
        ours = {line.split()[1] for line in source.splitlines() if line.startswith("from attnviz")}
        assert {f"{module.removeprefix('attnviz.modules.')}.py" for module in ours} <= set(shown)


@pytest.mark.parametrize("source", ["x = y", "def f(a):\n    return b", "class A(Base): pass", "f'{lost}'"])
def test_an_undefined_name_is_noticed(source: str) -> None:
    assert len(undefined(source)) == 1
