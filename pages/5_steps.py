"""Step by step: the source that ran, line by line, with the tensors that each line computed."""

from attnviz.ui.frame import show_page

show_page("steps")
