"""Tell a user's change of a widget from an older value that came with the request of another fragment.

Without it: a setting that a link, a lesson or an example has changed goes back by itself, since a browser sends the
values of all widgets with each request, also of those it has not redrawn yet (tests/browser/test_meanwhile.py). Since
Streamlit 1.37, the first with fragments; observed in 1.67. Can be removed when a request for a fragment changes the
widgets of that fragment only. No upstream issue.
"""

from __future__ import annotations

from streamlit.runtime.scriptrunner import get_script_run_ctx
from streamlit.runtime.scriptrunner_utils.script_run_context import ThreadState

from attnviz.server.switches import wanted


def is_requested() -> bool:
    """Check, in a widget's callback, whether the browser requested the widget's fragment, or the whole page."""
    run, fragment = get_script_run_ctx(), ThreadState.get().fragment_id
    requested = run.fragment_ids_this_run if run and wanted("own_request") else None
    return not requested or fragment is None or fragment in requested
