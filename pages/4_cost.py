"""Cost: parameters and KV cache, of one's own settings and of published models."""

from attnviz.ui import cost_page
from attnviz.ui.frame import page

page("Cost", cost_page.show, needs_text=False)
