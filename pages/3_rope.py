"""RoPE: how queries and keys turn with their position."""

from attnviz.ui.frame import show_page

show_page("rope")
