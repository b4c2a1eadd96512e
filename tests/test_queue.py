"""pytest tests/test_queue.py: one at a time, in the order of coming or being due, all told how many are before."""

from contextlib import nullcontext
from threading import Event, Thread
from time import monotonic, sleep

import pytest
from streamlit.testing.v1 import AppTest

from attnviz.experiments import rope_equalities as rope_proofs
from attnviz.ui import groups_runs, heads_runs, queue, rope_runs, state
from attnviz.ui.byte_cache import ByteCache
from attnviz.ui.frame import PAGES, View
from attnviz.ui.queue import Queue, Turns
from attnviz.ui.runs import place_in_line
from attnviz.ui.settings import Choice, Settings
from tests.test_pages import opened


@pytest.fixture
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue, "PATIENCE", 0.02)


class Person(Thread):
    """Works for as long as `done` is not set; notes what was told meanwhile."""

    def __init__(self, line: Queue, order: list["Person"]) -> None:
        super().__init__(daemon=True)
        self.line, self.order, self.told, self.done = line, order, [], Event()

    def run(self) -> None:
        with self.line.turn(self.told.append):
            self.order.append(self)
            self.done.wait(10)

    def comes(self, n_before: int) -> "Person":
        """Start, and wait until it is in the line."""
        self.start()
        while len(self.line._line) <= n_before:
            sleep(0.001)
        return self


def wait_for(condition) -> None:
    end = monotonic() + 10
    while not condition():
        assert monotonic() < end, "waited in vain"
        sleep(0.002)


def test_who_waits_is_told_how_many_are_before_and_when_it_is_their_turn(hurry) -> None:
    line, order = Queue(), []
    people = [Person(line, order).comes(i) for i in range(3)]
    wait_for(lambda: people[1].told[-1:] == [1] and people[2].told[-1:] == [2])
    people[0].done.set()
    wait_for(lambda: people[1].told[-1] == 0 and people[2].told[-1] == 1)
    people[1].done.set()
    people[2].done.set()
    wait_for(lambda: order == people)
    assert people[0].told == []
    assert people[2].told == sorted(people[2].told, reverse=True)
    assert people[2].told[-1] == 0


def test_a_short_wait_is_not_spoken_of() -> None:
    line, order = Queue(), []
    first = Person(line, order).comes(0)
    second = Person(line, order).comes(1)
    first.done.set()
    wait_for(lambda: order == [first, second])
    second.done.set()
    assert second.told == []


def test_who_leaves_gives_up_the_place(hurry) -> None:
    line, order = Queue(), []
    first = Person(line, order).comes(0)

    def leave(before: int) -> None:
        raise ConnectionError

    with pytest.raises(ConnectionError), line.turn(leave):
        raise AssertionError("it was not our turn")
    third = Person(line, order).comes(1)
    wait_for(lambda: third.told[-1:] == [1])
    first.done.set()
    wait_for(lambda: order == [first, third])
    third.done.set()


def test_work_that_fails_ends_its_turn() -> None:
    line = Queue()
    with pytest.raises(ZeroDivisionError), line.turn():
        1 / 0  # noqa: B018
    with line.turn():
        pass


def test_nobody_waits_for_what_is_kept_already(hurry) -> None:
    cache, told = ByteCache(10), []
    kept = cache.get("k", lambda: memoryview(b"1"))
    working, done = Event(), Event()

    def slow() -> memoryview:
        working.set()
        done.wait(10)
        return memoryview(b"2")

    other = Thread(target=lambda: cache.get("slow", slow))
    other.start()
    working.wait(10)
    assert cache.get("k", lambda: memoryview(b"3"), told.append) is kept
    done.set()
    other.join()
    assert told == []


def test_the_sentence_says_how_many() -> None:
    assert place_in_line(1) == "1 run is before yours …"
    assert place_in_line(12) == "12 runs are before yours …"


def test_the_page_says_it_while_one_waits_and_not_afterwards(hurry, monkeypatch: pytest.MonkeyPatch) -> None:
    """One script waits for a computation of somebody else's; what it shows meanwhile is noted as it is written."""
    from attnviz.ui import runs

    said, done, working = [], Event(), Event()
    monkeypatch.setattr(runs, "_results", ByteCache(10))
    monkeypatch.setattr(runs, "place_in_line", lambda before: (said.append(before), place_in_line(before))[1])

    def slow() -> memoryview:
        working.set()
        done.wait(10)
        return memoryview(b"2")

    def script() -> None:
        import streamlit as st

        from attnviz.ui import runs

        st.write(len(runs.kept("ours", lambda: memoryview(b"abc"))))

    other = Thread(target=lambda: runs._results.get("somebody's", slow))
    other.start()
    working.wait(10)
    waited = Thread(target=lambda: (wait_for(lambda: said), done.set()))
    waited.start()
    app = AppTest.from_function(script).run(timeout=20)
    for thread in (other, waited):
        thread.join()
    assert said[0] == 1 and said[-1] == 0
    assert [element.value for element in app.markdown] == ["`3`"] and not app.caption


