"""The overview page and the app's entry point. Imports neither torch nor plotly."""

import streamlit as st

if __name__ == "__main__":  # the page's script, run for each session
    from attnviz.ui.frame import show_page

    show_page("")
else:  # imported once by Streamlit's server, which searches this file for a call of st.App
    from attnviz import server

    server.start()
    app = st.App(__file__, routes=server.ROUTES, lifespan=server.LIFESPAN, middleware=server.MIDDLEWARE)
