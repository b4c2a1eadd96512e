"""Labels of a run's tokens: what a tokenizer's vocabulary calls them, as text that a reader knows."""

from __future__ import annotations

from collections.abc import Sequence

from attnviz.characters import BYTE_PIECE, PART, byte_level_bytes, labels_of, printable, sentencepiece_bytes

SPACES = ("·", "Ġ")  # at the beginning of a word's first token, as labels and GPT-2's tokenizer write them
BYTE_LEVEL, SENTENCEPIECE = ("Ġ", "Ċ"), "▁"  # what tokens that begin with a space or a line end begin with


def from_vocabulary(tokens: Sequence[str]) -> tuple[str, ...]:
    """Return the tokens of one text as labels, if they are written as in a vocabulary: "·the" for "Ġthe" and "▁the".

    Byte-level tokens are written in characters that stand for bytes: "åºĬ" is "床". Others are returned as they are.
    """
    if any(token.startswith(BYTE_LEVEL) for token in tokens):
        return tuple(labels_of([byte_level_bytes(token) for token in tokens]))
    if any(token.startswith(SENTENCEPIECE) or BYTE_PIECE.fullmatch(token) for token in tokens):
        return tuple(labels_of([sentencepiece_bytes(token) for token in tokens]))
    return tuple(tokens)


def label_of(token: str) -> str:
    """Return a token as a printable label: spaces at its ends as "·", those inside as they are; "∅" if empty.

    SentencePiece's "▁" is a space too.
    """
    if PART.fullmatch(token):
        return token  # "床 2/3"
    token = f" {token[1:]}" if token.startswith(SENTENCEPIECE) else token
    inner = token.strip(" ")
    before = "·" * (len(token) - len(token.lstrip(" ")))
    after = "·" * (len(token) - len(token.rstrip(" "))) if inner else ""
    return f"{before}{' '.join(printable(word) for word in inner.split(' '))}{after}" or "∅"


def are_spaced(labels: Sequence[str]) -> bool:
    """Check whether no label says that a space is before it: then there is one before each, as in WordPiece's texts."""
    return not any(label.startswith(SPACES) for label in labels)
