"""Tell a long computation that its session has asked for something else.

Without it: what somebody clicks while a part of the page computes waits until that part is done, since Streamlit ends a
run early for a run of the whole page, but not for one of a part (`on_scriptrunner_yield` of ScriptRequests). Since
Streamlit 1.37, its first with fragments; seen in 1.67. May go when a part's run can end another's. No issue upstream.
"""

from __future__ import annotations

from streamlit.runtime.scriptrunner import get_script_run_ctx

from attnviz.compute import queue


def start() -> None:
    """Let computations ask."""
    queue.rerun_requested = asked_for_more


def asked_for_more() -> bool:
    """Whether the session that runs here has asked for another run."""
    run = get_script_run_ctx(suppress_warning=True)
    requests = run.script_requests if run else None
    return requests is not None and requests._state.name != "CONTINUE"
