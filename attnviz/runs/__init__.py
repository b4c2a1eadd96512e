"""Runs of attention as values: what `attnviz.run` returns, `show` draws, `save_run` writes and the app opens."""
