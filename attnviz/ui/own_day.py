"""The day where the person is: by their browser's clock, if the server's agrees with it within two days.

Either clock can be wrong, and a page can stay open over midnight. The browser sends its own date (YYYY-MM-DD in
its time zone) where the session has another one; until then, the day is that of the server's clock in that time zone.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import streamlit as st

_AHEAD = "days ahead"  # session key: by how many days the browser's date is after the server's
MOST = 2  # days by which they may differ


def today() -> date:
    return _on_server() + timedelta(days=st.session_state.get(_AHEAD, 0))


def take(sent: str) -> bool:
    """Take the browser's date, which can be any text; return whether the day is another one now."""
    before = today()
    try:
        ahead = (date.fromisoformat(sent[:10]) - _on_server()).days
    except ValueError:
        return False
    st.session_state[_AHEAD] = ahead if abs(ahead) <= MOST else 0
    return today() != before


def _on_server() -> date:
    try:
        return datetime.now(ZoneInfo(st.context.timezone or "UTC")).date()
    except (ZoneInfoNotFoundError, ValueError):
        return datetime.now(UTC).date()
