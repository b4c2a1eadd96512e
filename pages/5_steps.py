"""Step by step: the source that ran, line by line, with the tensors that each line made."""

from attnviz.ui.frame import show_page

show_page("steps")
