"""What every mechanism answers: its weights by matrix, and what one of several accelerators holds of it.

A mechanism is one part of a layer: a mixer, which mixes tokens (attention), or a feed-forward. It is a frozen value
that knows its fields, its name and its costs. All costs are `Expression`s, so that a number, its equation and its
legend come from one object. C is d_model, S the number of tokens; both are handed in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import ClassVar

from attnviz.checks import of_type
from attnviz.equations import Expression, Value, function, total
from attnviz.mechanisms.letters import letter


def largest_share(whole: int, n: int) -> int:
    """Return the most that one of n accelerators holds of `whole` heads or rows, divided as evenly as possible."""
    return -(-whole // n)


def whole_pages(tokens: Expression, page: int) -> Expression:
    """Return the tokens rounded up to whole pages of `page` tokens."""
    if page == 1:
        return tokens
    p = letter("Sₚ", page)
    return p * function("ceil", tokens / p)


class Mechanism:
    """One part of a layer, a frozen dataclass."""

    called: ClassVar[str] = "mechanism"  # in a sentence about a layer that has one
    lowest: ClassVar[Mapping[str, int]] = {}  # of whole numbers whose lowest value is not 1
    allowed: ClassVar[Mapping[str, tuple]] = {}  # names, or the lowest and the highest number

    def __post_init__(self) -> None:
        """Check each field by its type. ConfigError names an invalid one."""
        for f in fields(self):  # type: ignore[arg-type]
            of_type(
                f.name, getattr(self, f.name), str(f.type), self.lowest.get(f.name, 1), self.allowed.get(f.name, ())
            )

    def matrices(self, C: Expression) -> dict[str, Expression]:
        """Return the weights that tokens are multiplied with, by matrix."""
        raise NotImplementedError

    def added(self, C: Expression) -> dict[str, Expression]:
        """Return the other parameters: biases under their matrix's name, norms, sink logits."""
        return {}

    def parameters(self, C: Expression) -> dict[str, Expression]:
        """Return all parameters by part."""
        return combined(self.matrices(C), self.added(C))

    def multiplied(self, C: Expression) -> dict[str, Expression]:
        """Return the weights that one token is multiplied with, by matrix; fewer than all only with experts."""
        return self.matrices(C)

    def unread(self, C: Expression, n_tokens: int) -> float:
        """Return the expected parameters that a step with `n_tokens` tokens leaves unread: those of unused experts."""
        return 0.0

    def looked_up(self) -> Expression | None:
        """Return the parameters of an embedding, of which a token reads one row; None if it has none."""
        return None

    def share(self, n: int) -> Mechanism:
        """Return what the fullest of n accelerators holds of it under tensor parallelism; itself: whole on each."""
        return self


@dataclass(frozen=True)
class Vectors:
    """Vectors of one width that a mixer caches per token: `count` of each of `parts` ("k" and "v")."""

    parts: tuple[str, ...]
    width: Value
    count: Value | None = None  # None: one

    @property
    def number(self) -> int:
        """Number of vectors of each part."""
        return 1 if self.count is None else int(self.count.number)

    @property
    def copies(self) -> Expression | None:
        """Number of all vectors as an expression; None if there is one."""
        if self.count is None:
            return None if len(self.parts) == 1 else Value(len(self.parts))
        return self.count if len(self.parts) == 1 else len(self.parts) * self.count


@dataclass(frozen=True)
class State:
    """Numbers of a fixed size that a mixer keeps per sequence, whatever its length.

    bits: per number, as transformers keeps them; a cache's precision does not change them.
    """

    part: str  # "state", "convolution"
    numbers: Expression
    bits: int = 16


def combined(*parts: Mapping[str, Expression]) -> dict[str, Expression]:
    """Add expressions by name, in the order in which the names first occur."""
    terms_of: dict[str, list[Expression]] = {}
    for each in parts:
        for name, expression in each.items():
            terms_of.setdefault(name, []).append(expression)
    return {name: total(terms) for name, terms in terms_of.items()}
