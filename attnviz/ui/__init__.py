"""Streamlit pages and their frame; besides attnviz/server the only code that imports streamlit."""
