"""CSS selectors of Streamlit's elements, for components that look for one; in the browser, page.js knows them."""

FORM = "[data-testid=stForm]"
COMPONENT = "[data-testid=stBidiComponentIsolated]"
