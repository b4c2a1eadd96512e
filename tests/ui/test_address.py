"""The address holds the settings in force, also where they did not come from it."""

import pytest
from streamlit.testing.v1 import AppTest

from tests.browser.server import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("no_links_to_pages")]


def test_an_older_link_to_another_page_gets_the_settings_of_the_session():
    app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60)
    app.query_params["window"] = "9"
    app.run()
    assert not app.exception and app.query_params["window"] == "9"
    app.query_params["window"] = "5"  # as in a page link that was drawn before the window changed
    app.switch_page("pages/4_cost.py").run()
    assert not app.exception and app.title[0].value == "Cost"
    assert app.query_params["window"] == "9"
