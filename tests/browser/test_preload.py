"""The scripts of charts, tables and formulas are preloaded before the first of them is opened."""

from collections.abc import Callable

from playwright.sync_api import Page

from attnviz.server.preload import SCRIPTS
from tests.browser.painted import PATIENCE, settle

# Streamlit's own scripts; a component's, a few KB, is fetched when it is first drawn.
LOADED = (
    "performance.getEntriesByType('resource').map(r => r.name).filter(url => url.endsWith('.js'))"
    ".filter(url => !url.includes('/components/')).map(url => url.split('/').pop())"
)


def test_the_first_chart_that_is_opened_waits_for_no_script(visit: Callable[..., Page]) -> None:
    page = visit("heads")
    asked = " && ".join(f"names.some(name => name.startsWith('{script}.'))" for script in SCRIPTS)
    page.wait_for_function(f"() => {{ const names = {LOADED}; return {asked}; }}", timeout=PATIENCE)
    page.wait_for_timeout(1000)
    assert page.locator("[data-testid=stPlotlyChart]").count() == 0
    before = set(page.evaluate(LOADED))
    page.get_by_text("Zoom, numbers and downloads").first.click()
    page.locator("[data-testid=stPlotlyChart]").first.wait_for()
    settle(page)
    assert set(page.evaluate(LOADED)) == before
