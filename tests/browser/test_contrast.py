"""Every text of every page and tab can be read in the light and in the dark, also inside components."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Page

from attnviz.session.pages import ALL
from tests.browser.contrast import texts_on

FIRST = [page.path for page in ALL]
PLACES = [f"{page.path}?tab={tab}" if tab else page.path for page in ALL for tab in (list(page.tabs) or [""])]


@pytest.mark.parametrize(("places", "scheme"), [(PLACES, "light"), (FIRST, "dark")], ids=["light", "dark"])
def test_every_text_can_be_read(turns: Callable, places: list[str], scheme: str) -> None:
    n_in_components, unreadable = 0, []
    for _, page in turns(places, scheme=scheme):
        found = texts_on(page)
        n_in_components += sum(text.in_component for text in found)
        unreadable += [(page.url, text) for text in found if not text.is_readable]
        assert len(found) > 20, page.url
    kinds = {(text.element, round(text.contrast, 2)): (url, text.text) for url, text in unreadable}
    assert not kinds, kinds
    assert n_in_components > 500
    a_faint_text_is_found_in_a_component_and_in_wrapped_code(page)


def a_faint_text_is_found_in_a_component_and_in_wrapped_code(page: Page) -> None:
    """Text inside a shadow root, and text of several lines, which axe leaves undecided."""
    page.evaluate("""() => {
        const [host, code] = [document.createElement("div"), document.createElement("pre")];
        host.attachShadow({ mode: "open" }).innerHTML = '<p style="color: #88888888">faint in a component</p>';
        code.style = "width: 9em; white-space: pre-wrap; background: #fff; color: #8888";
        code.innerHTML = "<span>a faint line that is wrapped</span>\\n<span>another faint line below it</span>";
        document.querySelector("[data-testid=stMain] h1").after(host, code);
    }""")
    faint = [text for text in texts_on(page) if not text.is_readable]
    assert [text.text for text in faint] == [
        "faint in a component", "a faint line that is wrapped", "another faint line below it",
    ]  # fmt: skip
    assert [text.in_component for text in faint] == [True, False, False]
