from attnviz.ui.frame import frame

view = frame("Heads")
