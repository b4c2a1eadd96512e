"""Asynchronous code in tests that are not."""

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor


def result_of(work: Coroutine) -> object:
    """What it returns, run in a thread of its own: playwright's loop may be running in this one."""
    with ThreadPoolExecutor() as another_thread:
        return another_thread.submit(asyncio.run, work).result()
