"""The figures of what sharing costs: similar heads, losses, drift and quality, against numbers computed here."""

import math
import re
import statistics
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from attnviz import checkpoints
from attnviz.analysis.groups import best_grouping, cosines, gram, lost_share, neighbours
from attnviz.figures import group_quality
from attnviz.figures.group_quality import AVERAGED, FIRST, TRAINED
from tests.arithmetic import results
from tests.reading import numbers_in, numbers_where


def similarity_of(n_kv_heads: int):
    inner = gram(np.random.default_rng(0).normal(size=(6, 7, 5)))
    plain, best = neighbours(6, n_kv_heads), best_grouping(inner, n_kv_heads)
    lost = lost_share(inner, plain), lost_share(inner, best)
    return (
        group_quality.similarity(cosines(inner), plain, best, lost, float(inner.trace()), "keys", 7),
        inner,
        best,
        lost,
    )


def test_similarity_outlines_the_neighbours_and_dots_the_best_grouping():
    drawing, inner, best, lost = similarity_of(3)
    np.testing.assert_allclose(drawing.figure.data[0].z, cosines(inner), rtol=1e-6)
    outlined = [(s.x0, s.x1, s.y0, s.y1) for s in drawing.figure.layout.shapes]
    assert outlined == [(a, a + 2, a, a + 2) for a in (-0.5, 1.5, 3.5)]
    dots = drawing.figure.data[-1]
    assert {(int(y), int(x)) for x, y in zip(dots.x, dots.y, strict=True)} == {
        (a, b) for pair in best for a in pair for b in pair if a != b
    }
    assert numbers_in(drawing.title) == [round(100 * share) for share in lost]
    assert all("+".join(map(str, group)) in drawing.alt for group in best)
    assert drawing.table["cosine"][1] == pytest.approx(cosines(inner)[0, 1])


def test_with_all_kv_heads_nothing_is_merged():
    drawing, *_ = similarity_of(6)
    assert numbers_in(drawing.title) == [6] and results(drawing.formula) == [pytest.approx(0, abs=5e-4)]


def test_the_cosines_are_said_to_depend_on_the_basis_and_they_do():
    """Each head's values in a basis of its own, which W_o undoes: other cosines, the same products with W_o."""
    numbers = np.random.default_rng(19)
    v, w_o = numbers.normal(size=(3, 11, 5)), numbers.normal(size=(3, 5, 7))
    bases = np.linalg.qr(numbers.normal(size=(3, 5, 5)))[0]
    np.testing.assert_allclose((v @ bases) @ (bases.mT @ w_o), v @ w_o)
    assert np.abs(cosines(gram(v @ bases)) - cosines(gram(v))).max() > 0.1
    assert "basis" in similarity_of(3)[0].more


def test_the_share_of_uptraining_is_that_of_the_model_card():
    card = " ".join((Path(checkpoints.__file__).parent / "README.md").read_text(encoding="utf-8").split())
    said = re.search(r"([\d,]+) for every variant", card)[1], re.search(r"share one run up to ([\d,]+)", card)[1]
    whole, shared = (int(number.replace(",", "")) for number in said)
    drawing, drift = (
        group_quality.losses(WAYS, 2, "this text"),
        group_quality.drift({TRAINED: np.ones(3)}, list("abc"), 2),
    )
    assert drawing.figure.data[0].name == drift.figure.data[0].name == TRAINED == "uptrained"
    share = round(100 * (whole - shared) / whole)
    assert numbers_where("last #% of the training tokens", drift.more) == [share]
    assert numbers_where("last #% of the training tokens.*about #%", drawing.more) == [share, 5]


def test_the_mha_checkpoint_is_not_said_to_be_averaged():
    """With 6 of 6 KV heads the drawn point is the MHA checkpoint itself; a model of one's own has none uptrained."""
    drawing = group_quality.losses(WAYS, 2, "this text")
    assert re.search("6 KV heads.*MHA", drawing.more)
    assert [column for column in drawing.table if "uptrained" in column] == [
        "uptrained, nats per token", "uptrained, minus MHA", "uptrained, standard error"
    ]  # fmt: skip
    others = {way: by for way, by in WAYS.items() if way != TRAINED}
    assert "ptrained" not in group_quality.losses(others, 2, "this text").more
    assert group_quality.drift({AVERAGED: np.ones(3)}, list("abc"), 2).more == ""


MHA_LOSSES = np.array([1.0, 2.0, 4.0])
WAYS = {  # K -> losses of three predicted tokens; from MHA's they differ by 0 ± 1/√3 and more
    TRAINED: {6: MHA_LOSSES, 2: MHA_LOSSES + [0, 0, 0.75], 1: MHA_LOSSES + 0.5},
    AVERAGED: {6: MHA_LOSSES, 3: MHA_LOSSES + 1, 2: MHA_LOSSES + [0.5, 1.5, 2.5], 1: MHA_LOSSES + [1, 2, 6]},
    FIRST: {6: MHA_LOSSES, 3: MHA_LOSSES + 1.5, 2: MHA_LOSSES + 2, 1: MHA_LOSSES + 3},
}


