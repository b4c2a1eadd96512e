"""Heads: per-head attention weights."""

from attnviz.ui.frame import page
from attnviz.ui.warm import later

page("Heads", later("heads"))
