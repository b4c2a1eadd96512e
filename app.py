"""The overview page and the app's entry point. Imports neither torch nor plotly."""

import streamlit as st

if __name__ == "__main__":  # the page's script, run for each session
    from attnviz.ui.frame import show_page

    show_page("")
else:  # imported once by Streamlit's server, which searches this file for a call of st.App
    from attnviz import server
    from attnviz.ui.addresses import ADDRESSES
    from attnviz.ui.components import scripts
    from attnviz.ui.open_browser import opened
    from attnviz.ui.page_style import PAGE_STYLE
    from attnviz.ui.warm_start import WARM_START

    server.start()
    app = st.App(
        __file__,
        routes=scripts.routes(),
        lifespan=opened,
        middleware=[ADDRESSES, WARM_START, PAGE_STYLE, *server.MIDDLEWARE],
    )
