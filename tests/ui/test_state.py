"""Widgets of `attnviz.ui.state`, without a browser."""

from dataclasses import fields

import pytest

from attnviz.session.examples import EXAMPLES
from attnviz.session.kinds import Number
from attnviz.session.pages import PAGES
from attnviz.session.settings import Settings
from attnviz.ui import state
from tests.pages import COST, DECODE, FRONT, HEADS, PRACTICE, ROPE, opened
from tests.walk import decode_little

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("no_links_to_pages")]


def test_a_pill_that_acts_is_deselected_in_the_browser_by_each_run():
    """The browser renders the last of two runs in quick succession; in a pill left selected, a click deselects it."""
    app = opened(FRONT)

    def pills():
        return next(each for each in app.button_group if each.label == "Examples")

    for name in ("a list", "code", "code"):
        pills().set_value(name).run()
        assert app.query_params["text"] == EXAMPLES[name]
        for _ in range(2):
            assert pills().value is None and pills().proto.set_value
            app.run()


NUMBERS = {f.name: f.metadata["kind"] for f in fields(Settings) if isinstance(f.metadata["kind"], Number)}
WITH_NUMBERS = [  # tabs with sliders or number boxes, and settings that these tabs need
    (HEADS, "masks", {}), (ROPE, "longer", {"window": "0"}),
    (ROPE, "without", {"window": "0"}), (COST, "memory", {}),
    (DECODE, "bounded", {"window": "0"}), (DECODE, "paged", {"window": "0"}),
    (DECODE, "speculate", {"window": "0", "temperature": "1"}), (PRACTICE, "", {}),
]  # fmt: skip


@pytest.mark.parametrize(("file", "tab", "needed"), WITH_NUMBERS)
def test_each_number_of_a_link_is_within_its_control(file, tab, needed, monkeypatch):
    """At the ends of each setting's range: a control with narrower limits would raise."""
    decode_little(monkeypatch, n_read=8)
    for end in ("low", "high"):
        numbers = {name: f"{getattr(kind, end):.0f}" for name, kind in NUMBERS.items()}
        app = opened(file, tab=tab, **{**numbers, "padding": "0", "penalty": "1", **needed})
        boxes = {each.key.removeprefix("control-"): each.value for each in (*app.slider, *app.number_input)}
        shown = {name: value for name, value in boxes.items() if name in NUMBERS}
        settings = app.session_state["settings"]
        assert shown == {name: getattr(settings, name) for name in shown} != {}  # what is drawn is what is computed


@pytest.mark.parametrize(
    ("model", "name"), [("gqa-4", "attnviz-rope-loss-gqa-4"), ("a b/Own.Model", "attnviz-rope-loss-OwnModel")]
)
def test_downloads_are_named_as_saved_pictures_are(monkeypatch, model, name):
    monkeypatch.setattr(state, "current", lambda: Settings(model=model))
    monkeypatch.setattr(state, "page", lambda: PAGES["rope"])
    assert state.file_name("loss") == name  # by the rule of `fileName` in save.js


def test_a_callback_that_reruns_parts_does_not_keep_another_from_leaving_the_page(monkeypatch):
    """A browser sends its progress while a click leads to another page: the run of parts would replace the switch."""
    asked = []
    monkeypatch.setattr("streamlit.rerun", lambda *parts: asked.append(parts))
    monkeypatch.setattr("streamlit.session_state", {state._DRAWN: ["doors", state.STORE]})
    state.redraw_progress()
    assert asked == [([state.STORE],)]
    asked.clear()
    state.go("heads", state.current())
    state.redraw_progress()
    assert asked[:2] == [(), ()]
