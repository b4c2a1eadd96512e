"""Component events with arbitrary values, at arbitrary times, give valid values or nothing."""

from types import SimpleNamespace

import pytest

from attnviz.ui.components import events
from attnviz.ui.components.events import on_event, within


@pytest.mark.parametrize("value", ["b", None, 0, [1, 2]])
def test_what_the_browser_sent_is_told_on(monkeypatch, value):
    calls = []
    monkeypatch.setattr(events.st, "session_state", {"part": SimpleNamespace(choice=value)})
    on_event("part", "choice", calls.append)()
    assert calls == [value]


def test_an_event_of_a_component_that_has_left_the_page_is_nothing(monkeypatch):
    monkeypatch.setattr(events.st, "session_state", {})
    on_event("part", "choice", pytest.fail)()


HOSTILE = [
    None, 3, "", "xy", [], [1], [1, 2, 3], {}, {"a": 1}, [None, 1], ["x", 1], [[1], [2]], [1, float("nan")],
    [float("inf"), 0], object(), True, "1" * 5000,
]  # fmt: skip


@pytest.mark.parametrize("value", HOSTILE, ids=lambda value: repr(value)[:20])
@pytest.mark.parametrize("least", [0, -1])
def test_hostile_values_become_the_least(value, least):
    assert within(value, least, (10, 12)) == (least, least)


@pytest.mark.parametrize(
    "value, kept",
    [
        ([3, 5], (3, 5)),
        ((10, 12), (10, 12)),
        ([11, 13], (10, 12)),
        ([-1, -2], (-1, -1)),
        ([10**40, -(10**40)], (10, -1)),
        ([2.9, "4"], (2, 4)),
        ({1: "a", 2: "b"}, (1, 2)),
    ],
)
def test_two_numbers_are_kept_between_their_bounds(value, kept):
    assert within(value, -1, (10, 12)) == kept


def test_as_many_numbers_are_kept_as_there_are_bounds():
    assert within([3, 17, 5], 0, (11, 13, 7)) == (3, 13, 5) and within([3, 5], 0, (11, 13, 7)) == (0, 0, 0)
