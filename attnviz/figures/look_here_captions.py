"""Sentences that point to a head and a cell of its map, and why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from attnviz.analysis.roles import ABOVE_CHANCE, LOCAL
from attnviz.analysis.standing_out import DUPLICATE, EXPLAINED, INDUCTION
from attnviz.figures.drawing import quoted
from attnviz.figures.head_captions import LONGEST_TOKEN, shortened
from attnviz.figures.numbers import printed
from attnviz.phrases import count

if TYPE_CHECKING:
    from attnviz.analysis.search import Found

KEY_CLAUSES = {  # why a key is one of the role's, to follow "key 7 “found”"
    "induction": "which followed an earlier {query}",
    "previous token": "the token before it",
}


def shown_by_role(found: Found, labels: Sequence[str], role: str, n_heads: int) -> str:
    """Point to a role, in markdown: the head with the largest score on this text, and one cell of its map."""
    name, heads = role.replace(" ", "-"), count(n_heads, "head")
    if not found.share.stands_out:
        return f"**No head stands out** on this text: of {heads}, the largest {name} score is {_by_chance(found)}."
    clause = KEY_CLAUSES[role].format(query=quoted(shortened(labels[found.query], LONGEST_TOKEN)))
    return (
        f"**Look at layer {found.layer}, head {found.head}**: of {heads}, it has the largest {name} score on this "
        f"text, {_by_chance(found)}. {_gives(found, labels)}, {clause}."
    )


def shown_by_selected(own: Found, largest: Found, labels: Sequence[str], role: str) -> str:
    """Point to a role, in markdown, that the selected head has as well as the one with the largest score."""
    name = role.replace(" ", "-")
    clause = KEY_CLAUSES[role].format(query=quoted(shortened(labels[own.query], LONGEST_TOKEN)))
    return (
        f"**Layer {own.layer}, head {own.head} is {'an' if name[0] in 'aeiou' else 'a'} {name} head on this text.** "
        f"{_gives(own, labels)}, {clause}. Its {name} score on this text is {_by_chance(own)}; "
        f"layer {largest.layer}, head {largest.head} has the largest, {largest.share.weight:.2f}."
    )


def shown_by_pair(found: Found, labels: Sequence[str], what: str, n_heads: int) -> str:
    """Point to a relation between tokens, in markdown: the largest weight on it in any head."""
    heads = count(n_heads, "head")
    if not found.share.stands_out:
        return f"**No head stands out** on this text: of {heads}, the largest weight {what} is {_by_chance(found)}."
    return (
        f"**Look at layer {found.layer}, head {found.head}**: of {heads}, it has the largest weight {what}, "
        f"{_by_chance(found)}. {_gives(found, labels)}."
    )


HOW_IT_IS_FOUND = (
    "The search covers the strongest key of each query in each head, except the first token, the query’s own word and "
    "the words next to it. The weight expected from the position is the largest of three: the same weight for all "
    f"keys; the mean weight that other queries give this key; and, up to {LOCAL - 1} tokens away, this head’s mean "
    f"weight at that distance. A weight w stands out if it is {ABOVE_CHANCE} above the expected one. Shown is "
    f"the one with the largest w · log(w / expected), times {EXPLAINED:.2f} where the key is an earlier occurrence of "
    "the query’s token or follows one. Tokens with letters, digits or pictures come first, then parts of such "
    "characters, then punctuation and spaces."
)
RELATIONS = {  # of the key to the query, to follow "key 7 “found”"
    INDUCTION: "which followed an earlier {query}",
    DUPLICATE: "an earlier occurrence of the same token",
}


def shown_by_position(found: Found, labels: Sequence[str], relation: str, n_heads: int) -> str:
    """Point to the cell that stands out, in markdown. relation: one of RELATIONS, or ""."""
    away = abs(found.query - found.key)
    far = f"{count(away, 'token')} {'back' if found.key < found.query else 'ahead'}"
    clause = RELATIONS.get(relation, far).format(query=quoted(shortened(labels[found.query], LONGEST_TOKEN)))
    return (
        f"**Look at layer {found.layer}, head {found.head}**: of {count(n_heads, 'head')}, its map has the weight that "
        f"stands out most. {_gives(found, labels)}, {clause}; from its position, {printed(found.share.chance)} is "
        "expected."
    )


def on_merged_map(weight: float, query: str, key: str) -> str:
    """Say what the cell that stands out is on the map that is drawn, between characters of several tokens."""
    return f" On the merged map, {quoted(query)} gives {printed(weight)} of its weight to {quoted(key)}."


def none_stands_out(found: Found | None, n_heads: int) -> str:
    """State that no cell stands out, in markdown. found: the one that comes closest; None if none was eligible."""
    heads = count(n_heads, "head")
    if found is None:
        return (
            f"**No head stands out** on this text: in {heads}, each query gives most of its weight to the first token, "
            "to its own word or to a word next to it."
        )
    return (
        f"**No head stands out** on this text: of {heads}, the largest weight above what is expected from its position "
        f"is {found.share.weight:.2f} ({found.share.chance:.2f} expected)."
    )


def _by_chance(found: Found) -> str:
    return f"{found.share.weight:.2f} ({found.share.chance:.2f} by chance)"


def _gives(found: Found, labels: Sequence[str]) -> str:
    query, key = (f"{i} {quoted(shortened(labels[i], LONGEST_TOKEN))}" for i in (found.query, found.key))
    return f"Query {query} gives {printed(found.weight)} of its weight to key {key}"
