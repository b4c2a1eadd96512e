"""Cost: parameters and KV cache, of one's own settings and of published models."""

from attnviz.ui.frame import page
from attnviz.ui.warm import later

page("Cost", later("cost"), needs_text=False)
