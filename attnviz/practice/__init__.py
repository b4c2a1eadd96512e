"""Practice: tasks whose code is checked against AttnViz's modules, and questions graded by computing the answer."""
