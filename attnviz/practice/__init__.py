"""Practice: tasks whose code is checked against AttnViz's modules, and questions graded by computing the answer.

In a notebook: `from attnviz.practice import check`, then `check(grouped_query_attention)`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from attnviz.practice.cells import check as check


def __getattr__(name: str) -> Any:
    """Import `check` with torch only when it is asked for."""
    if name != "check":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from attnviz.practice.cells import check

    return check
