"""The page's views of a model whose layers differ: each asks the selected layer."""

from dataclasses import replace

import numpy as np
import pytest

from attnviz.analysis.merging import Merged
from attnviz.characters import Span
from attnviz.compute import heads, models, rope, steps
from attnviz.compute.placeholders import PLACEHOLDERS
from attnviz.compute.view import View
from attnviz.figures import head_captions, head_detail
from attnviz.figures import heads as figures
from attnviz.figures.decode import cache_legend, cache_parts
from attnviz.mechanisms import Dense, Grouped, Layer
from attnviz.session.settings import Settings
from attnviz.trace import trace
from attnviz.ui.components import head_grid, head_view
from attnviz.ui.headline import grid_options
from tests.mixed import MIXED, H

TEXT = "the cat that the dog saw"


@pytest.fixture
def mixed(monkeypatch):
    """Let all settings run the model of different layers, with the tokenizer's vocabulary."""
    config = replace(MIXED, vocab_size=2048)
    monkeypatch.setattr(models, "config_of", lambda settings: config)
    monkeypatch.setattr(models, "run_of", lambda settings: models.Run(("own", config, 3), config))


def at(layer: int, **settings) -> View:
    return View(Settings(text=TEXT, model="own", layer=layer, head=4, seed=947, **settings))


@pytest.mark.parametrize("layer", range(4))
def test_a_head_of_each_layer_is_drawn_from_its_own_layer(mixed, layer):
    view = at(layer)
    one, mixer = view.traced, MIXED.layers[layer].mixer
    assert view.mixer == mixer and one.mixer == mixer
    assert len(view.heads) == 4 * H and view.layer_and_head == (layer, 4)
    drawn = figures.head_map(view.trace, view.labels, layer, 4).table
    column = np.array(drawn[list(drawn)[1]], float)
    np.testing.assert_allclose(np.nan_to_num(column), one.weights[4][:, 0], atol=1e-6)
    parts = head_detail.score_parts(view.trace, layer, 4, 3, 1)
    assert parts.score == pytest.approx(parts.dot * one.scale, abs=1e-5)
    assert len(parts.pairs) == MIXED.layers[layer].rotary_dim // 2
    reads = {
        0: "KV head 2, as head 5",
        1: "KV head 1, as heads 3 and 5",
        2: "keys of its own",
        3: "KV head 0, as heads 0",
    }
    assert f"reads {reads[layer]}" in head_captions.map_caption(view.trace, view.labels, layer, 4).title
    assert head_view.pack(view.trace, view.labels, head_view.Cell(layer, 4, 3, 1, -1), head_captions.map_caption(
        view.trace, view.labels, layer, 4))  # fmt: skip
    assert PLACEHOLDERS["n_kv_heads"].value(view).startswith(str(mixer.n_kv_heads))
    assert PLACEHOLDERS["sqrt_head_dim"].value(view) == f"{mixer.score_root**0.5:.2f}"


def test_what_is_computed_over_all_layers(mixed):
    view = at(2)
    found = heads.on_text(view)
    assert [len(labels) for labels in found.labels] == [H] * 4
    np.testing.assert_allclose(found.by_name()["distance"], heads.statistics_of(view).distance)
    shares, _ = heads.rollout_of(view)
    np.testing.assert_allclose(shares.sum(-1), 1)
    merged = Merged.of(
        view.trace, view.labels, [Span(0, 2, "ab"), *(Span(i, i + 1, "x") for i in range(2, len(view.ids)))]
    )
    assert merged.layers[3].weights.shape == (H, len(view.ids) - 1, len(view.ids) - 1)
    options = grid_options([layer.mixer for layer in MIXED.layers])
    assert options["kv_head_of"] == [layer.mixer.kv_head_of for layer in MIXED.layers]
    assert options["reads"][1][5] == "KV 1" and options["reads"][2][5].startswith("keys and values of its own")
    assert head_grid.pack(view.trace.weights, view.trace.masks, {"kv": options["kv_head_of"]})


@pytest.mark.parametrize("layer", [0, 2, 3])
def test_the_rotation_is_that_of_the_layer(mixed, layer):
    view, own = at(layer), MIXED.layers[layer]
    assert rope.rotates(view) and rope.rotated(view).rope_theta == own.rope_theta
    assert len(rope.frequencies(view)) == own.rotary_dim // 2
    parts, scores, _ = rope.moved_apart(view)
    assert scores[abs(view.query - view.key)] * own.mixer.head_dim**0.5 * view.traced.scale == pytest.approx(
        float(view.traced.scores_of(4)[view.query, view.key]), abs=1e-4
    )


def test_a_layer_without_a_rotation_is_not_drawn_as_if_it_had_one(mixed):
    assert not rope.rotates(at(1)) and PLACEHOLDERS["head_dim"].value(at(1)) == "11"


@pytest.mark.parametrize("layer", range(4))
def test_each_layer_is_walked_and_tiled(mixed, layer):
    view = at(layer, query=4)
    assert len(steps.walk_of(view).stops) > 10
    assert steps.tiled_of(view).largest_difference < 1e-5


def test_the_caches_of_each_layer_are_named():
    assert [sum(numbers for _, numbers, _ in cache_parts(layer.mixer)) for layer in MIXED.layers] == [78, 44, 33, 38]
    assert cache_legend(MIXED).count("Each column is a token") == 2  # of keys and values, and of latents


def test_layers_are_one_config_only_if_they_agree():
    alike = replace(MIXED, mixed_layers=tuple(Layer((MIXED.layers[1].mixer, Dense(d))) for d in (3, 5, 7, 11)))
    assert alike.mixer is not None and alike.mixer.name == "GQA-2"


def test_layers_with_different_numbers_of_heads_run_and_are_not_drawn(mixed, monkeypatch):
    fewer = Layer((Grouped(5, n_kv_heads=5, head_dim=7), Dense(11)))
    config = replace(MIXED, vocab_size=2048, mixed_layers=(*MIXED.mixed_layers[:3], fewer))
    monkeypatch.setattr(models, "config_of", lambda settings: config)
    monkeypatch.setattr(models, "run_of", lambda settings: models.Run(("own", config, 3), config))
    assert "differ in their number of query heads" in (at(0).problem or "")
    traced = trace(models.run_of(None).model, [5, 7, 2])
    assert [one.weights.shape for one in traced.layers] == [(6, 3, 3)] * 3 + [(5, 3, 3)]
