"""Lessons: ways through the pages, step by step."""

from attnviz.ui.frame import show_page

show_page("lessons")
