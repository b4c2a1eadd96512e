"""The front door: what there is to see. Imports neither torch nor plotly."""

import streamlit as st

if __name__ == "__main__":  # the page, run for everyone who opens it
    from attnviz.ui.frame import frame
    from attnviz.ui.pages import overview as front_page

    frame("What there is to see")
    front_page.show()
else:  # imported once, by Streamlit's server
    from attnviz.server import in_order, open_browser, undelayed, warm

    MIDDLEWARE = (undelayed.MIDDLEWARE, warm.MIDDLEWARE, in_order.MIDDLEWARE)
    app = st.App(__file__, lifespan=open_browser.opened, middleware=MIDDLEWARE)
