"""One-click texts, each chosen to make one thing visible."""

from __future__ import annotations

from attnviz.session.settings import DEFAULT_TEXT

EXAMPLES: dict[str, str] = {
    "a phrase said twice": DEFAULT_TEXT,
    "a pronoun": "Alice gave the book to the Queen because she had asked for it, and then she went home to her sister.",
    "brackets": "He asked ( and nobody knew why ( not even the King ) ) whether the door ( the small one ) was open.",
    "a list": "One day she bought apples, pears, plums, apples, pears, plums, apples, pears, and plums.",
    "code": "for i in range(10):\n    total = total + i\n    print(i, total)\n",
    "中文": "小女孩在花园里找到一个红色的球。小女孩在花园里找到一个红色的球。",
    "emoji": "The cat 🐈 saw the dog 🐕 and the cat 🐈 ran up the tree 🌳 👩‍👩‍👧 away from the dog 🐕.",
}
