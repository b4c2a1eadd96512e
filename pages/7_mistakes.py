"""Mistakes: wrong versions of these modules, run on your text beside the right one."""

from attnviz.ui.frame import show_page

show_page("mistakes")
