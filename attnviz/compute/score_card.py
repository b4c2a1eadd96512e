"""The score card of the Practice page, to be saved or printed."""

from __future__ import annotations

import re
from html import escape

from attnviz.compute.practice import Attempt, orders, pages_to_review, shown, subject_name, tallies
from attnviz.figures import theme

STYLE = """
body { font: 11pt/1.45 system-ui, sans-serif; max-width: 46em; margin: 2em auto; padding: 0 1em; color: #131417; }
table { border-collapse: collapse; } td, th { border: 1px solid #bbb; padding: .25em .8em; text-align: left; }
pre { white-space: pre-wrap; background: #f1f1ee; padding: .5em .8em; }
section { break-inside: avoid; border-top: 1px solid #bbb; margin-top: 1em; }
"""


def _said(text: str) -> str:
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def card(attempt: Attempt) -> str:
    """Return the score card as a stand-alone HTML page."""
    grades = attempt.grades()
    rows = "".join(f"<tr><td>{subject_name(t.subject)}<td>{t.right}<td>{t.asked}</tr>" for t in tallies(attempt))
    again = "".join(
        f"<li>{escape(subject)}: {escape(', '.join(name for name, _ in places))}"
        for subject, places in pages_to_review(attempt)
    )
    parts = [
        f"<h1>AttnViz practice: {sum(g.right for g in grades)} of {len(grades)} right</h1>",
        f"<table><tr><th>Subject<th>Right<th>Asked</tr>{rows}</table>",
        f"<h2>To look at again</h2><ul>{again}</ul>" if again else "",
    ]
    for i, (question, given, grade) in enumerate(zip(attempt.questions, attempt.given, grades, strict=True), 1):
        verdict = "Right" if grade.right else "Wrong" if given else "Not answered"
        colour = theme.RIGHT if grade.right else theme.WRONG
        code = [question.code or "\n".join(getattr(question.answer, "items", ()))]
        code += [f"{title}:\n{lines}" for title, lines in orders(question, given).items()]
        code += ["\n".join(each.text() for each in question.solution)]
        first, *others = (f"<pre>{escape(each)}</pre>" if each else "" for each in code)
        parts.append(
            f'<section><h3>{i}. <span style="color: {colour}">{verdict}</span></h3>'
            f"<p>{_said(question.text)}</p>{first}"
            f"<p>Given: {escape(shown(question, given))}. {_said(grade.explanation if grade.read else '')}</p>"
            f"<p>Answer: <b>{escape(question.answer.shown())}</b>. {_said(question.because)}</p>"
            f"{''.join(others)}</section>"
        )
    head = f'<meta charset="utf-8"><title>AttnViz practice</title><style>{STYLE}</style>'
    return f'<!doctype html><html lang="en"><head>{head}</head><body>{"".join(parts)}</body></html>'
