"""The only streamlit in the package: settings, frame, cached runs, charts, downloads, components."""

import os

# Before numpy is imported, which starts a thread for every core: it waits for its next product by spinning, so that a
# product of 0.1 ms took 60 ms of another core from whoever else was served.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
