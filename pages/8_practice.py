"""Practice: questions graded by computation, and coding tasks."""

from attnviz.ui.frame import show_page

show_page("practice")
