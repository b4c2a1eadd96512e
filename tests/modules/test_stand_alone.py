"""Check that the mechanisms are stand-alone: each file runs alone in an empty folder and computes the same as here.

.venv/bin/python -m pytest tests/modules/test_stand_alone.py
"""

import ast
import builtins
import shutil
import sys
import textwrap
from pathlib import Path

import pytest
import torch

from attnviz.modules import (
    GatedDeltaNet,
    GroupedQueryAttention,
    KVCache,
    RMSNorm,
    Rope,
    SwiGLU,
    apply_rope,
    rope_frequencies,
)
from attnviz.modules.sources import sources
from tests.oracles import agree

MODULES = Path(__file__).resolve().parents[2] / "attnviz" / "modules"
ALONE = ("attention", "sparse", "rope", "norm", "feedforward", "cache")

# The script for each file reads `inputs` and `weights`, and writes `outputs`.
SCRIPTS = {
    "attention": """
        from attention import GroupedQueryAttention
        layer = GroupedQueryAttention(13, 6, 2, head_dim=5)
        layer.load_state_dict(weights)
        record = []
        outputs = [layer(inputs[0], causal=True, record=lambda **found: record.append(found))]
        outputs += [record[0][name] for name in "qkv"]
    """,
    "sparse": """
        from sparse import index_scores, top_k_mask
        q = inputs[0].unsqueeze(1).expand(-1, 5, -1, -1)
        scores = index_scores(q, inputs[0], inputs[0][..., :5])
        outputs = [scores, top_k_mask(scores, 3).float()]
    """,
    "delta": """
        from delta import GatedDeltaNet, gated_delta_rule
        layer = GatedDeltaNet(13, 6, 2, key_dim=5, head_dim=7)
        layer.load_state_dict(weights)
        outputs = [layer(inputs[0])]
    """,
    "rope": """
        from rope import Rope, apply_rope, rope_frequencies
        frequencies = rope_frequencies(4)
        x = inputs[0][..., :6]
        outputs = [Rope(frequencies)(x, 3), apply_rope(x, torch.arange(7), frequencies, "interleaved")]
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


GIVEN = torch.randn(2, 7, 13, generator=torch.Generator().manual_seed(0))
LAYERS = {
    "attention": GroupedQueryAttention(13, 6, 2, head_dim=5),
    "delta": GatedDeltaNet(13, 6, 2, key_dim=5, head_dim=7),
    "norm": RMSNorm(13),
    "feedforward": SwiGLU(13, 17),
}


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[torch.Tensor]]:
    """Return each script's outputs, run with its file alone in a folder, where attnviz cannot be imported."""
    found = {}
    for name, script in SCRIPTS.items():
        folder = tmp_path_factory.mktemp(name)
        shutil.copy(MODULES / f"{name}.py", folder)
        here = {"torch": torch, "inputs": [GIVEN], "weights": LAYERS[name].state_dict() if name in LAYERS else None}
        with pytest.MonkeyPatch.context() as patch:
            for imported in [m for m in sys.modules if m.split(".")[0] == "attnviz"]:
                patch.delitem(sys.modules, imported)
            patch.setitem(sys.modules, "attnviz", None)  # its import is an error
            outside = [p for p in sys.path if p and Path(p).resolve() != MODULES.parents[1]]
            patch.setattr(sys, "path", [str(folder), *outside])
            exec(textwrap.dedent(script), here)
            assert Path(sys.modules[name].__file__).parent == folder
            del sys.modules[name]
        found[name] = here["outputs"]
    return found


def test_attention_alone_equals_ours_and_torchs_kernel(alone: dict) -> None:
    layer = LAYERS["attention"]
    output, q, k, v = alone["attention"]
    assert agree(output, layer(GIVEN, causal=True))
    kernel = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    assert agree(output, layer.o_proj(kernel.transpose(1, 2).flatten(2)))


def test_rope_alone_equals_ours(alone: dict) -> None:
    x, frequencies = GIVEN[..., :6], rope_frequencies(4)
    half, interleaved = alone["rope"]
    assert agree(half, Rope(frequencies)(x, 3)) and not agree(half, x, 0.1)
    assert agree(interleaved, apply_rope(x, torch.arange(7), frequencies, "interleaved"))


@pytest.mark.parametrize("name", ["delta", "norm", "feedforward"])
def test_delta_norm_and_feed_forward_alone_equal_ours(name: str, alone: dict) -> None:
    assert agree(alone[name][0], LAYERS[name](GIVEN))


def test_the_cache_alone_holds_what_it_was_given(alone: dict) -> None:
    ours = KVCache()
    ours.append(GIVEN, GIVEN)
    k, v, n_bytes = alone["cache"]
    assert agree(k, GIVEN) and agree(v, GIVEN) and n_bytes == ours.nbytes == 2 * GIVEN.nbytes


def test_index_scores_alone_are_those_of_loops(alone: dict) -> None:
    scores, mask = alone["sparse"]
    for b, t, s in ((0, 0, 0), (1, 2, 6), (1, 6, 3)):  # weights of index head i: x's dimension i
        product = max(0.0, float(GIVEN[b, t] @ GIVEN[b, s]))
        assert float(scores[b, t, s]) == pytest.approx(product * float(GIVEN[b, t, :5].sum()), abs=1e-5)
    assert mask.shape == (2, 1, 7, 7) and mask.sum(-1).eq(3).all()


def test_the_reader_sees_attention_in_at_most_120_lines() -> None:
    assert len((MODULES / "attention.py").read_text().splitlines()) <= 120


# --- the source that "View source" shows ------------------------------------------------------------------------------


def undefined(source: str) -> set[str]:
    """Return the names that a file reads but does not define by an import, assignment, definition or argument."""
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


@pytest.mark.parametrize("own", ["attention.py", "latent.py", "extended.py", "indexed.py"])
def test_each_file_that_is_shown_is_whole_and_defines_its_names(own: str) -> None:
    shown, beside = sources(own), {"sparse.py", "latent.py"} if own == "indexed.py" else set()
    assert set(shown) == {own} | beside | {f"{name}.py" for name in ALONE} - ({"sparse.py"} - beside)
    for name, source in shown.items():
        assert source == (MODULES / name).read_text()
        compile(source, name, "exec")
        assert undefined(source) == set(), name
        ours = {line.split()[1] for line in source.splitlines() if line.startswith("from attnviz")}
        assert {f"{module.removeprefix('attnviz.modules.')}.py" for module in ours} <= set(shown)


@pytest.mark.parametrize("source", ["x = y", "def f(a):\n    return b", "class A(Base): pass", "f'{lost}'"])
def test_an_undefined_name_is_noticed(source: str) -> None:
    assert len(undefined(source)) == 1