def test_losses_are_drawn_less_those_of_mha_with_their_spread():
    drawing = group_quality.losses(WAYS, 2, "this text")
    assert numbers_in(drawing.title) == [2, 1.5, 0.58]
    trained, averaged, _ = drawing.figure.data
    assert list(trained.x) == [0, 2, 3] and list(trained.y) == pytest.approx([0, 0.25, 0.5])
    assert list(averaged.error_y.array) == pytest.approx([0, 0, 1 / math.sqrt(3), statistics.stdev([1, 2, 6]) / 3**0.5])
    table = drawing.table
    assert table["KV heads"] == [6, 3, 2, 1]
    assert table[f"{TRAINED}, nats per token"] == [7 / 3, None, pytest.approx(31 / 12), pytest.approx(17 / 6)]
    assert table[f"{AVERAGED}, minus MHA"] == list(averaged.y)
    assert table[f"{AVERAGED}, standard error"] == list(averaged.error_y.array)
    assert {3, 2.33} <= {*numbers_in(drawing.note)}  # predicted tokens, MHA's loss
    band = drawing.figure.layout.shapes[0]
    assert band.x0 < 2 < band.x1
    assert numbers_in(group_quality.losses(WAYS, 6, "").title)[:2] == [1, 3]


def test_a_single_prediction_has_no_spread():
    ways = {way: {k: losses[:1] for k, losses in by.items()} for way, by in WAYS.items()}
    drawing = group_quality.losses(ways, 2, "this text")
    assert numbers_in(drawing.title) == [2, 0.5] and drawing.table[f"{AVERAGED}, standard error"] == [None] * 4


MEMBERS = [
    group_quality.Member("MHA", "mha", 6144, 1.25, MHA_LOSSES),
    group_quality.Member("GQA-2", "gqa", 1536, 1.26, MHA_LOSSES + [0.5, -1.5, 0.25]),
    group_quality.Member("MQA", "mqa", 768, 1.3, MHA_LOSSES + 1),
]


def test_labels_of_near_sizes_stand_in_two_lines():
    latent_too = [*MEMBERS, group_quality.Member("MLA", "mla", 1280, 1.27, MHA_LOSSES)]
    chart = group_quality.quality(latent_too, "GQA-2", 1000).chart
    axis = chart.layout["xaxis"]
    assert dict(zip(axis["tickvals"], axis["ticktext"], strict=True)) == {
        768: "768", 1280: "1,280", 1536: "<br>1,536", 6144: "6,144"
    }  # fmt: skip
    for trace in chart.data:
        assert trace["textposition"] == [*["top center"] * 3, "bottom center"]


def test_quality_says_the_price_of_the_smallest_cache():
    drawing = group_quality.quality(MEMBERS, "GQA-2", 281_636)
    assert drawing.title.startswith("MQA") and numbers_in(drawing.title) == [12.5, 0.05]
    (held_out,) = drawing.figure.data
    assert list(held_out.x) == [6144, 1536, 768] and list(held_out.y) == [1.25, 1.26, 1.3]
    assert held_out.text[1] == "<b>GQA-2</b>" and held_out.text[0] == "MHA"
    assert len(set(held_out.marker.symbol)) == 3 and 281_636 in numbers_in(drawing.note)
    assert numbers_in(group_quality.quality([replace(MEMBERS[0], held_out=None)], "MHA", 0).title) == [1]


def test_on_this_text_models_are_compared_with_their_spread():
    drawing = group_quality.this_text(MEMBERS, "GQA-2", 11, "this text")
    factor = 3 / math.log(2) / 11
    differences = [0, -0.25 * factor, factor]
    error = statistics.stdev([0.5, -1.5, 0.25]) / math.sqrt(3) * factor
    assert drawing.table["minus MHA"] == pytest.approx(differences) == list(drawing.figure.data[0].y)
    assert drawing.table["standard error"] == pytest.approx([0, error, 0])
    assert drawing.table["bits per character"] == pytest.approx([7 * factor / 3, 6.25 * factor / 3, 10 * factor / 3])
    assert numbers_in(drawing.title) == pytest.approx([-0.25 * factor, error], abs=0.0051)
    clear = group_quality.this_text(MEMBERS, "MQA", 11, "this text")
    assert numbers_in(clear.title) == pytest.approx([factor, 0], abs=0.0051)
    assert [("no clear" in each.title) for each in (drawing, clear)] == [True, False]
    assert results(drawing.formula) == [pytest.approx(6.25 * factor / 3, abs=6e-4)] and 3 in numbers_in(drawing.note)
    alone = group_quality.this_text(MEMBERS, "MHA", 11, "").title
    assert numbers_in(alone)[0] == pytest.approx(7 * factor / 3, abs=6e-4)


def test_drift_names_the_way_and_the_token_that_drift_farthest():
    labels = ["a", "<b>x", "c"]
    divergences = {TRAINED: np.array([0.1, 0.2, 0.3]), AVERAGED: np.array([0.5, 2.0, 0.5])}
    drawing = group_quality.drift(divergences, labels, 2)
    assert numbers_in(drawing.title) == [2, 1] and AVERAGED in drawing.title
    assert numbers_where("after token #", drawing.alt) == [1] and numbers_where(f"{TRAINED}: mean #", drawing.alt) == [
        0.2
    ]
    assert drawing.figure.layout.xaxis.ticktext[1] == "\u2068&lt;b&gt;x\u2069 1"


@pytest.mark.parametrize("n_tokens", [1, 40, 41, 512])
def test_drift_labels_at_most_forty_tokens(n_tokens):
    drawing = group_quality.drift({"averaged": np.ones(n_tokens)}, ["t"] * n_tokens, 1)
    ticks = drawing.figure.layout.xaxis.tickvals
    assert len(ticks) == len(drawing.figure.layout.xaxis.ticktext) <= 40
