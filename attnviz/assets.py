"""The files of the browser side: scripts that import each other, and the markup and styles of the components.

Scripts are named by their path below `attnviz/`. They are ES modules: the app serves each (`server/scripts.py`), a page
that must be one file has them in one script (`bundled`).
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

FOLDER = Path(__file__).parent
COMPONENTS = FOLDER / "ui" / "components"
SCRIPTS = {
    path.relative_to(FOLDER).as_posix(): path.read_text(encoding="utf-8") for path in sorted(FOLDER.rglob("*.js"))
}
IMPORT = re.compile(r'^import ([^;]*?) from "(\..+?)";\n', re.MULTILINE)
EXPORT = re.compile(r"^export (?!default)", re.MULTILINE)
DEFAULT = re.compile(r"^export default ", re.MULTILINE)


def script_of(component: str) -> str:
    return f"ui/components/{component}.js"


def markup_of(component: str) -> str:
    """Return a component's HTML, which its script finds its elements in."""
    return (COMPONENTS / f"{component}.html").read_text(encoding="utf-8")


def style_of(component: str, css: str = "") -> str:
    """Return the styles of what a component's script imports, and its own, or those of another file `css`."""
    imported = [Path(each).stem for each in with_imported(script_of(component))[:-1]]
    files = [COMPONENTS / f"{each}.css" for each in (*imported, css or component)]
    return "".join(file.read_text(encoding="utf-8") for file in files if file.exists())


def with_imported(script: str, instead: Mapping[str, str] | None = None) -> list[str]:
    """Return a script and all that it imports, each after those that it imports itself.

    instead: other files to import in place of some.
    """
    found: dict[str, None] = {}

    def follow(each: str, above: tuple[str, ...] = ()) -> None:
        for _, path in _imports(each, instead or {}):
            if path not in (each, *above):
                follow(path, (each, *above))
        found[each] = None

    follow(script)
    return list(found)


def _imports(script: str, instead: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return what a script imports: the names, as written, and the path of the file."""
    here = posixpath.dirname(script)
    paths = [
        (names, posixpath.normpath(posixpath.join(here, other))) for names, other in IMPORT.findall(SCRIPTS[script])
    ]
    return [(names, instead.get(path, path)) for names, path in paths]


def joined(files: Sequence[str]) -> str:
    """Return these scripts as one module, without their imports and exports."""
    return "".join(EXPORT.sub("", IMPORT.sub("", SCRIPTS[each])) for each in files)


def bundled(script: str, instead: Mapping[str, str] | None = None) -> str:
    """Return a script and all that it imports as one script, in which each module is a function that is called once."""
    files = with_imported(script, instead)
    wanted: dict[str, set[str]] = {each: set() for each in files}  # what others import from each
    for each in files:
        for names, path in _imports(each, instead or {}):
            if names.startswith("{"):  # otherwise it is the default export
                wanted[path].update(re.findall(r"\w+", names))
    return "const modules = {};\n" + "".join(_as_function(each, wanted[each], instead or {}) for each in files)


def _as_function(script: str, exported: Collection[str], instead: Mapping[str, str]) -> str:
    imports = "".join(
        f"const {names} = modules[{json.dumps(path)}]{'' if names.startswith('{') else '.drawing'};\n"
        for names, path in _imports(script, instead)
    )
    body, n_defaults = DEFAULT.subn("const drawing = ", IMPORT.sub("", SCRIPTS[script]))
    given = ", ".join([*sorted(exported), *["drawing"] * n_defaults])
    return (
        f"modules[{json.dumps(script)}] = (() => {{\n{imports}{EXPORT.sub('', body)}\nreturn {{ {given} }};\n}})();\n"
    )
