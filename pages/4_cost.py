"""Cost: parameters and KV cache, of one's own settings and of published models."""

from attnviz.server.warm import later
from attnviz.ui.frame import page

page("Cost", later("cost"), needs_text=False)
