"""Content of the pages, one module each, from top to bottom."""
