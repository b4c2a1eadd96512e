"""Plain-text files in; a tokenizer and batches of token ids out."""

from __future__ import annotations

import gzip
from pathlib import Path

import torch
from tokenizers import Tokenizer as BPE
from tokenizers import decoders, models, pre_tokenizers, trainers
from torch import Tensor

from attnviz.text import Tokenizer

VOCAB_SIZE = 2048


def read_text(path: Path) -> str:
    """A plain-text file, gzipped or not."""
    raw = Path(path).read_bytes()
    return (gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode("utf-8")


def train_tokenizer(text: str, path: Path) -> None:
    """Byte-level BPE of VOCAB_SIZE entries; all 256 bytes are among them, so that nothing is out of vocabulary."""
    bpe = BPE(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(vocab_size=VOCAB_SIZE, initial_alphabet=alphabet, show_progress=False)
    bpe.train_from_iterator(text.splitlines(keepends=True), trainer)
    bpe.save(str(path))


def token_stream(path: Path, tokenizer: Tokenizer) -> Tensor:
    """int64 (n,): the whole file as one stream of ids."""
    return torch.tensor(tokenizer.encode(read_text(path)))
