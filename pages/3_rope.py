from attnviz.ui import rope_page
from attnviz.ui.frame import frame

view = frame("RoPE")
rope_page.introduction(view)
rope_page.controls(view)
rope_page.clocks(view)
rope_page.frequencies(view)
rope_page.closer(view)
