"""The page that opens at the start: the one that shows what the app was started with."""

from __future__ import annotations

import os
from urllib.parse import urlencode

from attnviz.session.lesson import FOLDER
from attnviz.session.openable import CODE, FIRST, started_with


def first_page() -> str:
    """Return its address below the app's; "", the overview, without anything."""
    if os.environ.get(CODE):
        return "practice?tab=write"
    if first := started_with() or os.environ.get(FIRST):
        return f"heads?{urlencode({'model': first})}"
    return "lessons" if os.environ.get(FOLDER) else ""
