"""Widgets of `attnviz.ui.state`, without a browser."""

import pytest

from attnviz.session.examples import EXAMPLES
from tests.ui.test_pages import opened

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("no_links_to_pages")]


def test_a_pill_that_acts_is_deselected_in_the_browser_by_each_run():
    """The browser renders the last of two runs in quick succession; in a pill left selected, a click deselects it."""
    app = opened("app.py")

    def pills():
        return next(each for each in app.button_group if each.label == "Examples")

    for name in ("a list", "code", "code"):
        pills().set_value(name).run()
        assert app.query_params["text"] == EXAMPLES[name]
        for _ in range(2):
            assert pills().value is None and pills().proto.set_value
            app.run()
