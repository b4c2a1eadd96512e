"""The linter reads all scripts and reports errors; what a script imports is exported."""

import importlib.util
import re
from pathlib import Path

from attnviz.assets import FOLDER as APP
from attnviz.assets import SCRIPTS

ROOT = Path(__file__).resolve().parents[1]
spec = importlib.util.spec_from_file_location("javascript", ROOT / ".ci" / "javascript.py")
javascript = importlib.util.module_from_spec(spec)
spec.loader.exec_module(javascript)


def test_all_that_is_imported_is_exported():
    found, missing = 0, []
    for script, text in SCRIPTS.items():
        for names, file in re.findall(r'^import \{([^}]*)\} from "(\..*)";$', text, re.MULTILINE):
            other = (APP / script).parent.joinpath(file).read_text(encoding="utf-8")
            exports = "\n".join(re.findall(r"^export .*$", other, re.MULTILINE))
            imported = re.findall(r"\w+", names)
            missing += [(script, name) for name in imported if not re.search(rf" {name}\b( =|\()", exports)]
            found += len(imported)
    assert missing == [] and found > 100


def test_a_component_finds_its_elements_by_a_class():
    """The first div in its root is Streamlit's: a script that emptied it removed the component's style sheet."""
    for path in ROOT.glob("attnviz/ui/components/*.js"):
        names = re.findall(r"""(?<!\.)parentElement\.querySelector\(["'](\w+)["']""", path.read_text(encoding="utf-8"))
        assert names == [], path.name


def test_boxes_are_measured_by_the_helpers_that_know_how_webkit_measures_in_a_zoomed_element():
    """WebKit has no `currentCSSZoom`, and measures in the element's own pixels; the others measure in the window's."""
    scripts = {Path(name).name: text for name, text in SCRIPTS.items()}
    assert "currentCSSZoom" in scripts.pop("call.js")
    own = {name: re.sub(r"inOwnPixels\([^()]*\.getBoundingClientRect", "", script) for name, script in scripts.items()}
    assert own["save.js"] != scripts["save.js"]
    assert [name for name, script in own.items() if re.search("getBoundingClientRect|currentCSSZoom", script)] == []


def test_only_the_server_folder_names_streamlits_elements():
    """By test id or class, which another version of Streamlit may change."""
    files = [path for path in APP.rglob("*.*") if path.suffix in (".js", ".css", ".py")]
    names = re.compile(r"data-testid|data-stale=|data-test-|[.]st[A-Z]\w|\"st[A-Z]\w+\"|_stcore|__streamlit")
    found = {path.relative_to(APP).parts[0] for path in files if names.search(path.read_text(encoding="utf-8"))}
    assert found == {"server"}


def test_what_is_wrong_is_noticed(tmp_path):
    broken = ["export default () => nowhere();", "export default () => {", "var a = 1; export default a;"]
    broken += ['import { a } from "./b.js";\nexport default 1;', "const a = 1;\nexport default 2;"]

    def status(script: str) -> int:
        (tmp_path / "it.js").write_text(script, encoding="utf-8")
        return javascript.lint(tmp_path)[0]

    assert [script for script in broken if status(script) == 0] == []
    assert status("const a = 1;\nexport default a;\n") == 0
