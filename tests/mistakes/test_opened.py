"""Every mistake with every architecture that opens: it shows, with finite numbers, or a sentence says why not."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from attnviz.checkpoints import open_model
from attnviz.config import ModelConfig
from attnviz.mistakes import CannotOccur, Symptom, all_mistakes, load_mistake
from attnviz.modules import Transformer
from tests.checkpoints.test_open_model import MODELS, saved
from tests.checkpoints.tokenizers import byte_level

IDS = [3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37]
T = len(IDS)


@pytest.fixture(scope="module", params=MODELS)
def opened(request, tmp_path_factory) -> tuple[nn.Module, Transformer]:
    """Return transformers' model and ours."""
    folder: Path = tmp_path_factory.mktemp("model")
    theirs = saved(request.param, folder, byte_level(tmp_path_factory.mktemp("tokenizer")))
    return theirs, open_model(folder)[0]


@pytest.mark.slow
@pytest.mark.parametrize("name", all_mistakes())
def test_it_shows_or_says_why_not(name, opened):
    model, mistake = opened[1], all_mistakes()[name]
    for n in (1, 2, T):
        try:
            found = mistake.symptom(model, IDS[:n])
        except CannotOccur as reason:
            assert str(reason).endswith(".") and len(str(reason)) > 40
            continue
        assert found.sentence.endswith(".") and len(found.sentence) < 500
        assert n < T or not mistake.why_not(model.config), "a reason not to show, and it shows"
        if n == T and not found.is_same:
            assert found.effect == mistake.kind or model.config.attention_softcap, (found.effect, found.sentence)
            assert not (math.isnan(found.number) or found.sentence.endswith("differ by up to 0.")), found.sentence
        elif n == T:
            assert name in SAME_WITH_A_SENTENCE, found.sentence


SAME_WITH_A_SENTENCE = {"scores_overflow_in_fp16"}  # a soft cap turns ∞ into a finite score


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory) -> tuple[nn.Module, Transformer]:
    folder = tmp_path_factory.mktemp("gpt2")
    return saved("gpt2", folder, byte_level(tmp_path_factory.mktemp("tokenizer"))), open_model(folder)[0]


def test_left_padding_moves_gpt2s_learned_positions_as_in_transformers(gpt2):
    theirs, ours = gpt2
    found = load_mistake("left_padding_without_shifted_positions").symptom(ours, IDS)
    padded, mask = torch.tensor([[0, 0, 0, *IDS]]), torch.tensor([[0] * 3 + [1] * T])
    with torch.no_grad():
        alone = theirs(torch.tensor([IDS])).logits
        shifted = theirs(padded, attention_mask=mask, position_ids=torch.tensor([[0] * 3 + list(range(T))])).logits
        counted = theirs(padded, attention_mask=mask, position_ids=torch.arange(T + 3)[None]).logits
    assert found.number == pytest.approx(float((counted[:, 3:] - alone).abs().max()), rel=1e-3) and found.number > 0.1
    assert (shifted[:, 3:] - alone).abs().max() < 1e-4 and found.expected < 1e-4
    assert "the model's learned ones" in found.sentence and "RoPE" not in found.sentence


@pytest.mark.parametrize("name", ["padding_mask_over_queries", "fully_masked_row"])
def test_padding_leaves_room_for_learned_positions_and_counts_them_from_the_text(name, gpt2):
    theirs, ours = gpt2
    ids = (IDS * 2)[:17]  # as many as there are learned positions
    found: Symptom = load_mistake(name).symptom(ours, ids)
    assert found.n_tokens == 14 and found.right.shape == (17, 17) and found.n_padding == 3
    mask = torch.tensor([[0] * 3 + [1] * 14])
    with torch.no_grad():
        positions = torch.tensor([[0] * 3 + list(range(14))])
        maps = theirs(torch.tensor([[0, 0, 0, *ids[:14]]]), attention_mask=mask, position_ids=positions,
                      output_attentions=True).attentions  # fmt: skip
    expected = maps[found.layer][0, found.head, 3:].numpy()
    np.testing.assert_allclose(found.right[3:], expected, atol=1e-5)


def test_a_model_with_fewer_learned_positions_than_padding_is_a_sentence():
    config = ModelConfig(1, 10, 5, vocab_size=41, position="learned", learned_position_rows=3)
    with pytest.raises(CannotOccur, match="3 learned positions: no room for 3 tokens of padding and a text"):
        load_mistake("fully_masked_row").symptom(Transformer.random(config, 1), IDS)


def test_the_divisor_is_named_as_it_is_where_the_heads_are_wider_than_the_model():
    config, mistake = ModelConfig(2, 10, 5, head_dim=7 * 2, vocab_size=41), load_mistake("scale_by_d_model")
    found, words = mistake.symptom(Transformer.random(config, 1), IDS), mistake.words_in(config)
    assert "Divided by √70 instead of √14" in found.sentence and words.title == "Scaled by √(n_heads · head_dim)"
    assert "√d_model" not in " ".join((words.title, words.question, *words.answers, words.what, words.interview))
    narrow = ModelConfig(2, 10, 5, vocab_size=41)
    assert mistake.words_in(narrow) == mistake and mistake.title == "Scaled by √d_model"


def test_torchs_layer_takes_biases_and_gives_gpt2s_weights(gpt2):
    theirs, ours = gpt2
    found = load_mistake("attention_across_the_batch").symptom(ours, IDS)
    with torch.no_grad():
        x = ours.blocks[0].attn_norm(ours.embed(torch.tensor([IDS])))
        full = theirs.transformer.h[0].attn
        q, k, _ = full.c_attn(x)[0].split(42, dim=-1)  # (T, C) each
        weights = [
            (a @ b.T / 7**0.5).softmax(-1) for a, b in zip(q.split(7, dim=-1), k.split(7, dim=-1), strict=True)
        ]  # H of (T, T), without a mask
    np.testing.assert_allclose(found.right, torch.stack(weights).mean(0).numpy(), atol=1e-5)
