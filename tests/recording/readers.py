"""Tokenizers of the three common types, made here, as transformers wraps them; and an image processor."""

from __future__ import annotations

from functools import cache

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast
from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

TEXTS = [
    "The little girl found a red ball in the garden.",
    "naïve café 12 345",
    "She said: “don’t!”",
    "girls balls gardens",
] * 3


@cache
def byte_level() -> PreTrainedTokenizerFast:
    """BPE on bytes, as GPT-2 and Qwen have it."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    special = ["<pad>", "<s>", "</s>"]
    made.train_from_iterator(
        TEXTS, trainers.BpeTrainer(vocab_size=325, special_tokens=special, initial_alphabet=alphabet)
    )
    return PreTrainedTokenizerFast(tokenizer_object=made, pad_token="<pad>", bos_token="<s>", eos_token="</s>")


@cache
def word_piece() -> PreTrainedTokenizerFast:
    """WordPiece, as BERT has it: [CLS] and [SEP] around a text, "##" for what continues a word."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    pieces = ["the", "lit", "##tle", "girl", "##s", "found", "a", "red", "ball", ".", "s"]
    vocabulary = {piece: i for i, piece in enumerate([*special, *pieces])}
    made = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    made.normalizer, made.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece()
    made.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    named = dict(pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]", mask_token="[MASK]")
    return PreTrainedTokenizerFast(tokenizer_object=made, **named)


@cache
def unigram() -> PreTrainedTokenizerFast:
    """SentencePiece's unigram model, as T5 has it: "▁" for a space, here with bytes for unknown characters."""
    special = ["<pad>", "</s>", "<unk>", *(f"<0x{i:02X}>" for i in range(256))]
    pieces = ["▁", "▁The", "▁lit", "tle", "▁girl", "▁a", "s", "."]
    scored = [*((piece, 0.0) for piece in special), *((piece, -1.0) for piece in pieces)]
    made = Tokenizer(models.Unigram(scored, unk_id=2, byte_fallback=True))
    made.pre_tokenizer, made.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    made.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    return PreTrainedTokenizerFast(tokenizer_object=made, pad_token="<pad>", eos_token="</s>", unk_token="<unk>")


def image_processor(height: int = 56, width: int = 40) -> ViTImageProcessorPil:
    return ViTImageProcessorPil(size={"height": height, "width": width}, image_mean=[0.4, 0.5, 0.6])
