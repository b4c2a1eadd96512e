"""Words of a token sequence, from its characters: which tokens say something, which belong together, which are alike.

T tokens.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from attnviz.characters import Span

# kinds of tokens: with letters, digits or pictures; part of such a character; none of these; part of one of these
WHOLE, PIECE, MARK, MARK_PIECE = range(4)
UNSPACED = {"CJK", "HIRAGANA", "KATAKANA", "BOPOMOFO", "YI", "THAI", "LAO", "KHMER", "MYANMAR", "TIBETAN", "JAVANESE"}


@dataclass(frozen=True, eq=False)
class Words:
    """What the tokens of a text are, one entry per token; each array is (T,)."""

    kind: np.ndarray  # WHOLE, PIECE, MARK or MARK_PIECE
    word: np.ndarray  # number of the word it belongs to; a mark counts as one, as does a character without spaces
    ends_character: np.ndarray  # bool: the last piece of a character, or a whole token
    same: np.ndarray  # equal for equal tokens; for pieces, of the same character

    @property
    def last(self) -> int:
        """The last token of the first kind that occurs."""
        return int(np.flatnonzero(self.kind == self.kind.min())[-1])


def words_of(spans: Sequence[Span]) -> Words:
    """Find the words of tokens that form these characters."""
    kind, word, ends, same = [], [], [], []
    known: dict[tuple[str, int, int], int] = {}
    number, before = -1, ""
    for start, stop, text in spans:
        number += not (before and _continues(before[-1], text[:1]))
        before = text
        says, n = any(map(_says_something, text)), stop - start
        for part in range(n):
            kind.append((WHOLE if says else MARK) + (n > 1))
            word.append(number)
            ends.append(part == n - 1)
            same.append(known.setdefault((text, part, n), len(known)))
    return Words(np.array(kind), np.array(word), np.array(ends), np.array(same))


@lru_cache(maxsize=4096)
def _says_something(c: str) -> bool:
    """Check for a letter, a digit or a picture such as an emoji."""
    category = unicodedata.category(c)
    return category[0] in "LN" or (category == "So" and c != "\ufffd")  # U+FFFD stands for what is no character


@lru_cache(maxsize=4096)
def _continues(before: str, after: str) -> bool:
    """Check whether two characters in a row are of one word, in a script that puts spaces between words."""
    return all(_in_word(c) and unicodedata.name(c, "").split(" ")[0] not in UNSPACED for c in (before, after))


def _in_word(c: str) -> bool:
    return unicodedata.category(c)[0] in "LNM" if c else False