def test_who_is_due_first_goes_first_but_interrupts_nobody() -> None:
    line, order = Queue(at_once=2), []
    working = [line.enter(due=5.0), line.enter(due=9.0)]

    def wait(due: float) -> None:
        place = line.enter(due=due)
        order.append((due, len(order)))
        line.leave(place)

    for n, due in enumerate((3.0, 7.0, 1.0, 3.0), 3):
        Thread(target=wait, args=(due,), daemon=True).start()
        wait_for(lambda n=n: len(line._line) == n)
    assert [place.due for place in line._line] == [5.0, 9.0, 1.0, 3.0, 3.0, 7.0]
    line.leave(working[1])
    wait_for(lambda: len(order) == 4)
    assert [due for due, _ in order] == [1.0, 3.0, 3.0, 7.0] and line._line == [working[0]]


# ---- turns


class Worker(Thread):
    """Takes a turn, notes when it begins and ends, and works for as long as `done` is not set."""

    def __init__(self, turns: Turns, notes: list[str], name: str, kind: str = "") -> None:
        super().__init__(daemon=True, name=name)
        self.turns, self.notes, self.kind, self.done = turns, notes, kind, Event()

    def run(self) -> None:
        with self.turns.mine(self.kind):
            self.notes.append(f"{self.name} begins")
            with self.turns.mine():  # a part inside a part
                self.done.wait(10)
            self.notes.append(f"{self.name} ends")


def test_threads_work_one_after_the_other_in_the_order_of_coming() -> None:
    turns, notes = Turns(), []
    workers = [Worker(turns, notes, name) for name in "abc"]
    for n, worker in enumerate(workers, 1):
        worker.start()
        wait_for(lambda n=n: len(turns._queue._line) == n)
    for worker in reversed(workers):  # whoever could go on first
        worker.done.set()
    wait_for(lambda: len(notes) == 6)
    assert notes == ["a begins", "a ends", "b begins", "b ends", "c begins", "c ends"]


def order_of(turns: Turns, clock: list[float], comings: list[tuple[float, str]]) -> str:
    """In which order these kinds of work get their turn, which come at these times while somebody works."""
    notes, workers = [], [Worker(turns, [], kind, kind) for _, kind in comings]
    with turns.mine("first"):
        for n, (worker, (time, _)) in enumerate(zip(workers, comings, strict=True), 2):
            clock[0], worker.notes = time, notes
            worker.done.set()
            worker.start()
            wait_for(lambda n=n: len(turns._queue._line) == n)
    wait_for(lambda: len(notes) == 2 * len(workers))
    return "".join(note[0] for note in notes[::2])


