"""What cannot be run or shown is said in a sentence, before it runs where that can be known."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
import torch

from attnviz.recording.of_transformers import run
from tests.recording import models, readers
from tests.recording.compare import TARGET, TEXT

REFUSED = [
    ("Llama", dict(text=""), "the text has no tokens"),
    ("Llama", dict(text=["a", "b"]), "one text at a time, not a list of 2"),
    ("Llama", dict(text=3.5j), "a text is a string"),
    ("Llama", dict(text=TEXT, target="b"), "LlamaForCausalLM has one text"),
    ("Llama", dict(text=TEXT, generate=-1), "generate must be a whole number"),
    ("Llama", dict(text={"attention_mask": [[1]]}), "reads input_ids; the batch has attention_mask"),
    ("Llama", dict(text={"input_ids": [[5, 6], [7, 8]]}), "a batch of 2"),
    ("Llama", dict(text={"input_ids": [[5, 6, 7]], "attention_mask": [[1, 0, 1]]}), "hides tokens between others"),
    ("BERT", dict(text="a " * 70), "embeddings for 61 positions"),
    ("BERT", dict(text="a", generate=2), "BertForMaskedLM has no generate"),
    ("GPT-2", dict(text="a", generate=61), "62 tokens are too many"),
    ("BART", dict(text="a", target="b", generate=2), "give one of them"),
    ("BART", dict(text="a", target=[]), "the target has no tokens"),
    ("BART", dict(text="a", target=[[5, 6], [7, 8]]), "the ids of one text; it has the shape (2, 2)"),
    ("BART", dict(text="a", target=[[5, 6], [7]]), "a text or the ids of its tokens"),
    ("BART", dict(text="a", target=[5, 331]), "has the id 331, but the model's embedding has 331 rows"),
    ("BART", dict(text="a", target=[5, -1]), "-1 is no token's id"),
    ("Llama", dict(text=[5, -1]), "-1 is no token's id"),
    ("BART", dict(text="a", target=5), "a text or the ids of its tokens, not 5"),
    ("BART", dict(text="a", target=[0.5]), "the shape (1,) and the type torch.float32"),
    ("T5", dict(text="a " * 100, generate=3, max_bytes=100_000), "3 layers × 5 heads × 101 × 101 weights; max_"),
    ("Llama", dict(text="a", generate=99, max_bytes=100_000), "3 layers × 6 heads × 100 × 100 weights"),
    ("Llama", dict(text="a a a", logits=True, max_bytes=4_000), "× 331 logits"),
]  # fmt: skip


@pytest.mark.parametrize("name, given, sentence", REFUSED)
def test_what_cannot_be_run_is_said_before_it_runs(name, given, sentence, monkeypatch):
    model = models.TEXTS[name]()
    before = inspect.signature(model.forward)

    def forward(*args, **kwargs):
        raise AssertionError("the model ran")

    forward.__signature__ = before
    monkeypatch.setattr(model, "forward", forward)
    with pytest.raises(ValueError) as error:
        run(model, readers.byte_level(), given.pop("text") if "text" in given else TEXT, **given)
    assert sentence in str(error.value) and "\n" not in str(error.value)


def without_weights():
    return models.random(
        "MambaForCausalLM", "MambaConfig", vocab_size=models.VOCAB, hidden_size=32, num_hidden_layers=2
    )


def as_wide_as_the_text():
    """A Longformer whose weights have as many columns as there are tokens."""
    return models.random("LongformerModel", "LongformerConfig", **models.MHA, attention_window=[4] * 3)


def not_switched():
    fields = models.MHA | {"hidden_size": 60}
    return models.random("FalconForCausalLM", "FalconConfig", **fields, multi_query=True, **models.IDS)


@pytest.mark.parametrize(
    "make, given, sentence",
    [
        (without_weights, TEXT, "MambaForCausalLM returned no attention weights"),
        (as_wide_as_the_text, [5, 6, 7, 8, 9], "LongformerModel returns attention of the shape (1, 5, 5, 5)"),
        (
            not_switched,
            TEXT,
            "keeps the attention that it was loaded with, sdpa: load it with attn_implementation='eager'",
        ),
        (lambda: torch.nn.Linear(2, 3), TEXT, "attnviz.show(attention, tokens)"),
    ],
)
def test_a_model_without_a_weight_per_pair_of_tokens_is_refused(make, given, sentence):
    with pytest.raises(ValueError) as error:
        run(make(), readers.byte_level(), given)
    assert sentence in str(error.value)


def test_windows_of_a_picture_are_refused():
    model = models.random("SwinModel", "SwinConfig", image_size=56, patch_size=4, embed_dim=12, depths=[1, 1],
                          num_heads=[2, 3], window_size=7)  # fmt: skip
    picture = np.zeros((56, 56, 3), np.uint8)
    with pytest.raises(ValueError, match=r"SwinModel returns attention of the shape \(4, 2, 49, 49\)"):
        run(model, readers.image_processor(56, 56), picture)


def test_a_hybrid_names_the_layers_that_have_weights():
    recorded = run(models.DECODERS["Qwen3-Next, linear"](), readers.byte_level(), TEXT)
    assert recorded.names == ("layers.3", "layers.7")
    assert recorded.notes == (
        "Layers 0, 1, 2, 4, 5 and 6, counted from 0, have no weight per pair of tokens: linear_attention.",
    )


def test_an_encoder_in_windows_leaves_the_decoder_and_cross_attention():
    fields = {name: value for name, value in models.TWO.items() if name != "max_position_embeddings"}
    model = models.random("LEDForConditionalGeneration", "LEDConfig", **fields, attention_window=4)
    recorded = run(model, readers.byte_level(), TEXT, target=TARGET)
    assert [kind.name for kind in recorded.kinds] == ["decoder", "cross"] and "windows" in recorded.notes[0]
    assert (
        recorded.kind("cross").key_tokens == run(models.ENCODERS["BERT"](), readers.byte_level(), TEXT).kinds[0].tokens
    )


def test_layers_that_return_something_else_than_weights_are_named():
    """The linear layers of MiniMax return their state, (1, H, D, D), among the attentions."""
    fields = models.GQA | dict(num_hidden_layers=4, layer_types=["full_attention", "linear_attention"] * 2)
    model = models.random("MiniMaxForCausalLM", "MiniMaxConfig", **fields, num_local_experts=3)
    recorded = run(model, readers.byte_level(), TEXT)
    assert recorded.names == ("layers.0", "layers.2") and recorded.kinds[0].causal
    other, missing = recorded.notes
    assert "returns attention of the shape (1, 6, 14, 14), not as" in other and "linear, is not shown" in other
    assert missing == "Layers 1 and 3, counted from 0, have no weight per pair of tokens: linear_attention."


def test_the_limit_counts_each_weight_as_four_bytes():
    model, tokenizer = models.DECODERS["Llama"](), readers.byte_level()
    size = 3 * 6 * 13 * 13 * 4
    assert sum(layer.nbytes for layer in run(model, tokenizer, TEXT, max_bytes=size).kinds[0].layers) == size
    with pytest.raises(ValueError, match="the run takes 0.0122 MB"):
        run(model, tokenizer, TEXT, max_bytes=size - 1)


def test_a_limit_holds_also_where_the_configuration_tells_no_sizes(monkeypatch):
    monkeypatch.setattr("attnviz.recording.sizes._sizes", lambda *args, **kwargs: None)
    with pytest.raises(ValueError, match="the weights take more than allowed; max_bytes is 0.005 MB"):
        run(models.DECODERS["Llama"](), readers.byte_level(), TEXT, max_bytes=5_000)


def test_a_decoder_without_a_token_to_begin_with_begins_with_padding_and_without_that_is_refused():
    model = models.TWO_TEXTS["T5"]()
    model.config.decoder_start_token_id = model.generation_config.decoder_start_token_id = None
    for given in (dict(target=TARGET), dict(generate=2)):
        assert run(model, readers.byte_level(), TEXT, **given).kind("decoder").tokens[0] == "<pad>"
    model.config.pad_token_id = model.generation_config.pad_token_id = None
    with pytest.raises(ValueError, match="set model.config.decoder_start_token_id"):
        run(model, readers.byte_level(), TEXT, target=TARGET)


def test_no_tokenizer_is_said():
    with pytest.raises(ValueError, match="the model's tokenizer makes its input, not None"):
        run(models.ENCODERS["BERT"](), None, TEXT)
