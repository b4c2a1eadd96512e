"""Linear and sparse."""

from attnviz.ui.frame import show_page

show_page("linear")
