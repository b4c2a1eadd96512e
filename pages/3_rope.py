"""RoPE: how queries and keys turn with their position."""

from attnviz.ui import rope_page
from attnviz.ui.frame import page

page("RoPE", rope_page.show)
