"""The front door: what there is to see. Imports neither torch nor plotly."""

from attnviz.ui.frame import frame

view = frame("What there is to see", needs_text=False)
