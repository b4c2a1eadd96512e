"""Streamlit components v2 for what plotly cannot draw, or not fast enough; each is a .py, a .js and a .css."""
