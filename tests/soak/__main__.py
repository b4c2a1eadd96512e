"""A room full of people, then a quiet half hour: counts and ratios of one run, as a table and one line of JSON."""

import argparse
import asyncio
import json
import os
import random
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from tests.bench.bounds import judged
from tests.browser.server import Server, serve
from tests.soak.people import BUSY, PAGES, Seen, alone, together, words_for

AT_MOST = {
    "errors": 0,
    "texts of others": 0,
    "p95 of a change / its median alone": 15.0,
    "peak memory, MB": 690,
    "memory after the quiet time / before": 1.05,
}
CHANGES_ALONE = 20  # on each page
QUIET = (10.0, 30.0)  # seconds from one change to the next
QUIET_SESSIONS = 4
WARM_UP = 0.2  # of the quiet time: what the crowd left behind is dropped meanwhile


def main() -> None:
    options = arguments()
    with serve(under=on_one_core()) as server:
        results = asyncio.run(measured(server, options))
    print(json.dumps({name: round(value, 3) for name, value in results.items()}))
    sys.exit(any(results[name] > most for name, most in AT_MOST.items() if name in results))


def on_one_core() -> Sequence[str]:
    """A command that gives a server the first core, as its host would, where there are others for the people; this
    process and the browsers that it will start keep to those."""
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
    """First one person, then the crowd, then one person again, then a few.

    Machines are slower at times: half of what one person waits is measured before the crowd, and half after it.
    """
    words = words_for(options.people)
    first, crowd = Seen(words), Seen(words)
    await alone(server.url, CHANGES_ALONE, first, random.Random(0))
    await together(server.url, options.people - options.browsers, options.browsers, options.minutes, BUSY, crowd)
    peak = memory(server, "VmHWM")
    await alone(server.url, CHANGES_ALONE, first, random.Random(1))
    results = told(compared(first, crowd) | {"peak memory, MB": peak})
    if options.quiet_minutes:
        results |= told(await quiet(server, options.quiet_minutes, crowd))
    for line in sorted(set(crowd.wrong + crowd.foreign))[:20]:
        print(line, file=sys.stderr)
    wrong = crowd.wrong + server.tracebacks()
    return results | told({"errors": len(wrong), "texts of others": len(crowd.foreign)})


def told(results: dict[str, float]) -> dict[str, float]:
    """The results, printed as soon as they are there."""
    for name, value in results.items():
        print(f"{name:40}{value:10.2f}{judged(value, AT_MOST.get(name))}", flush=True)
    return results


def compared(first: Seen, crowd: Seen) -> dict[str, float]:
    """How much longer a change takes in the crowd than alone, each put against the median of its page alone."""
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
    """The crowd's seconds by page, each over the median of its page alone; pages in their order."""
    return {page: [seconds / median(alone[page]) for seconds in crowd[page]] for page in PAGES if page in crowd}


def p95(values: list[float]) -> float:
    return sorted(values)[int(0.95 * (len(values) - 1))]


async def quiet(server: Server, minutes: float, seen: Seen) -> dict[str, float]:
    """A few people who take their time; memory at the end put against memory when the crowd has been forgotten."""
    people = together(server.url, QUIET_SESSIONS, 0, minutes, QUIET, seen)
    samples = [asyncio.create_task(sampled(server, share * 60 * minutes)) for share in (WARM_UP, 0.99)]
    await people
    before, after = await asyncio.gather(*samples)
    return {"memory before, MB": before, "memory after the quiet time / before": after / before}


async def sampled(server: Server, seconds: float) -> float:
    await asyncio.sleep(seconds)
    return memory(server, "VmRSS")


def memory(server: Server, what: str) -> float:
    """MB of the server's process: VmRSS now, VmHWM at most so far."""
    status = Path(f"/proc/{server.pid}/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith(what))) / 1000


if __name__ == "__main__":
    main()
