"""An empty app plus the data of one figure: the grid of all heads, and nothing else."""

from attnviz.ui.pages.heads import grid

grid()
