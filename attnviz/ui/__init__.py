"""The pages and what is around them. The only streamlit in the package, but for attnviz/server."""
