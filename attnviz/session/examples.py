"""Example texts of the sidebar, and the pattern that each one shows."""

from __future__ import annotations

from attnviz.session.shared import DEFAULT_TEXT

EXAMPLES: dict[str, str] = {
    "a repeated phrase": DEFAULT_TEXT,
    "a pronoun": "Alice gave the book to the Queen because she had asked for it, and then she went home to her sister.",
    "brackets": "He asked ( and nobody knew why ( not even the King ) ) whether the door ( the small one ) was open.",
    "a list": "One day she bought apples, pears, plums, apples, pears, plums, apples, pears, and plums.",
    "code": "for i in range(10):\n    total = total + i\n    print(i, total)\n",
    "中文": "小女孩在花园里找到一个红色的球。小女孩在花园里找到一个红色的球。",
    "emoji": "The cat 🐈 saw the dog 🐕 and the cat 🐈 ran up the tree 🌳 👩‍👩‍👧 away from the dog 🐕.",
}
PRONOUN, BRACKETS = "pronoun", "brackets"  # patterns that are not a role
LOOK_FOR = {  # the pattern of each example: a role of `attnviz.analysis.roles`, or one of the two above
    "a repeated phrase": "induction",
    "a pronoun": PRONOUN,
    "brackets": BRACKETS,
    "a list": "induction",
    "code": "induction",
    "中文": "induction",
    "emoji": "previous token",
}
NAMES = ("Alice", "Queen")  # possible referents of the first "she" in the pronoun example


def example_of(text: str) -> str | None:
    """Return the name of the example with this text, or None."""
    return next((name for name, each in EXAMPLES.items() if each == text), None)
