"""Let a long computation check whether its session has requested a rerun.

Without it: a click during a fragment's computation waits until that fragment is done, since Streamlit stops a run early
for a rerun of the whole page but not for a fragment rerun (`on_scriptrunner_yield` of ScriptRequests). Since Streamlit
1.37, the first with fragments; observed in 1.67. Can be removed when a fragment rerun stops another. No upstream issue.
"""

from __future__ import annotations

from streamlit.runtime.scriptrunner import get_script_run_ctx

from attnviz.compute import queue


def start() -> None:
    """Install `rerun_requested` for the computations."""
    queue.rerun_requested = rerun_requested


def rerun_requested() -> bool:
    """Check whether the session of the current script run has requested another run."""
    run = get_script_run_ctx(suppress_warning=True)
    requests = run.script_requests if run else None
    return requests is not None and requests._state.name != "CONTINUE"
