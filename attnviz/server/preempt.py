"""Let a long computation check whether its session has requested a rerun, and a fragment that it left be run again.

Without it: a click during a fragment's computation waits until that fragment is done, since Streamlit stops a run early
for a rerun of the whole page but not for a fragment rerun (`on_scriptrunner_yield` of ScriptRequests). Since Streamlit
1.37, the first with fragments; observed in 1.67. Can be removed when a fragment rerun stops another. No upstream issue.
"""

from __future__ import annotations

from collections.abc import Sequence

from streamlit.runtime.scriptrunner import RerunData, get_script_run_ctx
from streamlit.runtime.scriptrunner_utils.script_run_context import ThreadState

from attnviz.compute import queue


def start() -> None:
    """Install `rerun_requested` for the computations."""
    queue.rerun_requested = rerun_requested


def rerun_requested() -> bool:
    """Check whether the session of the current script run has requested another run."""
    run = get_script_run_ctx(suppress_warning=True)
    requests = run.script_requests if run else None
    return requests is not None and requests._state.name != "CONTINUE"


def run_after(keys: Sequence[str]) -> None:
    """Request a run of these fragments, at the end of the last one of a run of fragments.

    `st.rerun` does so only in callbacks, and the request that interrupted a fragment need not have one.
    """
    run = get_script_run_ctx()
    if run is None or run.script_requests is None or not run.fragment_ids_this_run:
        return  # a run of the whole page, which the request that interrupted it will follow
    if run.fragment_ids_this_run[-1] == ThreadState.get().fragment_id:
        run.script_requests.request_rerun(
            RerunData(
                query_string=run.query_string, page_script_hash=run.page_script_hash, context_info=run.context_info,
                fragment_id_queue=run.fragment_storage.resolve_target(keys),
                cached_message_hashes=run.cached_message_hashes,
            )
        )  # fmt: skip
