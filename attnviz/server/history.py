"""Tell Back and Forward from a link, by a field of Streamlit's script run.

Without it: Back to another page keeps the settings of the page that was left, as a link in the app does, instead of
those of its address (tests/browser/test_frame.py). Observed in Streamlit 1.67. Can be removed when `st.context` says
how a run began. No upstream issue.
"""

from __future__ import annotations

from streamlit.runtime.scriptrunner import get_script_run_ctx

from attnviz.server.switches import wanted


def is_by_history() -> bool:
    """Check whether the browser's Back or Forward started this run."""
    run = get_script_run_ctx()
    return run is not None and run.is_history_navigation and wanted("history")
