"""A computation learns that its session has asked for another run, of a part too, for which Streamlit ends none."""

from types import SimpleNamespace

from streamlit.runtime.scriptrunner_utils.script_requests import RerunData, ScriptRequests

from attnviz.server import preempt


def test_a_run_that_was_asked_for_is_seen(monkeypatch):
    requests = ScriptRequests()
    monkeypatch.setattr(preempt, "get_script_run_ctx", lambda **_: SimpleNamespace(script_requests=requests))
    assert not preempt.asked_for_more()
    assert requests.request_rerun(RerunData(fragment_id="one part"))
    assert requests.on_scriptrunner_yield() is None and preempt.asked_for_more()
    requests.on_scriptrunner_ready()
    assert not preempt.asked_for_more()


def test_where_no_script_runs_nobody_asks(monkeypatch):
    monkeypatch.setattr(preempt, "get_script_run_ctx", lambda **_: None)
    assert not preempt.asked_for_more()
