"""Heads: per-head attention weights."""

from attnviz.server.warm import later
from attnviz.ui.frame import page

page("Heads", later("heads"))
