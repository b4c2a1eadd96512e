"""Run asynchronous code in synchronous tests."""

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor


def result_of(work: Coroutine) -> object:
    """Return a coroutine's result, run in a separate thread: playwright's loop may be running in this one."""
    with ThreadPoolExecutor() as another_thread:
        return another_thread.submit(asyncio.run, work).result()
