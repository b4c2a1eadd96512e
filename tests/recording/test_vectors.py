"""Queries, keys, values, KV heads and logits of a recorded run."""

from __future__ import annotations

import numpy as np
import pytest

from attnviz.recorded import RecordedTrace
from attnviz.recording.of_transformers import run
from tests.recording import models, readers
from tests.recording.compare import TARGET, TEXT, returned, softmax


@pytest.mark.parametrize(
    "name", ["Llama", "Qwen3", "Mistral, window", "Gemma 3, windows", "DeepSeek-V3, MLA", "ModernBERT"]
)
def test_weights_are_the_softmax_of_the_queries_and_keys(name):
    recorded = run(models.TEXTS[name](), readers.byte_level(), TEXT, qkv=True)
    (kind,) = recorded.kinds
    for weights, q, k, n_kv in zip(kind.layers, recorded.q["self"], recorded.k["self"], kind.n_kv_heads, strict=True):
        of_group = np.arange(len(q)) * n_kv // len(q)
        scores = np.einsum("htd,hsd->hts", q, k[of_group]) / np.sqrt(q.shape[-1])
        scores[weights == 0] = -np.inf
        assert len(k) == n_kv and np.abs(softmax(scores) - weights).max() < 1e-4
    windows = {len(set((layer[0] > 0).sum(axis=-1))) for layer in kind.layers}
    assert ("window" in name) == (min(windows) == 5 and len(kind.tokens) == 13)


@pytest.mark.parametrize("name", ["gpt-oss, sinks", "Gemma 2, capped"])
def test_queries_are_left_out_where_their_scores_are_not_those_of_the_weights(name):
    recorded = run(models.DECODERS[name](), readers.byte_level(), TEXT, qkv=True)
    assert not recorded.q and len(recorded.k["self"]) == len(recorded.v["self"]) == 3
    added = "a learned sink takes part in the softmax" if "sinks" in name else "the scores are capped"
    assert any("The queries of attention are left out" in note and added in note for note in recorded.notes)
    assert ("sum to" in " ".join(recorded.sentences)) == ("sinks" in name)


def test_a_relative_bias_is_said_and_cross_attention_keeps_its_queries():
    recorded = run(models.TWO_TEXTS["T5"](), readers.byte_level(), TEXT, target=TARGET, qkv=True)
    assert set(recorded.q) == {"cross"} and set(recorded.k) == {"encoder", "decoder", "cross"}
    weights, q, k = (each["cross"][1] for each in ({"cross": recorded.kind("cross").layers}, recorded.q, recorded.k))
    assert np.abs(softmax(np.einsum("htd,hsd->hts", q, k) / np.sqrt(7)) - weights).max() < 1e-4
    assert any("scales q · k by 1;" in note for note in recorded.notes)
    why = RecordedTrace(recorded, recorded.kind("encoder")).layers[0].mixer.cannot("score")
    assert "The queries of the encoder's attention are left out" in why and "carries no q" not in why
    assert "a relative position bias is added to the scores" in why


@pytest.mark.parametrize(
    "name, expected",
    [
        ("Qwen3", 2),
        ("Phi", 3),
        ("GPT-2", 5),
        ("Falcon, MQA", 1),
        ("BLOOM, ALiBi", None),
        ("DeepSeek-V3, MLA", 6),
        ("BERT", 5),
    ],
)
def test_kv_heads_are_those_that_ran(name, expected):
    assert set(run(models.TEXTS[name](), readers.byte_level(), TEXT).kinds[0].n_kv_heads) == {expected}


def test_a_model_with_attention_code_of_its_own_says_that_it_passes_on_no_queries():
    recorded = run(models.DECODERS["BLOOM, ALiBi"](), readers.byte_level(), TEXT, qkv=True)
    assert not recorded.q and not recorded.k and "does not pass on the queries" in recorded.notes[0]


def test_logits_are_one_row_per_token():
    model, tokenizer = models.DECODERS["Llama"](), readers.byte_level()
    expected = returned(model, **tokenizer(TEXT, return_tensors="pt")).logits[0]
    recorded = run(model, tokenizer, TEXT, logits=True)
    assert recorded.logits.shape == (13, models.VOCAB) and np.abs(recorded.logits - expected.numpy()).max() < 1e-4
    assert run(model, tokenizer, TEXT).logits is None
    assert "no logits" in run(models.ENCODERS["RoBERTa"](), tokenizer, TEXT, logits=True).notes[0]
