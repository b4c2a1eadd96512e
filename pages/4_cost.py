"""Cost: parameters and KV cache, of one's own settings and of published models."""

from attnviz.ui import cost_page
from attnviz.ui.frame import frame

view = frame("Cost", needs_text=False)
cost_page.controls(view)
cost_page.own(view)
cost_page.closer(view)
