"""Scripts are served as modules, so that a change sends only their addresses."""

import json
import re
from pathlib import Path

import pytest
from starlette.requests import Request
from starlette.responses import Response

from attnviz import assets
from attnviz.assets import COMPONENTS, FOLDER, SCRIPTS
from attnviz.server import browser, scripts
from attnviz.ui.components.declared import declared
from tests.test_javascript import javascript
from tests.waiting import result_of

GRID = "ui/components/head_grid.js"


@pytest.fixture(autouse=True)
def served(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add the route, as app.py does, for one test."""
    monkeypatch.setattr(scripts, "_routes", [])
    scripts.routes()


def get(address: str) -> Response:
    """Return the route's answer to a request."""
    scope = {"type": "http", "method": "GET", "path": address, "headers": []}
    (route,) = scripts.routes()
    matched, params = route.matches(scope)
    assert matched.name == "FULL"
    return result_of(route.endpoint(Request({**scope, **params})))


@pytest.mark.parametrize("base", ["", "some/where/"])
def test_a_component_names_files_that_the_route_answers(monkeypatch, base):
    monkeypatch.setattr("streamlit.components.v2.component", lambda name, *, js, **_: js)
    sent = declared("head_grid", "")
    files, folder = json.loads(re.search(r"\[.*?\]", sent)[0]), re.search(r"`(.*)/\${file}`", sent)[1]
    assert files[0] == GRID and len(files) > 4 and len(sent) < 600 and "?" not in folder
    for file in files:
        answer = get(f"/{base}{folder}/{file}")
        assert answer.body.decode() == (FOLDER / file).read_text() and "immutable" in answer.headers["Cache-Control"]


def test_another_version_of_a_file_is_answered_but_not_stored():
    answer = get(f"/{scripts.FOLDER}/0123456789ab/{GRID}")
    assert answer.body.decode() == SCRIPTS[GRID] and answer.headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize("file", ["nowhere.js", "..", "ui/components/call.css", "", "..%2fapp.py", "../../app.py"])
def test_nothing_else_is_answered(file):
    assert get(f"/{scripts.FOLDER}/{scripts.VERSION}/{file}").status_code == 404


def test_what_a_script_imports_comes_before_it_whatever_folder_it_is_in(monkeypatch):
    imports = {"a/one.js": ["../b/two.js", "./three.js"], "b/two.js": ["../a/three.js"], "a/three.js": ["./one.js"]}
    texts = {name: "".join(f'import {{ x }} from "{each}";\n' for each in names) for name, names in imports.items()}
    monkeypatch.setattr(assets, "SCRIPTS", texts)
    assert assets.with_imported("a/one.js") == ["a/three.js", "b/two.js", "a/one.js"]  # a circle ends


def test_the_styles_of_what_a_component_imports_come_before_its_own(monkeypatch):
    monkeypatch.setattr("streamlit.components.v2.component", lambda name, *, css, **_: css)
    sent, folder = declared("head_grid", ""), COMPONENTS
    names = "call", "save_choices", "save_buttons", "head_grid"
    assert sent == "".join((folder / f"{each}.css").read_text() for each in names)


def test_without_a_route_a_component_is_sent_one_script_without_imports(monkeypatch, tmp_path):
    monkeypatch.setattr("streamlit.components.v2.component", lambda name, *, js, **_: js)
    monkeypatch.setattr(scripts, "_routes", [])
    names = [Path(each).stem for each, text in SCRIPTS.items() if f"{COMPONENTS.name}/" in each and "default" in text]
    for name in names:
        script = declared(name, "")
        assert "import {" not in script and script.count("export") == 1
        (tmp_path / f"{name}.js").write_text(script)
    (tmp_path / "workarounds.js").write_text(scripts.loader(*(f"server/{each.name}" for each in browser.enabled("js"))))
    status, said = javascript.lint(tmp_path, "--skip=correctness/noUnusedVariables")
    assert len(names) > 15 and status == 0, said  # all names are declared, and only once