def test_quick_work_goes_first_and_slow_work_waits_no_longer_than_in_proportion(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    turns, clock = Turns(), [0.0]
    monkeypatch.setattr(queue, "monotonic", lambda: clock[0])
    for kind, seconds in (("slow", 2.0), ("quick", 0.1)):
        with turns.mine(kind):
            clock[0] += seconds
    due = queue.FAIR * 2.0  # when the slow one is, that came at 0
    assert order_of(turns, clock, [(0.0, "slow"), (1.0, "quick"), (2.0, "quick")]) == "qqs"
    assert order_of(turns, clock, [(0.0, "slow"), (1.0, "quick"), (due, "quick")]) == "qsq"
    assert order_of(turns, clock, [(0.0, "slow"), (0.0, "unknown")]) == "us"  # before anybody knows, it counts as quick


def test_a_page_that_is_opened_lets_changes_go_first_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    turns, clock = Turns(), [0.0]
    monkeypatch.setattr(queue, "monotonic", lambda: clock[0])
    notes, opening = [], Thread(target=lambda: note_turn("opened", later=state.OPENING), daemon=True)

    def note_turn(name: str, later: float = 0.0) -> None:
        with turns.mine(later=later):
            notes.append(name)

    others = [Thread(target=note_turn, args=(name,), daemon=True) for name in ("at once", "meanwhile", "too late")]
    times = (0.0, state.OPENING / 2, state.OPENING)
    with turns.mine():
        opening.start()
        wait_for(lambda: len(turns._queue._line) == 2)
        for n, (other, clock[0]) in enumerate(zip(others, times, strict=True), 3):
            other.start()
            wait_for(lambda n=n: len(turns._queue._line) == n)
    wait_for(lambda: len(notes) == 4)
    assert notes == ["at once", "meanwhile", "opened", "too late"]


def test_a_page_is_opened_once_and_its_parts_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(state.TURNS, "mine", lambda kind, later: asked.append((kind[1], later)) or nullcontext())
    opened("pages/3_rope.py")
    assert asked[0] == (state.PAGE, state.OPENING)
    assert len(asked) > 1 and not any(later for _, later in asked[1:])


def test_what_a_kind_usually_takes_follows_what_it_takes_without_the_time_it_stood_aside(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    turns, clock = Turns(), [0.0]
    monkeypatch.setattr(queue, "monotonic", lambda: clock[0])

    def work(seconds: float, beside: float) -> float:
        with turns.mine("kind"):
            clock[0] += seconds
            with turns.aside():
                clock[0] += beside
            clock[0] += seconds
        return turns._usual["kind"]

    assert work(1.5, beside=50) == 3.0
    assert work(0.0, beside=50) == pytest.approx(3.0 * (1 - queue.FORGETS))
    assert [work(0.5, beside=1) for _ in range(60)][-1] == pytest.approx(1.0, abs=1e-3)


def test_what_is_looked_at_decides_the_kind_of_work() -> None:
    """The fields exist, and the pages are called so: a wrong name would put quick and slow parts together unseen."""
    assert set(state.LOOKED_AT) == set(PAGES.values()) - {"What there is to see"}
    for field in state.LOOKED_AT.values():
        assert isinstance(Settings.__dataclass_fields__[field].metadata["kind"], Choice), field


def test_what_takes_long_steps_aside_and_takes_another_turn_afterwards() -> None:
    turns, notes = Turns(), []
    other = Worker(turns, notes, "other")
    with turns.mine():
        other.start()
        wait_for(lambda: turns._queue.awaited)
        with turns.aside():
            wait_for(lambda: notes == ["other begins"])
            with turns.aside():  # nothing to give up
                pass
            other.done.set()
        assert notes == ["other begins", "other ends"] and len(turns._queue._line) == 1
    assert turns._queue._line == []


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Its one number is the time in seconds, and sleeping moves it on."""
    now = [100.0]
    monkeypatch.setattr(queue, "monotonic", lambda: now[0])
    monkeypatch.setattr(queue, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    return now


def test_what_stands_aside_gives_way_in_proportion_to_its_step(clock) -> None:
    turns = Turns()
    with turns.mine(), turns.aside():
        other = turns._queue.enter()
        clock[0] += 7.0  # waits for something else before it begins
        give_way = turns.steps()
        for step in (2.0, 0.1):
            clock[0] += step
            before = clock[0]
            give_way()
            assert clock[0] - before == pytest.approx(queue.FAIR * step, abs=2 * queue.GLANCE)
        turns._queue.leave(other)
        clock[0] += 2.0
        before = clock[0]
        give_way()
        assert clock[0] == before  # nobody works


def test_what_stands_aside_goes_on_when_the_others_have_had_their_turn(clock, monkeypatch: pytest.MonkeyPatch) -> None:
    turns, looks = Turns(), []
    with turns.mine(), turns.aside():
        other, give_way = turns._queue.enter(), turns.steps()
        monkeypatch.setattr(queue, "sleep", lambda seconds: looks.append(seconds) or turns._queue.leave(other))
        clock[0] += 2.0
        give_way()
    assert looks == [queue.GLANCE]


def test_nobody_gives_way_in_his_own_turn(clock) -> None:
    turns = Turns()
    with turns.mine():
        give_way = turns.steps()
        clock[0] += 2.0
        give_way()
    assert clock[0] == 102.0


SLOW = Settings(window=7)
IDS = tuple(range(3, 40, 3))


@pytest.mark.parametrize(
    ("compute", "n_steps"),
    [
        (lambda: groups_runs.losses_of_sharing(SLOW, IDS), 4 * 4 - 1),  # ways, with 8, 4, 2 and 1 KV heads
        (lambda: groups_runs.drifts_of(SLOW, IDS, 2), 3),
        (lambda: groups_runs.maps_of(SLOW, IDS, 2, 0), 3),
        (lambda: heads_runs.effects_of(SLOW, IDS, lambda done: None), 4),  # layers, with all heads of one in a batch
        (lambda: rope_runs.losses(View(SLOW), IDS, rope_proofs.standard_scalings(2.0, 8)), 6),
    ],
    ids=["losses", "drifts", "maps", "effects", "methods"],
)
def test_what_takes_long_is_done_in_steps(compute, n_steps, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = []
    monkeypatch.setattr(state.TURNS, "steps", lambda: lambda: steps.append(1))
    compute()
    assert len(steps) == n_steps
    compute()
    assert len(steps) == n_steps  # it is kept


def test_an_end_in_the_middle_gives_the_turn_up() -> None:
    turns = Turns()
    for error in (ValueError, KeyboardInterrupt):  # Streamlit ends runs with what is no Exception
        with pytest.raises(error), turns.mine():
            raise error
        with pytest.raises(error), turns.mine(), turns.aside():
            raise error
    assert turns._queue._line == []


def test_a_pause_is_left_out_where_somebody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    turns, slept = Turns(), []
    monkeypatch.setattr(queue, "sleep", slept.append)
    with turns.mine():
        turns.pause(0.03)
        other = Worker(turns, [], "other")
        other.done.set()
        other.start()
        wait_for(lambda: turns._queue.awaited)
        turns.pause(0.04)
    assert slept == [0.03]
