"""Effective weights on the canvases: negative cells, where the colours end, the colours below zero."""

import json
import struct

import numpy as np
import pytest

from attnviz.analysis.merging import merged_weights
from attnviz.figures import head_captions, heads, theme
from attnviz.figures.token_maps import blocks
from attnviz.modules import Transformer
from attnviz.modules.recording import shares_of
from attnviz.trace import trace
from attnviz.ui.components import answer_maps, head_grid, head_view
from attnviz.ui.components.packed_weights import MASKED, STEPS, cells_of
from tests.mixed import DELTA, HYBRID, UNROTATED, H

IDS = [5, 7, 2, 5, 19, 30, 0]
LABELS = [f"t{i}" for i in IDS]


@pytest.fixture(scope="module")
def traced():
    return trace(Transformer.random(HYBRID, seed=3), IDS)


def unpacked(data: bytes) -> tuple[dict, np.ndarray]:
    n = struct.unpack("<I", data[:4])[0]
    return json.loads(data[4 : 4 + n]), np.frombuffer(data[4 + n :], "<u2")


def weights_in(cells: np.ndarray) -> np.ndarray:
    """Read cells as packed_weights.js does; NaN where masked."""
    cells = cells.astype(float)
    signed = np.where(cells > MASKED, MASKED - cells, cells) / STEPS
    return np.where(cells == MASKED, np.nan, signed)


def test_a_cell_is_the_weight_with_its_sign():
    weights = np.array([[0.25, -0.5], [-0.00004, 0.1]])[None, None]
    allowed = np.array([[True, True], [True, False]])[None]
    read = weights_in(cells_of(weights, allowed, 2))[0, 0]
    np.testing.assert_allclose(read, [[0.25, -0.5], [0, np.nan]])
    assert weights_in(cells_of(weights, allowed, 1)).item() == -0.5  # of a block, the one with the largest size


def test_cells_of_attention_weights_are_what_they_were():
    weights = np.random.default_rng(0).dirichlet(np.ones(5), (2, 3, 5))
    cells = cells_of(weights, np.ones((2, 5, 5), bool), 5)
    assert cells.max() <= STEPS and np.abs(cells / STEPS - weights).max() <= 0.5 / STEPS + 1e-12


def test_the_grid_ends_its_colours_at_the_layers_largest_size(traced):
    options = {"kv": [DELTA.kv_head_of] * 3}
    header, _ = unpacked(head_grid.pack([one.weights for one in traced.layers], traced.masks, options))
    largest = [np.abs(one.weights).max() for one in traced.layers]
    assert header["tops"] == [pytest.approx(largest[0], abs=1e-4), 1.0, pytest.approx(largest[2], abs=1e-4)]
    grey = theme.diverging_ramps(0, 1, "dark")[0]
    assert header["below"]["dark"][0] == grey[0].tolist() and header["below"]["dark"][-1] == grey[-1].tolist()


def test_one_head_has_its_numbers_its_sign_and_its_equation(traced):
    one, cell = traced.layers[0], head_view.Cell(0, 4, 5, 2, -1)
    caption = head_captions.map_caption(traced, LABELS, 0, 4)
    header, cells = unpacked(head_view.pack(traced, LABELS, cell, caption))
    lower = np.tril_indices(len(IDS))
    np.testing.assert_allclose(weights_in(cells), one.weights[4][lower], atol=0.5 / STEPS + 1e-9)
    assert (cells > MASKED).any() and header["tops"][0] == pytest.approx(np.abs(one.weights[4]).max())
    assert caption.title == "Layer 0, head 4 reads key head 2, as head 5 does"
    assert "softmax" not in caption.formula and r"\alpha_l (I - \beta_l k_l k_l^\top)" in caption.formula
    assert "sum to 1. A column mixes up to 4 tokens" in caption.note
    drawn = heads.head_map(traced, LABELS, 0, 4).figure
    assert any(
        each.zmin == pytest.approx(-np.abs(one.weights[4]).max()) for each in drawn.data if each.type == "heatmap"
    )
    plain = head_captions.map_caption(traced, LABELS, 1, 4)
    assert "softmax" in plain.formula and "sum to 1" in plain.note


def test_shares_are_those_of_sizes(traced):
    for one in traced.layers:
        np.testing.assert_allclose(one.shares.sum(-1), 1, atol=1e-5)
    assert traced.layers[1].shares is traced.layers[1].weights
    sizes = np.abs(traced.layers[0].weights)
    np.testing.assert_allclose(traced.layers[0].shares, sizes / sizes.sum(-1, keepdims=True), atol=1e-6)
    assert not traced.layers[0].attention.any() and traced.layers[1].attention is traced.layers[1].weights
    assert not shares_of(np.zeros((H, 2, 2)), DELTA).any() and UNROTATED.attends


def test_a_merged_row_of_negative_weights_is_not_taken_for_a_masked_one():
    weights = np.array([[-0.5, 0.0, 0.0], [-0.25, -0.25, 0.0], [0.1, -0.3, 0.4]])
    merged = merged_weights(weights, [0, 2])
    np.testing.assert_allclose(merged, [[-0.5, 0.0], [-0.2, 0.4]])


def test_the_signed_scale_is_grey_below_zero_and_the_hue_above():
    for ground in (None, "light", "dark"):
        stops = theme.signed_scale(2, 4, ground)
        at = [stop for stop, _ in stops]
        assert at == sorted(at) and at[0] == 0 and at[-1] == 1 and 0.5 in at
        assert stops[-1][1] == theme.kv_scale(2, 4, ground)[-1][1]


def test_a_block_of_a_long_map_is_its_number_of_the_largest_size():
    values = np.array([[0.1, -0.4], [0.2, np.nan]])
    assert blocks(values, 1, signed=True)["z"].item() == pytest.approx(-0.4)
    assert blocks(values, 1)["z"].item() == pytest.approx(0.2)
    assert np.isnan(blocks(np.full((2, 2), np.nan), 1, signed=True)["z"]).all()


def test_maps_side_by_side_end_their_colours_at_the_largest_size_of_both(monkeypatch):
    sent = []
    monkeypatch.setattr(answer_maps, "_mount", lambda **given: sent.append(json.loads(given["data"])))
    effective = [[0.02, None], [-0.07, 0.03]], [[0.01, None], [0.0, 0.05]]
    for maps in (effective, ([[1.0, None], [0.25, 0.75]],)):
        answer_maps.answer_maps([(rows, "") for rows in maps], key="k")
    assert sent[0]["top"] == 0.07 and sent[1]["top"] == 1.0 and sent[1]["below"] is None
    assert sent[0]["below"]["light"][-1] == theme.diverging_ramps(0, 1, "light")[0][-1].tolist()
