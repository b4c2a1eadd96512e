"""Cost: parameters and KV cache, of one's own settings and of published models."""

from attnviz.ui.frame import show_page

show_page("cost")
