"""RoPE: how queries and keys turn with their position."""

from attnviz.ui.frame import page
from attnviz.ui.warm import later

page("RoPE", later("rope"))
