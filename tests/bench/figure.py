"""Minimal app with the data of one figure: only the grid of all heads."""

from attnviz.ui.pages.heads import grid

grid()
