"""Write a task's skeleton, or judge a file. See --help.

The file runs in a separate process with limits, which protect against accidents, not against an attacker: judge only
your own code.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from attnviz.practice.judge import judge, task_named_in, unusable
from attnviz.practice.task import CHECK, LIMITS, SECONDS, Task
from attnviz.practice.tasks import TASKS
from attnviz.practice.verdict_text import verdict_text
from attnviz.started import PRACTICE


def main(arguments: list[str] | None = None) -> int:
    """Return the exit code: 0 if all checks passed, 1 if a check failed, 2 if the file could not be judged."""
    args = _parser().parse_args(arguments)
    if args.command == "new":
        return new(TASKS[args.task], args.folder)
    if args.command == "tasks":
        print("\n".join(f"{task.name:<15} {task.title}" for task in TASKS.values()))
        return 0
    if (problem := unusable(args.file)) and not (args.watch and args.task and not args.file.is_dir()):
        print(problem, file=sys.stderr)
        return 2
    name = args.task or task_named_in(args.file)
    if name not in TASKS:
        problem = f"{args.file} does not name a task" if name is None else f"There is no task {name!r}"
        print(f"{problem}. Pass --task with one of: {', '.join(TASKS)}.", file=sys.stderr)
        return 2
    return watch(args.file, TASKS[name], args.seed) if args.watch else check(args.file, TASKS[name], args.seed)


def new(task: Task, folder: Path) -> int:
    """Write the task's skeleton. An existing file is not overwritten."""
    file = folder / task.file
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with file.open("x", encoding="utf-8") as written:
            written.write(task.source(folder.as_posix()))
    except FileExistsError:
        taken = file if file.exists() else folder  # a file stands where the folder should be
        print(f"{taken} already exists and was not changed.", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"{file} cannot be written: {error.strerror}.", file=sys.stderr)
        return 2
    print(f"{file}: {task.title}. Complete it, then run: {CHECK} {file}")
    return 0


def check(file: Path, task: Task, seed: int | None = None) -> int:
    """Judge the file once and print the verdict."""
    verdict = judge(file, task, seed, tick=_progress if sys.stderr.isatty() else None)
    print(verdict_text(str(file), task, verdict))
    return 0 if verdict.passed else 1 if verdict.checks else 2


def _progress(so_far: float, at: str) -> None:
    """Show on one line of the terminal what runs, from the first second on; the verdict is written over it."""
    if so_far > 1:
        print(f"\r\x1b[K{at[:60]}, {so_far:.0f} s of at most {SECONDS:.0f} s\r", end="", file=sys.stderr, flush=True)


def watch(file: Path, task: Task, seed: int | None = None) -> int:
    """Judge the file after every save, until Ctrl-C."""
    before, code = None, 2
    print(f"Watching {file}. Press Ctrl-C to stop.")
    try:
        while True:
            now = file.stat().st_mtime_ns if file.exists() else None
            if now != before:
                before, code = now, check(file, task, seed)
            time.sleep(0.3)
    except KeyboardInterrupt:
        return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=PRACTICE, description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    write = commands.add_parser("new", help="write the skeleton of a task to a file")
    write.add_argument("task", choices=tuple(TASKS))
    write.add_argument("--folder", type=Path, default=Path("practice"), help="target folder (default: practice)")
    judged = commands.add_parser("check", help=f"judge a file ({LIMITS}); the exit code is 0 only if all checks pass")
    judged.add_argument("file", type=Path)
    judged.add_argument("--task", choices=tuple(TASKS), help="the task, if the file does not name it")
    judged.add_argument("--watch", action="store_true", help="judge the file again after every save")
    judged.add_argument("--seed", type=int, help="repeat the inputs of an earlier verdict")
    commands.add_parser("tasks", help="list the tasks")
    return parser


if __name__ == "__main__":
    sys.exit(main())
