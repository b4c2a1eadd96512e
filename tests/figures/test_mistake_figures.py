"""The maps of a mistake: the same cells in both versions, NaN distinct from masked, the difference with its sign."""

from functools import cache
from itertools import product

import numpy as np
import pytest

from attnviz.checkpoints import load_checkpoint
from attnviz.compute.mistakes import MAX_TOKENS
from attnviz.figures import mistakes as figures
from attnviz.figures.theme import NEUTRAL, kv_scale, signed_scale
from attnviz.mistakes import Symptom, all_mistakes, load_mistake
from attnviz.session.shared import DEFAULT_TEXT
from attnviz.text import tokenizer
from tests.mistakes.states_by_hand import ONLY_IN
from tests.reading import numbers_in, numbers_where

IDS = tokenizer().encode(DEFAULT_TEXT)


@cache
def symptom(name: str, n: int = len(IDS)) -> Symptom:
    return load_mistake(name).symptom(load_checkpoint(ONLY_IN.get(name, "gqa-2"))[0], (IDS * 5)[:n])


def labels(found: Symptom) -> list[str]:
    return [f"t{i}" for i in range(len(found.right))]


def cells(drawing, text: str) -> list:
    return [trace for trace in drawing.figure.data if text in (trace.hovertemplate or "")]


SHOWN = [name for name, each in all_mistakes().items() if each.kind != "raises"]


EACH_PICTURE = (  # NaN, a head, a mean of heads, another shape, columns
    "fully_masked_row", "softmax_over_queries", "tiled_kv_heads", "loss_without_shift", "cache_sized_with_n_heads",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name, n", [*((name, 9) for name in SHOWN), *product(EACH_PICTURE[:3], (1, MAX_TOKENS))])
def test_every_symptom_can_be_drawn(name, n):
    found = symptom(name, n)
    if found.columns:
        drawing = figures.counts(found)
        right, wrong = drawing.figure.data
        np.testing.assert_array_equal(right.y, found.right[0])
        np.testing.assert_array_equal(wrong.y, found.wrong[0])
        return
    hue = (0, 2) if found.head is not None else None
    for drawing in (
        figures.version_map(found, labels(found), hue, figures.RIGHT),
        figures.version_map(found, labels(found), hue, figures.MISTAKEN),
        figures.difference_map(found, labels(found)),
    ):
        assert drawing.figure.data and len(drawing.title.split()) <= 12 and drawing.alt
        assert len(drawing.table["query"]) == len(found.right) and drawing.missing == "NaN"


@pytest.mark.parametrize("ground", [None, "light", "dark"])
def test_both_versions_have_the_colours_of_the_maps_of_a_head(ground):
    found = symptom("mask_after_softmax")
    maps = [
        figures.version_map(found, labels(found), (1, 2), version, ground=ground) for version in ("right", "mistaken")
    ]
    weights = [cells(drawing, "weight")[0] for drawing in maps]
    for trace in weights:
        assert [list(stop) for stop in trace.colorscale] == kv_scale(1, 2, ground=ground)
        assert (trace.zmin, trace.zmax) == (0, 1)
    for trace, values in zip(weights, (found.right, found.wrong), strict=True):
        assert np.allclose(np.nan_to_num(np.asarray(trace.z, float)), values, atol=1e-6)


@pytest.mark.parametrize("ground", [None, "light", "dark"])
def test_effective_weights_are_drawn_with_their_sign_on_one_scale(ground):
    """Both versions end at the largest size of either, and so does their difference, whose bar is named."""
    found = symptom("state_of_a_chunk_dropped")
    top = max(np.abs(found.right).max(), np.abs(found.wrong).max())
    assert found.right.min() < 0 and top < 0.5
    for version, values in ((figures.RIGHT, found.right), (figures.MISTAKEN, found.wrong)):
        drawing = figures.version_map(found, labels(found), (1, 4), version, ground=ground)
        (trace,) = cells(drawing, "weight")
        assert (trace.zmin, trace.zmax) == pytest.approx((-top, top))
        assert [list(stop) for stop in trace.colorscale] == signed_scale(1, 4, ground=ground)
        np.testing.assert_allclose(np.nan_to_num(np.asarray(trace.z, float)), values, atol=1e-6)
        assert any(each.text == "effective weight" for each in drawing.figure.layout.annotations)
        low, high = values.sum(-1).min(), values.sum(-1).max()
        assert numbers_in(drawing.title) == pytest.approx([low, high], abs=0.0051) and "-" not in drawing.title
    (trace,) = cells(figures.difference_map(found, labels(found)), "difference")
    assert trace.zmax == -trace.zmin >= np.abs(found.difference).max()
    assert "negative" in figures.how_to_read(found) and "negative" not in figures.how_to_read(symptom("rope_on_values"))


def test_titles_say_what_rows_sum_to():
    found = symptom("softmax_over_queries")
    sums = found.wrong.sum(-1)
    right, wrong = (
        figures.version_map(found, labels(found), (0, 2), version).title for version in ("right", "mistaken")
    )
    assert numbers_in(right) == [1] and numbers_in(wrong) == pytest.approx([sums.min(), sums.max()], abs=0.0051)


def test_nan_is_grey_and_counted():
    found = symptom("fully_masked_row")
    drawing = figures.version_map(found, labels(found), (0, 2), figures.MISTAKEN)
    (nan,) = cells(drawing, "NaN")
    assert numbers_where("# of # rows are NaN", drawing.title) == [3, len(found.right)]
    assert np.isfinite(np.asarray(nan.z, float)).sum() == 3 * len(found.right) and nan.colorscale[0][1] == NEUTRAL
    difference = figures.difference_map(found, labels(found))
    assert numbers_where("# cells are NaN", difference.title) == [3 * len(found.right)]


@pytest.mark.parametrize("n", [len(IDS), MAX_TOKENS])
def test_the_difference_keeps_its_sign_where_cells_are_joined(n):
    found = symptom("tiled_kv_heads", n)
    drawing = figures.difference_map(found, labels(found))
    z = np.asarray(cells(drawing, "difference")[0].z, float)
    block = -(-n // figures.MAX_CELLS)
    padded = np.zeros((len(z) * block,) * 2)
    padded[:n, :n] = found.difference
    blocks = padded.reshape(len(z), block, len(z), block).swapaxes(1, 2).reshape(len(z), len(z), -1)
    largest = np.take_along_axis(blocks, np.abs(blocks).argmax(-1)[..., None], -1)[..., 0]
    assert np.allclose(np.abs(z), np.abs(largest), atol=1e-6)
    distinct = np.sort(np.abs(blocks), -1)
    clear = (np.abs(largest) > 1e-4) & ((block == 1) | (distinct[..., -1] - distinct[..., max(-2, -block)] > 1e-4))
    assert clear.sum() > 50 and (np.sign(z) == np.sign(largest))[clear].all()
    top = np.unravel_index(np.abs(found.difference).argmax(), found.difference.shape)
    assert numbers_where("query #, key #", drawing.note) == [*top]
