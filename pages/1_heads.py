"""Heads: per-head attention weights."""

from attnviz.ui import heads_page
from attnviz.ui.frame import page

page("Heads", heads_page.show)
