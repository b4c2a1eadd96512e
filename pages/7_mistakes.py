"""Mistakes: wrong code of these modules, run on your text beside the right code."""

from attnviz.ui.frame import show_page

show_page("mistakes")
