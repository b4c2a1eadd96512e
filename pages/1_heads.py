"""Heads: per-head attention weights."""

from attnviz.ui.frame import show_page

show_page("heads")
