"""The Practice page. The ids of the cards are read from their files' headings, as a link may name one."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from attnviz.exercises import SPOKEN, SUBJECTS, TASKS
from attnviz.session.kinds import Choice, Number, setting
from attnviz.session.page import Element, Page

_FILES = Path(__file__).parents[2] / "practice" / "spoken"
CARDS = tuple(
    id
    for subject in SPOKEN
    for id in re.findall(r"^## (\S+)$", (_FILES / f"{subject}.md").read_text(encoding="utf-8"), re.MULTILINE)
)
DUE = "due"  # in place of a subject: the cards that are due today

PAGE = Page(
    "practice", "pages/8_practice.py", "Practice",
    "Questions from live tensors and published models, graded by computation, questions to answer aloud, and code to "
    "write yourself.",
    tabs={
        "drills": "Drills", "aloud": "Aloud", "interview": "Mock interview", "due": "Due today",
        "write": "Write it yourself",
    },
    elements=(
        Element("practice-drills", "tabs", "The drills", "drills", drawing=False),
        Element("practice-aloud", "tabs", "A question to answer aloud", "aloud", drawing=False),
        Element("practice-interview", "tabs", "The mock interview", "interview", drawing=False),
        Element("practice-due", "tabs", "What is due today", "due", drawing=False),
        Element("practice-write", "tabs", "A task to write yourself", "write", drawing=False),
    ),
    lines={"write": "own_step"},
    needs_text=False,
    purpose="Prepare",
)  # fmt: skip


@dataclass(frozen=True)
class PracticeSettings:
    """Settings of the Practice page."""

    subject: str = setting("", Choice(("", *SUBJECTS)))  # of the questions; "": all
    level: int = setting(2, Number(1, 3))  # highest difficulty of the questions
    questions: int = setting(10, Number(1, 50))  # in a set
    minutes: int = setting(0, Number(0, 120))  # for a set; 0: no limit
    question_set: int = setting(1, Number(0, 999_999))  # seed of the set, equal for everyone with the link
    interview: str = setting("", Choice(("", "15", "30", "60")))  # minutes of the mixed one; "": ten computed questions
    deck: str = setting("", Choice(("", DUE, *SPOKEN)))  # which questions are asked aloud; "": all
    card: str = setting("", Choice(("", *CARDS)))  # the question to answer aloud; "": the one that comes next
    task: str = setting("gqa", Choice(tuple(TASKS)))  # to write yourself
    own_step: int = setting(0, Number(0, 9_999))  # the line of the walk through the user's own file
