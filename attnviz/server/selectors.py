"""CSS selectors of Streamlit's elements, for what looks for one or hides it; in the browser, page.js knows them."""

FORM = "[data-testid=stForm]"
COMPONENT = "[data-testid=stBidiComponentIsolated]"
STATUS = "[data-testid=stStatusWidget]"  # says that the page runs, with a button that stops it
