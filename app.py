"""The overview, and what the server is started with. Imports neither torch nor plotly."""

import streamlit as st

if __name__ == "__main__":  # the page, run for everyone who opens it
    from attnviz.ui.frame import show_page

    show_page("")
else:  # imported once, by Streamlit's server, which looks for a call of st.App in this file
    from attnviz import server

    server.start()
    app = st.App(__file__, lifespan=server.LIFESPAN, middleware=server.MIDDLEWARE)
