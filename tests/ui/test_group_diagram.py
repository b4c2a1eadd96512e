"""The group diagram calls its callback for a query head, and for no other value that a browser sends."""

from types import SimpleNamespace

import pytest

from attnviz.figures.groups import sharing
from attnviz.ui.components import events
from attnviz.ui.components import group_diagram as diagram


def told_of(monkeypatch, sent) -> list[int]:
    mounted, calls = {}, []
    monkeypatch.setattr(diagram, "_mount", lambda **options: mounted.update(options))
    monkeypatch.setattr(events.st, "session_state", {"diagram": SimpleNamespace(head=sent)})
    diagram.group_diagram(sharing(6, 3, [0, 0, 1, 1, 2, 2], 0), "diagram", calls.append)
    mounted["on_head_change"]()
    return calls


@pytest.mark.parametrize("head", [0, 3, 5])
def test_a_head_is_chosen(monkeypatch, head):
    assert told_of(monkeypatch, head) == [head]


@pytest.mark.parametrize("sent", [None, "x", "1", -1, 6, 10**30, 1.5, float("nan"), [1], {}, {"a": 1}], ids=repr)
def test_what_is_no_head_changes_nothing(monkeypatch, sent):
    assert told_of(monkeypatch, sent) == []
