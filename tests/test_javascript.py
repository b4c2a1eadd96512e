"""The linter reads all scripts of the components and reports errors."""

import importlib.util
import re
from pathlib import Path

from attnviz.ui.components.declared import declared

ROOT = Path(__file__).resolve().parents[1]
spec = importlib.util.spec_from_file_location("javascript", ROOT / ".ci" / "javascript.py")
javascript = importlib.util.module_from_spec(spec)
spec.loader.exec_module(javascript)


def test_every_script_is_sent_with_some_component():
    sent = "".join(javascript.sent().values())
    scripts = {path: path.read_text(encoding="utf-8") for path in ROOT.glob("attnviz/**/*.js")}
    assert len(scripts) > 8
    assert [path.name for path, script in scripts.items() if script not in sent] == []


def test_a_component_finds_its_elements_by_a_class():
    """The first div in its root is Streamlit's: a script that emptied it removed the component's style sheet."""
    for path in ROOT.glob("attnviz/ui/components/*.js"):
        names = re.findall(r"""(?<!\.)parentElement\.querySelector\(["'](\w+)["']""", path.read_text(encoding="utf-8"))
        assert names == [], path.name


def test_boxes_are_measured_by_the_helpers_that_know_how_webkit_measures_in_a_zoomed_element():
    """WebKit has no `currentCSSZoom`, and measures in the element's own pixels; the others measure in the window's."""
    scripts = {path.name: path.read_text(encoding="utf-8") for path in ROOT.glob("attnviz/**/*.js")}
    assert "currentCSSZoom" in scripts.pop("call.js")
    own = {name: re.sub(r"inOwnPixels\([^()]*\.getBoundingClientRect", "", script) for name, script in scripts.items()}
    assert own["save.js"] != scripts["save.js"]
    assert [name for name, script in own.items() if re.search("getBoundingClientRect|currentCSSZoom", script)] == []


def test_what_is_linted_is_what_is_sent(monkeypatch):
    monkeypatch.setattr("streamlit.components.v2.component", lambda name, *, js, **_: js)
    assert (
        declared("head_grid", "", "packed_weights", "head_zoom", "save_choices", "save_buttons")
        == javascript.sent()["head_grid"]
    )


def test_what_is_wrong_is_noticed():
    broken = ["export default () => nowhere();", "export default () => {", "var a = 1; export default a;"]
    assert [script for script in broken if javascript.lint({"broken": script})[0] == 0] == []
    assert javascript.lint({"fine": "const a = 1;\nexport default a;\n"})[0] == 0
