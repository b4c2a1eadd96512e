"""python -m attnviz.practice: write a task's skeleton, or judge a file; --help says more.

The file runs in a process of its own, with limits on time (20 s) and memory (2 GiB). These protect from accidents, not
from an attacker: judge your own code.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import textwrap
import time
from pathlib import Path

from attnviz.practice.judge import Verdict, judge, task_named_in
from attnviz.practice.task import Task
from attnviz.practice.tasks import TASKS


def main(arguments: list[str] | None = None) -> int:
    """Return the exit code: 0 where everything passed, 1 where a check failed, 2 where nothing could be judged."""
    args = _parser().parse_args(arguments)
    if args.command == "new":
        return new(TASKS[args.task], args.folder)
    if args.command == "tasks":
        print("\n".join(f"{task.name:<15} {task.title}" for task in TASKS.values()))
        return 0
    name = args.task or task_named_in(args.file)
    if name not in TASKS:
        said = f"{args.file} names no task" if name is None else f"There is no task {name!r}"
        print(f"{said}: give --task, one of {', '.join(TASKS)}.", file=sys.stderr)
        return 2
    return watch(args.file, TASKS[name], args.seed) if args.watch else check(args.file, TASKS[name], args.seed)


def new(task: Task, folder: Path) -> int:
    """Write the task's skeleton; a file that is there already is left alone."""
    file = folder / task.file
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with file.open("x", encoding="utf-8") as written:
            written.write(task.source())
    except FileExistsError:
        print(f"{file} is there already and was left as it is.", file=sys.stderr)
        return 2
    print(f"{file}: {task.title}. Write it, then: python -m attnviz.practice check {file}")
    return 0


def check(file: Path, task: Task, seed: int | None = None) -> int:
    """Judge the file once and print the verdict."""
    verdict = judge(file, task, seed)
    print(told(file, task, verdict))
    return 0 if verdict.passed else 1 if verdict.checks else 2


def watch(file: Path, task: Task, seed: int | None = None) -> int:
    """Judge the file at every save, until Ctrl-C."""
    before, code = None, 2
    print(f"Watching {file}; Ctrl-C ends.")
    try:
        while True:
            now = file.stat().st_mtime_ns if file.exists() else None
            if now != before:
                before, code = now, check(file, task, seed)
            time.sleep(0.3)
    except KeyboardInterrupt:
        return code


def told(file: Path, task: Task, verdict: Verdict) -> str:
    """The verdict as text: a table of checks, the mistake where it is known, what the file printed."""
    width = max(40, shutil.get_terminal_size((110, 24)).columns - 20)
    lines = [f"{task.title} ({task.name}): {file}", ""]
    for row in verdict.checks:
        lines.append(f"{'pass' if row.passed else 'FAIL'}  {row.label}")
        lines.append(f"      expected  {row.expected}")
        lines += textwrap.wrap(row.came, width, initial_indent="      came      ", subsequent_indent=" " * 16)
    passed = sum(row.passed for row in verdict.checks)
    if verdict.problem:
        lines += ["", *textwrap.wrap(verdict.problem, width + 16)]
    if verdict.checks:
        lines += ["", f"{passed} of {len(verdict.checks)} checks passed. The same inputs again: --seed {verdict.seed}"]
    if verdict.mistaken:
        lines += textwrap.wrap(f"Your output equals ours {verdict.mistaken.says}.", width + 16)
        if verdict.mistaken.mistake:
            lines.append(f"In the app: mistakes?mistake={verdict.mistaken.mistake}")
    if verdict.printed.strip():
        shown = verdict.printed.strip().splitlines()[-20:]
        lines += ["", "The file printed (last lines):", *(f"  | {line[:200]}" for line in shown)]
    return "\n".join(lines)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m attnviz.practice", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    write = commands.add_parser("new", help="write the skeleton of a task")
    write.add_argument("task", choices=tuple(TASKS))
    write.add_argument("--folder", type=Path, default=Path("practice"), help="where to (default: practice)")
    judged = commands.add_parser("check", help="judge a file; exit code 0 only if all checks pass")
    judged.add_argument("file", type=Path)
    judged.add_argument("--task", choices=tuple(TASKS), help="the task, where the file does not name it")
    judged.add_argument("--watch", action="store_true", help="judge at every save")
    judged.add_argument("--seed", type=int, help="draw the inputs of an earlier verdict again")
    commands.add_parser("tasks", help="list the tasks")
    return parser


if __name__ == "__main__":
    sys.exit(main())
