"""Load test: many users at once, then a quiet half hour; counts and ratios as a table and one line of JSON."""

import argparse
import asyncio
import json
import os
import random
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import psutil

from tests.bench.bounds import row
from tests.browser.server import Server, serve
from tests.soak.people import BUSY, PAGES, Seen, alone, together, words_for

AT_MOST = {
    "errors": 0,
    "texts of others": 0,
    "p95 of a change / its median alone": 35.0,
    "peak memory, MB": 690,
    "memory after the quiet time / before": 1.05,
}
CHANGES_ALONE = 20  # on each page
QUIET = (10.0, 30.0)  # seconds from one change to the next
QUIET_SESSIONS = 4
WARM_UP = 0.2  # share of the quiet time in which sessions of the crowd expire


def main() -> None:
    options = arguments()
    with serve(under=on_one_core()) as server:
        results = asyncio.run(measured(server, options))
    print(json.dumps({name: round(value, 3) for name, value in results.items()}))
    sys.exit(any(results[name] > most for name, most in AT_MOST.items() if name in results))


def on_one_core() -> Sequence[str]:
    """Return a command prefix that pins the server to the first core, and pin this process and its browsers to the
    others; empty if there is only one core."""
    first, *others = sorted(os.sched_getaffinity(0))
    if not others:
        return ()
    os.sched_setaffinity(0, others)
    return "taskset", "--cpu-list", str(first)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5, help="of the crowd")
    parser.add_argument("--people", type=int, default=40)
    parser.add_argument("--browsers", type=int, default=4, help="of the people")
    parser.add_argument("--quiet-minutes", type=float, default=30)
    return parser.parse_args()


async def measured(server: Server, options: argparse.Namespace) -> dict[str, float]:
    """Measure first one user, then the crowd, then one user again, then a few.

    Machines vary in speed: half of the single user's times are measured before the crowd, and half after it.
    """
    words = words_for(options.people)
    first, crowd = Seen(words), Seen(words)
    await alone(server.url, CHANGES_ALONE, first, random.Random(0))
    used = processor_seconds(server)
    await together(server.url, options.people - options.browsers, options.browsers, options.minutes, BUSY, crowd)
    each, peak = (processor_seconds(server) - used) / crowd.n_changes, memory(server, "VmHWM")
    await alone(server.url, CHANGES_ALONE, first, random.Random(1))
    results = compared(first, crowd) | {"processor time / change, ms": 1000 * each, "peak memory, MB": peak}
    print_results(results)
    if options.quiet_minutes:
        results |= print_results(await quiet(server, options.quiet_minutes, crowd))
    for line in sorted(set(crowd.wrong + crowd.foreign))[:20]:
        print(line, file=sys.stderr)
    wrong = crowd.wrong + server.tracebacks()
    return results | print_results({"errors": len(wrong), "texts of others": len(crowd.foreign)})


def print_results(results: dict[str, float]) -> dict[str, float]:
    """Print results as they arrive and return all of them."""
    for name, value in results.items():
        print(row(name, value, AT_MOST.get(name)), flush=True)
    return results


def compared(first: Seen, crowd: Seen) -> dict[str, float]:
    """Return how much longer a change takes in the crowd than alone, relative to its page's median alone."""
    results, slower = {"changes": crowd.n_changes, "changes in browsers": crowd.n_in_browsers}, []
    results["MB sent / change"] = crowd.n_bytes / 1e6 / crowd.n_changes
    for page, times in in_proportion(first.seconds, crowd.seconds).items():
        slower += times
        results[f"  {page or 'front'}: alone, ms"] = 1000 * median(first.seconds[page])
        results[f"  {page or 'front'}: p95 / that"] = p95(times)
    return results | {
        "median of a change / its median alone": median(slower),
        "p95 of a change / its median alone": p95(slower),
        "p95 of opening a page / its median alone": p95(sum(in_proportion(first.opened, crowd.opened).values(), [])),
    }


def in_proportion(alone: dict[str, list[float]], crowd: dict[str, list[float]]) -> dict[str, list[float]]:
    """Return the crowd's seconds by page, divided by the page's median alone; pages in order."""
    return {page: [seconds / median(alone[page]) for seconds in crowd[page]] for page in PAGES if page in crowd}


def p95(values: list[float]) -> float:
    return sorted(values)[int(0.95 * (len(values) - 1))]


async def quiet(server: Server, minutes: float, seen: Seen) -> dict[str, float]:
    """Run a few slow users; compare memory at the end with memory after the crowd's sessions expired."""
    people = together(server.url, QUIET_SESSIONS, 0, minutes, QUIET, seen)
    samples = [asyncio.create_task(sampled(server, share * 60 * minutes)) for share in (WARM_UP, 0.99)]
    await people
    before, after = await asyncio.gather(*samples)
    return {"memory before, MB": before, "memory after the quiet time / before": after / before}


async def sampled(server: Server, seconds: float) -> float:
    await asyncio.sleep(seconds)
    return memory(server, "VmRSS")


def processor_seconds(server: Server) -> float:
    """Return the processor time that the server has used, which does not depend on how long its users wait."""
    times = psutil.Process(server.pid).cpu_times()
    return times.user + times.system


def memory(server: Server, what: str) -> float:
    """Return the server's memory in MB: VmRSS is current, VmHWM is the peak."""
    status = Path(f"/proc/{server.pid}/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith(what))) / 1000


if __name__ == "__main__":
    main()
