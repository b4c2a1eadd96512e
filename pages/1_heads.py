"""Heads: per-head attention weights."""

from attnviz.ui import heads_page
from attnviz.ui.frame import frame

view = heads_page.padded(frame("Heads"))
heads_page.grid(view)
heads_page.one_head(view)
