"""Tokenizer with printable token labels: a byte-level BPE from the `tokenizers` library.

Byte-level means that any Unicode text round-trips, and that a character outside the vocabulary is split into its UTF-8
bytes. The labels reassemble such a character, so that no label is empty, invisible or half a character. Which tokens
form one character is decided in `characters.py`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from functools import cache
from pathlib import Path

from tokenizers import Tokenizer as BPE

from attnviz.characters import (
    Span,
    began,
    byte_level_bytes,
    examples,
    labels_of,
    sentencepiece_bytes,
    spans,
    unfinished,
)
from attnviz.phrases import isolated

TOKENIZER_FILE = Path(__file__).parent / "checkpoints" / "tokenizer.json"


class Tokenizer:
    """Encoder, decoder and labels of one vocabulary; immutable, so all sessions share it."""

    def __init__(self, source: Path | str | BPE = TOKENIZER_FILE, ends: Collection[int] = ()) -> None:
        """source: a tokenizer.json, read without truncation and padding, or a tokenizer, used as it is.

        ends: ids of the tokens with which the model ends a text (eos_token_id); most tokenizer files do not say.
        """
        self.ends = frozenset(ends)
        self._bpe = source if isinstance(source, BPE) else _from_file(source)
        added = self._bpe.get_added_tokens_decoder()
        self._added = {i: token.content.encode("utf-8", "replace") for i, token in added.items()}
        self._special = {i for i, token in added.items() if token.special}
        self._piece_bytes = byte_level_bytes if _is_byte_level(self._bpe) else sentencepiece_bytes

    @property
    def vocab_size(self) -> int:
        return self._bpe.get_vocab_size()

    def encode(self, text: str) -> list[int]:
        """Return the token ids of the text; unpaired surrogates, which are not characters, become U+FFFD."""
        whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")  # UTF-8 would write "?"
        return self._bpe.encode(whole).ids

    def decode(self, ids: list[int]) -> str:
        """Return the text of these ids, without special tokens; incomplete characters at the ends become U+FFFD."""
        return b"".join(self.token_bytes([i for i in ids if i not in self._special])).decode("utf-8", "replace")

    def token_bytes(self, ids: list[int]) -> list[bytes]:
        """Return the bytes of each token; of an id unknown to the tokenizer, which a model may write, of its number."""
        pieces = [self._bpe.id_to_token(i) for i in ids]
        return [
            self._added.get(i) or (f"token {i}".encode() if piece is None else self._piece_bytes(piece))
            for i, piece in zip(ids, pieces, strict=True)
        ]

    def name(self, token: int, before: Sequence[int] = ()) -> str:
        """Return the printable label of one token, or "token 151900" for an id unknown to the tokenizer.

        before: the tokens that it follows, of which `unfinished` are enough. After the first two bytes of 床, byte 8A
        is "床 3/3"; bytes that complete no character are named with one that they may become: "<0xE5> 儿…".
        """
        if self._bpe.id_to_token(token) is None:
            return f"token {token}"
        label = self.labels([*before, token])[-1]
        some = examples(self._begun([*before, token]))
        return f"{label} {some[0]}…" if some else label

    def described(self, token: int, before: Sequence[int] = ()) -> str:
        """Describe a token that completes no character: "begins 儿, 入, 八, … (U+5000–U+5FFF)"; "" for others."""
        if self._bpe.id_to_token(token) is None or not (points := self._begun([*before, token])):
            return ""
        verb = "continues" if self._continues(token, before) else "begins"
        block = f"U+{points.start:04X}–U+{points.stop - 1:04X}"
        some = ", ".join(map(isolated, examples(points)))
        return f"{verb} {some}, … ({block})" if some else f"{verb} {block}"

    def _continues(self, token: int, before: Sequence[int]) -> bool:
        """Check whether a token that completes no character adds to what `before` began."""
        (own,) = self.token_bytes([token])
        return len(unfinished(b"".join(self.token_bytes([*before, token])))) > len(own)

    def _begun(self, ids: Sequence[int]) -> range:
        """Return the code points of which the last of these tokens writes a part but not the end."""
        return began(unfinished(b"".join(self.token_bytes([*ids]))))

    def unfinished(self, ids: Sequence[int]) -> tuple[int, ...]:
        """Return the tokens at the end whose bytes begin a character and do not complete it."""
        ids = tuple(ids[-4:])  # UTF-8 needs at most four bytes
        rest = len(unfinished(b"".join(self.token_bytes([*ids]))))
        start = len(ids)
        while rest > 0:
            start -= 1
            rest -= len(self.token_bytes([ids[start]])[0])
        return ids[start:]

    def spans(self, ids: Sequence[int]) -> list[Span]:
        """Return which tokens together are one character as it is read: of 床 three, of a flag eight."""
        return spans(self.token_bytes([*ids]))

    def characters(self, ids: list[int]) -> list[float]:
        """Count the characters in each token; one that is split over several tokens counts in proportion to bytes."""
        counts, length = [], 1
        for piece in self.token_bytes(ids):
            shares = 0.0
            for byte in piece:
                length = _utf8_length(byte) or length
                shares += 1 / length
            counts.append(shares)
        return counts

    def labels(self, ids: list[int]) -> list[str]:
        """Return one printable label per token: "·the", "⏎", "好 1/3" for the first of a character's three tokens.

        A byte without the rest of its character is "<0xE5>", as in SentencePiece's vocabularies.
        """
        return labels_of(self.token_bytes(ids))


def _from_file(path: Path | str) -> BPE:
    bpe = BPE.from_file(str(path))
    bpe.no_truncation()
    bpe.no_padding()
    return bpe


def _is_byte_level(bpe: BPE) -> bool:
    """Check whether tokens are written in GPT-2's byte characters; otherwise as SentencePiece words with "▁"."""
    parts = json.loads(bpe.to_str())
    return any(_has_kind(parts.get(part), "ByteLevel") for part in ("decoder", "pre_tokenizer"))


def _has_kind(part: object, kind: str) -> bool:
    """Check whether a component of a tokenizer.json, or one in its sequence, has this type."""
    if not isinstance(part, dict):
        return False
    inner = [*part.get("decoders", ()), *part.get("pretokenizers", ())]
    return part.get("type") == kind or any(_has_kind(each, kind) for each in inner)


@cache
def tokenizer() -> Tokenizer:
    """Return the checkpoints' tokenizer, cached."""
    return Tokenizer()


def _utf8_length(byte: int) -> int:
    """Return the length in bytes of the UTF-8 character that this byte begins; 0 for a continuation byte."""
    if byte & 0b1100_0000 == 0b1000_0000:
        return 0
    return 1 if byte < 0xC0 else 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
