"""Merged maps against hand-solved cases: keys are summed, queries averaged, and every row still sums to 1."""

import numpy as np
import pytest

from attnviz.analysis.merging import Merged, merged_allowed, merged_weights
from attnviz.characters import spans
from attnviz.compute import models
from attnviz.session.settings import Settings
from attnviz.trace import allowed_of, trace

# Four tokens: a, the two of é, b; causal
WEIGHTS = np.array([[1, 0, 0, 0], [0.25, 0.75, 0, 0], [0.5, 0.25, 0.25, 0], [0.125, 0.25, 0.5, 0.125]], np.float32)
MERGED = [[1, 0, 0], [0.375, 0.625, 0], [0.125, 0.75, 0.125]]  # by hand: (0.25 + 0.5) / 2, (0.75 + 0.5) / 2, 0.25 + 0.5


def test_keys_are_summed_and_queries_averaged():
    np.testing.assert_allclose(merged_weights(WEIGHTS, [0, 1, 3]), MERGED, atol=0)
    stacked = np.stack([WEIGHTS, WEIGHTS[::-1]])[None]  # (1, 2, 4, 4)
    assert merged_weights(stacked, [0, 1, 3]).shape == (1, 2, 3, 3)
    np.testing.assert_allclose(merged_weights(stacked, [0, 1, 3])[0, 0], MERGED, atol=0)
    np.testing.assert_array_equal(merged_weights(WEIGHTS, range(4)), WEIGHTS)


def test_a_pair_of_characters_is_masked_only_if_all_its_pairs_are():
    assert merged_allowed(np.tri(4, dtype=bool), [0, 1, 3]).tolist() == np.tri(3, dtype=bool).tolist()
    window = np.tri(4, dtype=bool) & ~np.tri(4, k=-2, dtype=bool)  # two tokens
    assert merged_allowed(window, [0, 1, 3]).tolist() == [[1, 0, 0], [1, 1, 0], [0, 1, 1]]


def test_a_query_without_a_key_is_left_out_of_the_mean():
    padded = WEIGHTS.copy()
    padded[1] = 0
    assert merged_weights(padded, [0, 1, 3])[1].tolist() == [0.5, 0.5, 0]
    padded[2] = 0
    assert merged_weights(padded, [0, 1, 3])[1].tolist() == [0, 0, 0]


@pytest.mark.parametrize("window", [0, 3])
def test_the_rows_of_a_model_still_sum_to_one(window):
    settings = Settings(text="a床🇩🇪 é!", window=window)
    ids, model = models.read(settings.text).ids, models.model_of(settings)
    found, run = spans(models.tokenizer_of("own").token_bytes(list(ids))), trace(model, ids)
    merged = Merged.of(run, models.read(settings.text).labels, found)
    N = len(found)
    assert len(merged.layers) == len(run.layers) and len(ids) > N
    for layer in merged.layers:
        assert layer.weights.shape == (run.config.n_heads, N, N)
        np.testing.assert_allclose(layer.weights.sum(-1), 1, atol=1e-5)
        assert (layer.weights[:, ~layer.allowed] == 0).all()
    flag = next(span for span in found if span.text == "🇩🇪")
    at = merged.at(flag.start)
    rows = run.weights[2, 3, flag.start : flag.stop]  # (8, T)
    assert merged.layers[2].weights_of(3)[at, 1] == pytest.approx(rows[:, 1:4].sum(-1).mean(), abs=1e-6)  # on 床
    assert allowed_of(model, len(ids))[0].shape[-1] == len(ids)


def test_a_character_is_found_by_any_of_its_tokens():
    run = trace(models.model_of(Settings()), models.read("a床b").ids)
    merged = Merged.of(run, models.read("a床b").labels, models.read("a床b").spans)
    assert merged.labels == ["a", "床", "b"] and merged.positions == ["0", "1–3", "4"] and merged.last == [0, 3, 4]
    assert [merged.at(token) for token in (-1, 0, 1, 2, 3, 4)] == [-1, 0, 1, 1, 1, 2]
