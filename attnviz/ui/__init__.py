"""The only streamlit in the package: settings, frame, cached runs, charts, downloads, components."""

import os

# Before numpy is imported, which starts a thread for every core. These wait for the next product by spinning: a change
# with a few products of 112 x 112 in it took 87 ms of processor time instead of 30, from whoever else was served.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
