"""What is computed once and shared: caches, the queue, and what each page computes besides the trace. No streamlit."""

import os

# Before numpy is imported: OpenBLAS starts a thread per core, and each spins while it waits.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
