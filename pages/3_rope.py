"""RoPE: how queries and keys are rotated by position."""

from attnviz.ui.frame import show_page

show_page("rope")
