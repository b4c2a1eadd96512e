"""The queue semaphore: limit on concurrent work, and queue position reported to waiting callers."""

from threading import Event, Thread
from time import monotonic, sleep

import pytest

from attnviz.compute import queue
from attnviz.compute.queue import ON_WAIT, QueueSemaphore


@pytest.fixture
def short_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue, "REPORT_EVERY", 0.02)


class Worker(Thread):
    """Thread that holds the semaphore until `done` is set; `reported` has the queue positions it received."""

    def __init__(self, semaphore: QueueSemaphore) -> None:
        super().__init__(daemon=True)
        self.semaphore, self.reported, self.works, self.done = semaphore, [], Event(), Event()

    def run(self) -> None:
        ON_WAIT.set(self.reported.append)
        with self.semaphore.slot():
            self.works.set()
            self.done.wait(10)


def wait_for(condition) -> None:
    end = monotonic() + 10
    while not condition():
        assert monotonic() < end, "waited in vain"
        sleep(0.002)


def queued_workers(n: int, at_once: int = 1) -> list[Worker]:
    """Start n workers: the first `at_once` hold the semaphore, the others wait in this order."""
    semaphore, workers = QueueSemaphore(at_once), []
    for i in range(n):
        workers.append(Worker(semaphore))
        workers[-1].start()
        wait_for(workers[-1].works.is_set if i < at_once else lambda i=i: semaphore._waiting == i - at_once + 1)
    return workers


def test_waiting_callers_receive_their_queue_position_and_zero_at_the_end(short_interval) -> None:
    workers = queued_workers(3)
    wait_for(lambda: workers[1].reported[-1:] == [1] and workers[2].reported[-1:] == [2])
    for worker in workers:
        worker.done.set()
    wait_for(lambda: all(worker.works.is_set() and not worker.is_alive() for worker in workers))
    assert workers[0].reported == [] and workers[1].reported[-1] == workers[2].reported[-1] == 0


def test_at_most_at_once_workers_run() -> None:
    workers = queued_workers(4, at_once=2)
    assert [worker.works.is_set() for worker in workers] == [True, True, False, False]
    for worker in workers:
        worker.done.set()


def test_a_short_wait_is_not_reported() -> None:
    first, second = queued_workers(2)
    first.done.set()
    wait_for(second.works.is_set)
    second.done.set()
    assert second.reported == []


def test_a_callback_that_raises_leaves_the_queue(short_interval) -> None:
    (first,) = queued_workers(1)

    def leave(ahead: int) -> None:
        raise ConnectionError

    token = ON_WAIT.set(leave)
    with pytest.raises(ConnectionError), first.semaphore.slot():
        raise AssertionError("the semaphore was not free")
    ON_WAIT.reset(token)
    first.done.set()
    with first.semaphore.slot():
        assert first.semaphore._waiting == 0


def test_an_exception_releases_the_semaphore() -> None:
    semaphore = QueueSemaphore()
    with pytest.raises(ZeroDivisionError), semaphore.slot():
        1 / 0  # noqa: B018
    with semaphore.slot():
        pass
