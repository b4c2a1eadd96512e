from attnviz.ui.frame import frame

view = frame("Query groups")
