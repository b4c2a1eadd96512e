"""Scripts are served as files, so that a change sends only their URL."""

import pytest
from starlette.requests import Request
from starlette.responses import Response

from attnviz.ui.components import scripts
from attnviz.ui.components.declared import declared
from tests.waiting import result_of

NAMES = "call", "packed_weights", "text_view"


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add the route, as app.py does, for one test."""
    monkeypatch.setattr(scripts, "_routes", [])
    scripts.routes()


def get(address: str) -> Response:
    """Return the route's answer to a request."""
    (route,) = scripts.routes()
    scope = {"type": "http", "method": "GET", "path": address, "headers": []}
    matched, params = route.matches(scope)
    assert matched.name == "FULL"
    return result_of(route.endpoint(Request({**scope, **params})))


def test_without_a_route_the_script_is_inline(monkeypatch):
    monkeypatch.setattr("streamlit.components.v2.component", lambda name, *, js, **_: js)
    assert declared("text_view", "", "packed_weights") == scripts.whole(NAMES)


@pytest.mark.parametrize("base", ["", "some/where/"])
def test_a_component_names_a_file_that_the_route_answers(served, monkeypatch, base):
    monkeypatch.setattr("streamlit.components.v2.component", lambda name, *, js, **_: js)
    sent = declared("text_view", "", "packed_weights")
    url = sent.split('"')[1]
    assert len(sent) < 250 and "?" not in url
    answer = get(f"/{base}{url}")
    assert answer.body.decode() == scripts.whole(NAMES) and "immutable" in answer.headers["Cache-Control"]


def test_another_version_of_a_file_is_answered_but_not_stored(served):
    answer = get(f"/{scripts.FOLDER}/{'+'.join(NAMES)}.0123456789ab.js")
    assert answer.body.decode() == scripts.whole(NAMES) and answer.headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize("name", ["nowhere", "..", "call+..", "", "..%2f..%2fapp", "call+call"])
def test_nothing_else_is_answered(served, name):
    assert get(f"/{scripts.FOLDER}/{name}.0123456789ab.js").status_code == 404
