"""Practice: code of one's own that is judged against the product's modules, and questions graded by computing."""
