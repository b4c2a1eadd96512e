"""Computations see that their session has requested a rerun, of a fragment too."""

from types import SimpleNamespace

from streamlit.runtime.scriptrunner_utils.script_requests import RerunData, ScriptRequests

from attnviz.server import preempt


def test_a_run_that_was_asked_for_is_seen(monkeypatch):
    requests = ScriptRequests()
    monkeypatch.setattr(preempt, "get_script_run_ctx", lambda **_: SimpleNamespace(script_requests=requests))
    assert not preempt.rerun_requested()
    assert requests.request_rerun(RerunData(fragment_id="one part"))
    assert requests.on_scriptrunner_yield() is None and preempt.rerun_requested()
    requests.on_scriptrunner_ready()
    assert not preempt.rerun_requested()


def test_where_no_script_runs_nobody_asks(monkeypatch):
    monkeypatch.setattr(preempt, "get_script_run_ctx", lambda **_: None)
    assert not preempt.rerun_requested()
