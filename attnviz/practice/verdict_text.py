"""A verdict as text, for a terminal or a notebook."""

from __future__ import annotations

import shutil
import textwrap

from attnviz.practice.judge import Verdict
from attnviz.practice.task import Task

APP = "http://localhost:8501"  # Streamlit's default port


def verdict_text(where: str, task: Task, verdict: Verdict) -> str:
    """Format the verdict: the checks, the mistake if it is a known one, and the file's output."""
    width = max(40, shutil.get_terminal_size((110, 24)).columns - 20)
    lines = [f"{task.title} ({task.name}): {where}", ""]
    for row in verdict.checks:
        lines.append(f"{'pass' if row.passed else 'FAIL'}  {row.label}")
        lines.append(f"      expected  {row.expected}")
        lines += textwrap.wrap(row.got, width, initial_indent="      got       ", subsequent_indent=" " * 16)
    passed = sum(row.passed for row in verdict.checks)
    if verdict.problem:
        lines += ["", *textwrap.wrap(verdict.problem, width + 16)]
    if verdict.checks:
        lines += ["", f"{passed} of {len(verdict.checks)} checks passed. To repeat these inputs: --seed {verdict.seed}"]
    if verdict.diagnosis:
        lines += textwrap.wrap(verdict.diagnosis.sentence, width + 16)
        lines += [f"With the app running: {APP}/mistakes?mistake={id}" for id in verdict.diagnosis.mistakes]
    if verdict.pattern:
        lines += textwrap.wrap(verdict.pattern, width + 16)
    if verdict.printed.strip():
        shown = verdict.printed.strip().splitlines()[-20:]
        lines += ["", "Output of the file (last 20 lines):", *(f"  | {line[:200]}" for line in shown)]
    return "\n".join(lines)
