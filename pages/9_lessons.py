"""Lessons: guided tours through the pages, step by step."""

from attnviz.ui.frame import show_page

show_page("lessons")
