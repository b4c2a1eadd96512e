"""Attention weights in a notebook, and as one HTML file: the app's components, without Streamlit or a server."""

from attnviz.notebook.view import View, show

__all__ = ["View", "show"]
