"""Cost: parameters and KV cache of the selected model and of published models."""

from attnviz.ui.frame import show_page

show_page("cost")
