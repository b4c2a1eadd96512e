"""Switch threads after 0.5 ms instead of Python's 5, so that a drawing is sent while the script computes the next one.

Without it: the grid's message waits for the script's thread, and grid / floor is 5 to 8 % larger with many weights
(`make bench`, T = 512 and 4 x 8 heads). As long as Streamlit runs scripts in threads of its server; observed in 1.67.
Can be removed when it runs them elsewhere. No upstream issue.
"""

from __future__ import annotations

import sys

SECONDS = 0.0005


def start() -> None:
    """Set the interval for the whole process."""
    sys.setswitchinterval(SECONDS)
