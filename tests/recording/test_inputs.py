"""Texts, ids, pairs, chats and padding, and how tokens are labelled."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

from attnviz.recording.of_transformers import run
from tests.recording import models, readers
from tests.recording.compare import TEXT, differences, returned


@pytest.mark.parametrize(
    "make, expected",
    [
        (readers.byte_level, ["The", "·little", "·", "床 1/3", "床 2/3", "床 3/3", "·a", "</s>"]),
        (readers.word_piece, ["[CLS]", "the", "lit", "##tle", "[UNK]", "a", *["[UNK]"] * 2, "s", "[UNK]", "[SEP]"]),
        (readers.unigram, ["·The", "·lit", "tle", "·", "床 1/3", "床 2/3", "床 3/3", "·a", "</s>", "</s>"]),
    ],
)  # fmt: skip
def test_tokens_are_labelled_as_they_are_read(make, expected):
    kind = run(models.ENCODERS["BERT"](), make(), "The little 床 a</s>").kinds[0]
    assert list(kind.tokens) == expected


def test_what_continues_a_word_is_marked():
    assert run(models.ENCODERS["BERT"](), readers.word_piece(), "girls").kinds[0].tokens == (
        "[CLS]",
        "girl",
        "##s",
        "[SEP]",
    )


def test_ids_a_pair_and_a_tokenizer_of_the_library_are_read():
    bert, tokenizer = models.ENCODERS["BERT"](), readers.word_piece()
    ids = tokenizer("the girl")["input_ids"]
    pair = run(bert, tokenizer, ("the girl", "a ball"))
    assert pair.kinds[0].tokens == ("[CLS]", "the", "girl", "[SEP]", "a", "ball", "[SEP]")
    expected = returned(bert, **tokenizer("the girl", "a ball", return_tensors="pt")).attentions
    assert max(differences(pair.kinds[0], expected)) < 1e-6
    same = [run(bert, tokenizer, each) for each in ("the girl", ids, torch.tensor(ids), tokenizer("the girl"))]
    same.append(run(bert, tokenizer.backend_tokenizer, "the girl"))
    assert {each.kinds[0].tokens for each in same} == {("[CLS]", "the", "girl", "[SEP]")}
    assert run(bert, None, ids).kinds[0].tokens == ("id 2", *(f"id {i}" for i in ids[1:]))


def test_a_chat_is_read_with_the_template_of_its_tokenizer():
    tokenizer = copy.deepcopy(readers.byte_level())
    each = "{% for m in messages %}<s>{{ m.role }}: {{ m.content }}</s>{% endfor %}"
    tokenizer.chat_template = each + "{% if add_generation_prompt %}<s>{% endif %}"
    kind = run(models.DECODERS["Llama"](), tokenizer, [{"role": "a", "content": "The girl"}]).kinds[0]
    assert "".join(kind.tokens) == "<s>a:·The·girl</s><s>" and kind.tokens[0] == kind.tokens[-1] == "<s>"


@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_is_trimmed(side):
    model, tokenizer = models.DECODERS["Llama"](), readers.byte_level()
    padded = tokenizer(TEXT, padding="max_length", max_length=19, padding_side=side, return_tensors="pt")
    recorded, plain = run(model, tokenizer, padded), run(model, tokenizer, TEXT)
    assert recorded.kinds[0].tokens == plain.kinds[0].tokens
    assert np.array_equal(recorded.kinds[0].layers[2], plain.kinds[0].layers[2])
