"""Decode: one token at a time, with the cache that grows."""

from attnviz.ui.frame import show_page

show_page("decode")
