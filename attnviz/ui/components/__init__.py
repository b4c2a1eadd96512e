"""The pieces that plotly cannot draw, or not fast enough: Streamlit components v2, each a .py, a .js and a .css."""
