"""The front door: what there is to see. Imports neither torch nor plotly."""

from attnviz.ui import front_page
from attnviz.ui.frame import frame

frame("What there is to see")
front_page.show()
