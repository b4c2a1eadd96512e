"""Minimal app with the data of one figure: only the grid of all heads, and the server that sends its scripts."""

import streamlit as st

if __name__ == "__main__":
    from attnviz.ui.pages.heads import grid

    grid()
else:
    from attnviz import server

    app = st.App(__file__, routes=server.ROUTES)
