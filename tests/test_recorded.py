"""A saved run as a trace, compared with the arrays that were saved and with scores computed by numpy.

Run: .venv/bin/python -m pytest tests/test_recorded.py
"""

import numpy as np
import pytest

from attnviz.recorded import NO_SCORES, RecordedTrace
from attnviz.runs.run import run_of
from tests import saved_runs
from tests.saved_runs import BERT, DECODED, PROMPT, WRITTEN, D, H, K


def traced(run, kind=None):
    return RecordedTrace(run, run.kinds[0] if kind is None else run.kind(kind))


def test_weights_are_those_saved_and_nothing_is_masked_in_an_encoder():
    run = saved_runs.encoder()
    trace = traced(run)
    assert [layer.weights.shape for layer in trace.layers] == [(5, 11, 11)] * 3
    for one, given in zip(trace.layers, run.kinds[0].layers, strict=True):
        assert np.array_equal(one.weights, given) and one.allowed.all() and one.mixer.kv_head_of == tuple(range(5))
    assert trace.tokens.tolist() == [0, 1, 2, 3, 4, 5, 1, 6, 7, 8, 9]  # "the" twice
    assert BERT[1] == BERT[6]


def test_scores_of_a_decoder_are_those_of_its_q_and_k():
    run = saved_runs.decoder()
    (kind,), trace = run.kinds, traced(run)
    for i, one in enumerate(trace.layers):
        for h in range(H):
            q, k = run.q["self"][i][h], run.k["self"][i][h // (H // K)]
            assert np.allclose(one.scores_of(h), q @ k.T / np.sqrt(D), atol=1e-5)
        assert one.mixer.kv_head_of == (0, 0, 0, 1, 1, 1) and one.mixer.shares_kv_heads
        assert np.array_equal(one.allowed, np.tri(17, dtype=bool)) and np.array_equal(one.weights, kind.layers[i])
        assert np.array_equal(one.keys_of(5), run.k["self"][i][1])


def test_a_run_without_q_and_k_says_so_and_has_no_scores():
    one = traced(saved_runs.encoder()).layers[2]
    assert one.mixer.cannot("score") == NO_SCORES
    with pytest.raises(ValueError, match="no q and k"):
        one.scores_of(0)


def test_q_and_k_that_do_not_lead_to_the_weights_are_refused_with_the_difference():
    """As where they were recorded before RoPE: each key is another one's."""
    run = saved_runs.decoder(k=saved_runs.decoder().k["self"][0][None].repeat(3, 0))  # layer 0's in all layers
    trace = traced(run)
    assert trace.layers[0].mixer.cannot("score") == ""
    why = trace.layers[1].mixer.cannot("score")
    assert "differs from its weights by up to 0." in why and "√7" in why
    with pytest.raises(ValueError, match="differs"):
        trace.layers[1].scores_of(0)


def test_rows_of_a_continued_prompt_are_at_their_tokens_and_the_others_masked():
    run = saved_runs.continued()
    (kind,), trace = run.kinds, traced(run)
    assert kind.first_row == PROMPT and len(trace.tokens) == len(DECODED)
    for one, given in zip(trace.layers, kind.layers, strict=True):
        assert one.weights.shape == (3, 17, 17)
        assert np.array_equal(one.weights[:, PROMPT:], given) and not one.weights[:, :PROMPT].any()
        assert not one.allowed[:PROMPT].any()
        assert np.array_equal(one.allowed[PROMPT:], np.tri(WRITTEN, 17, PROMPT, dtype=bool))
    assert "queries 11 to 16 were recorded" in trace.layers[0].mixer.cannot("rollout")


def test_cross_attention_has_other_keys_and_its_own_tokens():
    run = saved_runs.encoder_decoder()
    trace = traced(run, "cross")
    assert len(trace.tokens) == 13 and trace.layers[1].weights.shape == (3, 13, 7) and trace.masks[0].shape == (13, 7)
    assert "two texts" in trace.layers[0].mixer.cannot("rollout")
    assert traced(run, "encoder").config.causal is False and traced(run, "decoder").config.causal is True


def test_scores_of_cross_attention_are_those_of_its_q_and_k():
    run = saved_runs.crossed()
    one = traced(run).layers[1]
    assert np.allclose(one.scores_of(3), run.q["cross"][1][3] @ run.k["cross"][1][3].T / np.sqrt(3), atol=1e-5)


def test_rows_that_do_not_sum_to_1_are_said_and_float16_is_not_taken_for_that():
    given = saved_runs.encoder().kinds[0].layers
    halved = traced(run_of([0.5 * layer for layer in given], BERT)).layers[0].mixer
    assert "sum to 0.5 to 0.5" in halved.maps_note and halved.summing == "sum to 0.5 to 0.5"
    rounded = traced(run_of([layer.astype(np.float16) for layer in given], BERT))
    assert "The weights of each row sum to 1." in rounded.layers[0].mixer.maps_note
    assert rounded.layers[0].weights.dtype == np.float32


def test_layers_may_have_their_keys_repeated_for_each_query_head():
    keys = np.repeat(saved_runs.decoder().k["self"], H // K, axis=1)
    mixer = traced(saved_runs.decoder(k=keys, v=None, n_kv_heads=H)).layers[0].mixer
    assert (mixer.n_kv_heads, mixer.cannot("score"), mixer.has_values) == (H, "", False)
    assert "no values" in mixer.cannot("similar values")


def test_layers_with_windows_of_their_own_have_the_mask_that_leads_to_their_weights():
    """Layer 1 sees 5 tokens, as in Gemma 3, and layer 2 at most 2 on each side of a decoder's causal mask."""
    rng, T = np.random.default_rng(11), 17
    q, k = (rng.normal(size=(3, 5, T, D)).astype(np.float32) for _ in range(2))
    causal, back = np.tri(T, dtype=bool), np.arange(T)[:, None] - np.arange(T)
    masks = [causal, causal & (back < 5), causal & (back < 3)]
    weights = [saved_runs.softmax(q[i] @ k[i].swapaxes(-1, -2) / np.sqrt(D), mask) for i, mask in enumerate(masks)]
    trace = traced(run_of(weights, [f"t{i}" for i in range(T)], q=list(q), k=list(k)))
    for layer, mask in zip(trace.layers, masks, strict=True):
        assert (layer.allowed == mask).all() and not layer.mixer.cannot("score")
    both = np.abs(back) < 4  # of an encoder, as in ModernBERT
    weights = [saved_runs.softmax(q[0] @ k[0].swapaxes(-1, -2) / np.sqrt(D), both)]
    trace = traced(run_of(weights, [f"t{i}" for i in range(T)], q=[q[0]], k=[k[0]]))
    assert (trace.layers[0].allowed == both).all() and (trace.masks[0] == both).all()


def test_a_run_with_keys_and_no_queries_says_which_it_lacks():
    run = saved_runs.decoder(q=None)
    assert "carries k, but no q" in traced(run).layers[1].mixer.cannot("score")
    assert "qkv=True" in NO_SCORES


def test_kv_heads_are_named_where_they_are_fewer_or_cached():
    """Of an encoder whose heads have keys of their own, as attnviz.run records BERT with qkv=True, they are not."""
    weights, keys = saved_runs.encoder().kinds[0].layers, np.ones((3, 5, 11, 7), np.float32)
    own = traced(run_of(weights, BERT, k=keys)).layers[0].mixer
    assert (own.shares_kv_heads, own.keys_known, own.read_by(2), own.name) == (False, False, "", "5 heads")
    assert "keys and values of its own" in own.cannot("sharing") and "KV" not in own.maps_finding()
    shared = traced(run_of(weights, BERT, k=keys[:, :1])).layers[0].mixer
    assert shared.shares_kv_heads and "KV head 0" in shared.read_by(2) and shared.cannot("sharing") == ""
    causal = traced(saved_runs.decoder(k=None, q=None, v=None, n_kv_heads=H)).layers[0].mixer
    assert causal.read_by(2) == "KV head 2 alone"
