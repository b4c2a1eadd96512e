"""pytest tests/test_one_of.py: what a browser sends to the rows of names and to the lines that open."""

import pytest
import streamlit as st

from attnviz.ui.components import disclosure, one_of


@pytest.fixture
def mounted(monkeypatch: pytest.MonkeyPatch) -> dict:
    """What the components were mounted with last, and the session that answers."""
    calls: dict = {}
    for module in (one_of, disclosure):
        monkeypatch.setattr(module, "_mount", lambda **given: calls.update(given))
    monkeypatch.setattr(st, "session_state", {})
    return calls


class Sent:
    """What the browser's component says."""

    def __init__(self, choice: object) -> None:
        self.choice = choice


def test_another_name_is_chosen(mounted):
    chosen = []
    one_of.one_of("Part", {"a": "First", "b": "Second"}, "a", key="part", on_choose=chosen.append)
    assert mounted["data"] == b'{"label":"Part","quiet":false,"names":[["a","First"],["b","Second"]],"chosen":"a"}'
    st.session_state["part"] = Sent("b")
    mounted["on_choice_change"]()
    assert chosen == ["b"]


@pytest.mark.parametrize("sent", [None, "c", 0, 1.5, [], {}, ["a"], {"a": "b"}, True])
def test_what_is_no_name_changes_nothing(mounted, sent):
    one_of.one_of("Part", {"a": "First", "b": "Second"}, "a", key="part", on_choose=pytest.fail)
    st.session_state["part"] = Sent(sent)
    mounted["on_choice_change"]()


@pytest.mark.parametrize(("kept", "is_open"), [({}, False), ({"open": None}, False), ({"open": True}, True)])
def test_a_line_is_open_where_the_browser_has_said_so(mounted, kept, is_open):
    st.session_state["more"] = kept
    assert disclosure.disclosure("Numbers", "more") is is_open
    assert mounted["data"] == b'{"label":"Numbers","open":%s}' % (b"true" if is_open else b"false")
