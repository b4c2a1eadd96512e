"""Decode: one token at a time, with a growing KV cache."""

from attnviz.ui.frame import show_page

show_page("decode")
