"""A widget's value counts only where its own fragment, or the whole page, was requested."""

from types import SimpleNamespace

import pytest
from streamlit.runtime.scriptrunner_utils.script_run_context import FragmentThreadState

from attnviz.server import own_request, switches

CASES = {  # the widget's fragment, the requested ones: does its value count?
    ("heads", ("heads",)): True,
    ("heads", ("player", "heads")): True,
    ("heads", ("player",)): False,
    ("heads", ()): True,  # the whole page
    (None, ("player",)): True,  # a widget outside of fragments
}


@pytest.mark.parametrize(("off", "by_case"), [("", CASES), ("own_request", dict.fromkeys(CASES, True))])
def test_a_value_counts_where_its_own_fragment_was_requested(monkeypatch, off, by_case):
    monkeypatch.setattr(switches, "_WITHOUT", [off])
    for (fragment, requested), counts in by_case.items():
        run = SimpleNamespace(fragment_ids_this_run=list(requested))
        monkeypatch.setattr(own_request, "get_script_run_ctx", lambda run=run: run)
        state = SimpleNamespace(get=lambda fragment=fragment: FragmentThreadState(fragment_id=fragment))
        monkeypatch.setattr(own_request, "ThreadState", state)
        assert own_request.is_requested() == counts, (fragment, requested)
