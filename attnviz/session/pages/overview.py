"""The overview: all heads on the text, and the way to the other pages."""

from attnviz.session.page import Element, Page

PAGE = Page(
    "", "app.py", "Overview",
    "Type a text and choose a model to see what its attention computes, and what it costs.",
    elements=(Element("front-grid", "maps", "All heads"),),
)  # fmt: skip
