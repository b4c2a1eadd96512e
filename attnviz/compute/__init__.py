"""Computations shared by all sessions: caches, semaphores, and the results each page needs besides the trace.

No streamlit.
"""

import os

# Set before numpy is imported: OpenBLAS starts one thread per core, and idle threads spin.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
