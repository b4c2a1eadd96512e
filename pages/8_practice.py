"""Practice: questions graded by computing, and tasks to write yourself."""

from attnviz.ui.frame import show_page

show_page("practice")
