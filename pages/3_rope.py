"""RoPE: how queries and keys turn with their position."""

from attnviz.server.warm import later
from attnviz.ui.frame import page

page("RoPE", later("rope"))
