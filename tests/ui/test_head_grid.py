"""Payload of the head grid: decoded cell by cell, and compared with the weights it was made from.

Its rendering is tested in tests/browser. Run: .venv/bin/python -m pytest tests/ui/test_head_grid.py
"""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from attnviz.assets import COMPONENTS as HERE
from attnviz.assets import SCRIPTS, with_imported
from attnviz.figures import theme
from attnviz.figures.blocks import block_size
from attnviz.ui.components import events
from attnviz.ui.components import head_grid as grid
from attnviz.ui.components.packed_weights import MASKED, cells_of

L, H, T = 2, 6, 11
HEADER = {"kv": [0, 0, 1, 1, 2, 2], "labels": [["a"] * T] * 2}


def attention(shape, allowed, seed=0):
    """Return random softmax rows over the allowed keys, (L, H, T, S)."""
    scores = np.random.default_rng(seed).normal(scale=3, size=shape).astype(np.float32)
    exp = np.where(allowed[:, None], np.exp(scores), 0)
    return exp / exp.sum(-1, keepdims=True).clip(1e-30)


def causal(layers, n):
    return np.broadcast_to(np.tri(n, dtype=bool), (layers, n, n))


def read(message):
    """Decode the payload as the browser does: header and cells (L, H, N, M)."""
    start = 4 + int.from_bytes(message[:4], "little")
    header = json.loads(message[4:start])
    body, (layers, heads, rows, columns) = np.frombuffer(message[start:], "<u2"), header["shape"]
    if not header["triangle"]:
        return header, body.reshape(header["shape"])
    cells = np.full((layers, heads, rows, columns), MASKED, np.uint16)
    for number, row in enumerate(np.split(body, layers * heads)):
        for q in range(rows):
            first = q * (q + 1) // 2
            cells[number // heads, number % heads, q, : q + 1] = row[first : first + q + 1]
    return header, cells


def test_a_cell_is_the_weight_to_four_decimals():
    allowed = causal(L, T)
    weights = attention((L, H, T, T), allowed)
    _, cells = read(grid.pack(weights, allowed, HEADER))
    for at in zip(*np.nonzero(np.broadcast_to(allowed[:, None], cells.shape)), strict=True):
        assert f"{cells[at] / 10_000:.4f}" == f"{weights[at]:.4f}"


@pytest.mark.parametrize(
    "weight, cell", [(0.0, 0), (4e-5, 0), (1e-4, 1), (1 / 32, 313), (0.25, 2500), (1.0, 10_000), (1.0000001, 10_000)]
)
def test_the_ends_of_the_scale_and_a_half(weight, cell):
    assert cells_of(np.full((1, 1, 1, 1), weight, np.float32), np.ones((1, 1, 1), bool), 128).item() == cell


def test_a_masked_cell_is_neither_zero_nor_one():
    allowed = causal(L, T)
    cells = cells_of(attention((L, H, T, T), allowed), allowed, 128)
    assert ((cells == MASKED) == ~allowed[:, None]).all()


def test_the_upper_triangle_is_left_out_only_where_it_is_masked():
    allowed = causal(L, T)
    weights = attention((L, H, T, T), allowed)
    header, cells = read(grid.pack(weights, allowed, HEADER))
    assert header["triangle"]
    assert (cells == cells_of(weights, allowed, 128)).all()
    one_more = allowed.copy()
    one_more[1, 2, 7] = True
    weights = attention((L, H, T, T), one_more)
    header, cells = read(grid.pack(weights, one_more, HEADER))
    assert not header["triangle"]
    assert (cells == cells_of(weights, one_more, 128)).all()


def test_a_window_stays_masked_below_the_diagonal():
    allowed = causal(L, T) & ~np.tri(T, k=-3, dtype=bool)
    header, cells = read(grid.pack(attention((L, H, T, T), allowed), allowed, HEADER))
    assert header["triangle"]
    assert (cells[0, 0, 10] == MASKED).sum() == T - 3


def test_keys_of_another_text():
    allowed = np.ones((L, 5, 7), bool)
    weights = attention((L, H, 5, 7), allowed)
    header, cells = read(grid.pack(weights, allowed, HEADER))
    assert header["tokens"] == [5, 7]
    assert (cells == np.rint(10_000 * weights.astype(float))).all()


@pytest.mark.parametrize("n, block, side", [(1, 1, 1), (128, 1, 128), (129, 2, 65), (257, 3, 86), (512, 4, 128)])
def test_long_texts_are_pooled_by_the_largest_weight(n, block, side):
    allowed = causal(1, n)
    weights = attention((1, 2, n, n), allowed)
    header, cells = read(grid.pack(weights, allowed, {"kv": [0, 1]}))
    assert block_size(n, 128) == block
    assert header["shape"] == [1, 2, side, side]
    for q, k in ((0, 0), (side - 1, 0), (side - 1, side - 1), (side // 2, side // 3)):
        part = np.s_[q * block : (q + 1) * block, k * block : (k + 1) * block]
        assert (cells[0, :, q, k] == np.rint(10_000 * weights[0, :, *part].max(axis=(1, 2)).astype(float))).all()


def test_a_block_with_one_allowed_pair_is_not_masked():
    n = 256
    allowed = np.zeros((1, n, n), bool)
    allowed[0, 9, 4] = True
    weights = allowed[:, None].astype(np.float32)
    cells = cells_of(weights, allowed, 128)
    assert cells[0, 0, 4, 2] == 10_000
    assert (cells == MASKED).sum() == 128 * 128 - 1


def test_colours_come_from_the_theme():
    header, _ = read(grid.pack(np.ones((1, 6, 1, 1)), np.ones((1, 1, 1), bool), HEADER))
    assert header["marks"] == [theme.kv_colour(k, 3) for k in range(3)]
    for name in ("light", "dark"):
        assert header["ramps"][name][2][0] == theme.kv_ramp(2, 3, name)[0].tolist()
        assert header["ramps"][name][2][-1] == theme.kv_ramp(2, 3, name)[-1].tolist()


def test_text_of_any_kind_survives():
    labels = ["<script>", "好 1/3", "👩‍👩‍👧", '"', "\\", "\u0000"]
    header, _ = read(grid.pack(np.ones((1, 1, 1, 1)), np.ones((1, 1, 1), bool), {"kv": [0], "labels": labels}))
    assert header["labels"] == labels


def test_eight_heads_of_128_tokens_stay_within_their_bytes():
    allowed = np.ones((1, 128, 128), bool)  # the worst case: no masked triangle to omit
    header = {"kv": list(range(8)), "labels": [["·token"] * 128] * 2}
    message = grid.pack(attention((1, 8, 128, 128), allowed), allowed, header)
    styles = "call.css", "save_choices.css", "save_buttons.css", "head_grid.css"
    code = sum(len(SCRIPTS[name]) for name in with_imported("ui/components/head_grid.js"))
    code += sum((HERE / name).stat().st_size for name in styles)
    assert len(message) + code <= 2.5 * 8 * 128 * 128


def test_the_first_layers_cells_are_those_of_the_whole_grid():
    layers, heads, n = 40, 70, 100  # so many that a thumbnail has fewer cells than tokens
    allowed = causal(layers, n)
    weights = np.tile(attention((1, heads, n, n), allowed[:1]), (layers, 1, 1, 1))
    header = {"kv": list(range(heads))}
    _, whole = read(grid.pack(weights, allowed, header))
    cells = [grid.layer_cells(weights[i], allowed[i], layers) for i in range(3)]
    assert whole.shape[2] < n
    _, first = read(grid.pack(weights, allowed, header, cells))
    assert first.shape == (3, *whole.shape[1:]) and (first == whole[:3]).all()


@pytest.mark.parametrize("listens", [False, True])
def test_the_grid_asks_the_server_only_where_somebody_listens_there(monkeypatch, listens):
    sent, heard = {}, []
    monkeypatch.setattr(grid, "_mount", lambda **options: sent.update(options))
    allowed = causal(L, T)
    grid.head_grid(
        attention((L, H, T, T), allowed), allowed, ["a"] * T, HEADER["kv"],
        key="grid", selected=(1, 4), on_select=(lambda *head: heard.append(head)) if listens else None,
        title="<b>2 layers</b> of *heads*", scored="How both were found.",
        roles=[[("induction", 0.875, "induction 0.88")] * H, [("no clear role", None, "no clear role")] * H],
        here=[["first 0.62"] * H, ["mixed"] * H],
    )  # fmt: skip
    header, _ = read(sent["data"])
    assert header["roles"][0][1] == ["induction", 0.875, "induction 0.88"] and header["roles"][1][4][1] is None
    assert header["here"][1][2] == "mixed" and header["scored"] == "How both were found."
    assert header["asks"] == listens and header["selected"] == [1, 4]
    assert header["title"] == "<b>2 layers</b> of *heads*"  # plain text, unescaped
    monkeypatch.setattr(events.st, "session_state", {"grid": SimpleNamespace(select=[9, 2])})
    sent["on_select_change"]()
    assert heard == ([(L - 1, 2)] if listens else [])
