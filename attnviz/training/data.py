"""Training data: plain-text files to a tokenizer and to batches of token ids."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import torch
from tokenizers import Tokenizer as BPE
from tokenizers import decoders, models, pre_tokenizers, trainers
from torch import Tensor

from attnviz.text import Tokenizer

VOCAB_SIZE = 2048


def read_text(path: Path) -> str:
    """Read a plain-text file, gzipped or not."""
    raw = Path(path).read_bytes()
    return (gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode("utf-8")


def train_tokenizer(text: str, path: Path) -> None:
    """Train a byte-level BPE of VOCAB_SIZE entries; they include all 256 bytes, so nothing is out of vocabulary."""
    bpe = BPE(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(vocab_size=VOCAB_SIZE, initial_alphabet=alphabet, show_progress=False)
    bpe.train_from_iterator(text.splitlines(keepends=True), trainer)
    bpe.save(str(path))


def token_stream(path: Path, tokenizer: Tokenizer) -> Tensor:
    """Tokenize a whole file as one stream of ids: int64 (n,)."""
    return torch.tensor(tokenizer.encode(read_text(path)))


class Batches:
    """Batches of token ids with a loss mask, deterministic for each (seed, step).

    Plain text teaches the language. Repeated segments, with the loss only on the repetition, teach induction heads:
    with uniformly random segments these appear soonest, and with real passages they stay active on text.
    """

    def __init__(self, stream: Tensor, vocab_size: int, seed: int) -> None:
        self.stream, self.vocab_size, self.seed = stream, vocab_size, seed

    def primer(self, step: int, n_rows: int, length: int) -> tuple[Tensor, Tensor]:
        """Return rows of repeated random segments: ids (n_rows, length + 1), loss mask bool (n_rows, length)."""
        generator = self._generator(step)
        return _stack([self._repeats(length, self._random, 0, generator) for _ in range(n_rows)])

    def mixture(self, step: int, n_text: int, n_repeats: int, length: int) -> tuple[Tensor, Tensor]:
        """Return rows of text, then rows of repeats of four kinds, half of them passages; shapes as in `primer`."""
        generator = self._generator(step)
        every = torch.ones(length, dtype=torch.bool)
        rows = [(self._passage(length + 1, generator), every) for _ in range(n_text)]
        kinds = (self._passage, self._random, self._passage, self._drawn_like_text)
        rows += [self._repeats(length, kinds[(step + i) % 4], 24, generator) for i in range(n_repeats)]
        return _stack(rows)

    def _generator(self, step: int) -> torch.Generator:
        return torch.Generator().manual_seed(self.seed * 1_000_003 + step)

    def _passage(self, n: int, generator: torch.Generator) -> Tensor:
        start = _below(len(self.stream) - n, generator)
        return self.stream[start : start + n]

    def _random(self, n: int, generator: torch.Generator) -> Tensor:
        return torch.randint(self.vocab_size, (n,), generator=generator)

    def _drawn_like_text(self, n: int, generator: torch.Generator) -> Tensor:
        return self.stream[torch.randint(len(self.stream), (n,), generator=generator)]

    def _repeats(
        self,
        length: int,
        segment_of: Callable[[int, torch.Generator], Tensor],
        max_gap: int,
        generator: torch.Generator,
    ) -> tuple[Tensor, Tensor]:
        """Return a row of repeated segments, one in three with a gap between; the loss counts only the repetition."""
        ids: list[Tensor] = []
        counts: list[Tensor] = []
        while sum(map(len, ids)) <= length:
            segment = segment_of(8 + _below(min(56, length // 2 - 8), generator), generator)
            gap = segment_of(_below(max_gap, generator) if max_gap and _below(3, generator) == 0 else 0, generator)
            ids += [segment, gap, segment]
            counts += [torch.zeros(len(segment) + len(gap) + 1), torch.ones(len(segment) - 1)]
        return torch.cat(ids)[: length + 1], torch.cat(counts)[1 : length + 1].bool()


def _stack(rows: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    ids, counts = zip(*rows, strict=True)
    return torch.stack(ids), torch.stack(counts)


def _below(n: int, generator: torch.Generator) -> int:
    return int(torch.randint(n, (1,), generator=generator))
