"""Few at once; who waits is told how many are before."""

from threading import Event, Thread
from time import monotonic, sleep

import pytest

from attnviz.compute import queue
from attnviz.compute.queue import TELL, Turns


@pytest.fixture
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue, "PATIENCE", 0.02)


class Person(Thread):
    """Works for as long as `done` is not set; notes what was told meanwhile."""

    def __init__(self, turns: Turns) -> None:
        super().__init__(daemon=True)
        self.turns, self.told, self.works, self.done = turns, [], Event(), Event()

    def run(self) -> None:
        TELL.set(self.told.append)
        with self.turns.turn():
            self.works.set()
            self.done.wait(10)


def wait_for(condition) -> None:
    end = monotonic() + 10
    while not condition():
        assert monotonic() < end, "waited in vain"
        sleep(0.002)


def in_line(n: int, at_once: int = 1) -> list[Person]:
    """People of whom the first `at_once` work and the others wait, in this order."""
    turns, people = Turns(at_once), []
    for i in range(n):
        people.append(Person(turns))
        people[-1].start()
        wait_for(people[-1].works.is_set if i < at_once else lambda i=i: turns._waiting == i - at_once + 1)
    return people


def test_who_waits_is_told_how_many_are_before_and_when_it_is_their_turn(hurry) -> None:
    people = in_line(3)
    wait_for(lambda: people[1].told[-1:] == [1] and people[2].told[-1:] == [2])
    for person in people:
        person.done.set()
    wait_for(lambda: all(person.works.is_set() and not person.is_alive() for person in people))
    assert people[0].told == [] and people[1].told[-1] == people[2].told[-1] == 0


def test_as_many_work_as_may() -> None:
    people = in_line(4, at_once=2)
    assert [person.works.is_set() for person in people] == [True, True, False, False]
    for person in people:
        person.done.set()


def test_a_short_wait_is_not_spoken_of() -> None:
    first, second = in_line(2)
    first.done.set()
    wait_for(second.works.is_set)
    second.done.set()
    assert second.told == []


def test_who_leaves_gives_up_the_place(hurry) -> None:
    (first,) = in_line(1)

    def leave(before: int) -> None:
        raise ConnectionError

    token = TELL.set(leave)
    with pytest.raises(ConnectionError), first.turns.turn():
        raise AssertionError("it was not our turn")
    TELL.reset(token)
    first.done.set()
    with first.turns.turn():
        assert first.turns._waiting == 0


def test_work_that_fails_ends_its_turn() -> None:
    turns = Turns()
    with pytest.raises(ZeroDivisionError), turns.turn():
        1 / 0  # noqa: B018
    with turns.turn():
        pass
