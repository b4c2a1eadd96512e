"""Questions of one mock interview of which none shows the answer to another.

A question about code asks about a step of attention and shows the other steps of its code. The excerpt of a mistake,
for example, has the right version of each other line of its function, and so of the other mistakes in it. Two questions
are not asked together if one shows what the other asks, or if both ask the same. A mistake that is in none of the named
steps is a step of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from attnviz.practice.drills import Question

SPLIT, SCALE, MASKING, SOFTMAX, MERGE, ORDER = "split heads", "scale", "masking", "softmax", "merge heads", "order"
VIEW, GROUPS, DIAGONAL, ROTATION = "view", "repeat KV heads", "the mask's diagonal", "rotation"
LINES = (
    SPLIT,
    SCALE,
    MASKING,
    SOFTMAX,
    MERGE,
)  # of attention, one a line
BLANKS = {  # what a line with a blank asks, by what it assigns
    "scores": SCALE, "weights": SOFTMAX, "mask": DIAGONAL, "k": GROUPS, "rotated": ROTATION, "y": MERGE,
}  # fmt: skip
SHOWN = {  # by drills that ask for a line's shape, and by the words of questions to answer aloud
    "queries_by_head": (SPLIT,), "scores": (SCALE,), "heads_joined": (MERGE,), "why-root-d": (SCALE,),
    "masks-before-the-softmax": (MASKING, "fully_masked_row"), "rope-not-on-values": ("rope_on_values",),
    "rope-layouts": (ROTATION,), "rope-and-the-cache": ("keys_rotated_twice",), "tiled-kv-heads": (GROUPS,),
}  # fmt: skip
MISTAKES = {
    "scale_by_d_model": (SCALE,), "softmax_over_queries": (SOFTMAX,), "mask_after_softmax": (MASKING,),
    "tiled_kv_heads": (GROUPS,), "reshape_without_transpose": (MERGE,), "view_after_transpose": (MERGE, VIEW),
    "causal_mask_without_offset": (DIAGONAL,), "rope_in_the_other_layout": (ROTATION,),
}  # fmt: skip
FUNCTIONS = {  # the steps in a function, by its file and name
    "modules/attention.py attend": (SCALE, MASKING, SOFTMAX, ORDER),
    "modules/attention.py forward": (SPLIT, MERGE, DIAGONAL, ORDER),
    "modules/delta.py forward": (GROUPS, MERGE), "modules/masks.py attention_mask": (DIAGONAL,),
    "modules/rope.py rotate_pairs": (ROTATION,),
}  # fmt: skip


class Steps(NamedTuple):
    """What a question asks about, and what it shows besides."""

    asks: frozenset[str]
    shows: frozenset[str] = frozenset()

    def meets(self, other: Steps) -> bool:
        """Check whether one shows what the other asks, or both ask the same."""
        return bool(self.asks & (other.asks | other.shows) or self.shows & other.asks)


def steps_of(question: Question) -> Steps:
    """Return the steps of a question about code; none for another."""
    match question.kind:
        case "wrong_line":
            asked = LINES[int(question.answer.shown()) - 1]
            return Steps(frozenset((asked,)), frozenset((*LINES, ORDER)) - {asked})
        case "lines_of_attention":
            return Steps(frozenset((ORDER,)), frozenset(LINES))
        case "line_that_raises":
            return Steps(frozenset((VIEW,)), frozenset((MERGE,)))
        case "line_that_repeats":
            return Steps(frozenset((GROUPS,)))
        case "blank_in_a_line":
            return Steps(frozenset((BLANKS[question.code.partition(" = ")[0]],)))
    return _of_mistake(question) if question.whole else shown_by(question.kind)


def shown_by(kind: str) -> Steps:
    """Return the steps of a question of this kind, or of a card, that is not about code."""
    return Steps(frozenset(), frozenset(SHOWN.get(kind, ())))


def _of_mistake(question: Question) -> Steps:
    """Return the steps of a mistake: of its function, it shows all others, also those that only a mistake names."""
    name, file = question.link[1]["mistake"], question.text.partition("attnviz/")[2].partition(",")[0]
    functions = [f"{file} {each}" for each in re.findall(r"^def (\w+)", question.whole, flags=re.MULTILINE)]
    asks = frozenset((*MISTAKES.get(name, (name,)), *functions))  # so that two mistakes of a function ask the same
    return Steps(asks, frozenset(step for each in functions for step in FUNCTIONS.get(each, ())) - asks)


def apart(groups: Iterable[Sequence[Question]], n: int, beside: Iterable[Question] = ()) -> list[Question]:
    """Return at most n questions, in the order of their groups: of each the first that meets no other, if there is one.

    beside: questions that are asked with them.
    """
    taken, chosen = [steps_of(each) for each in beside], list[Question]()
    for questions in groups:
        if len(chosen) == n:
            break
        fits = (each for each in questions if not any(map(steps_of(each).meets, taken)))
        if found := next(fits, None):
            chosen.append(found)
            taken.append(steps_of(found))
    return chosen
