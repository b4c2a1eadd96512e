"""Layer rules: direction of imports, pages without code, no paths of one machine.

    characters -> text
    exercises -> {session, practice}
    equations -> mechanisms -> config -> modules -> {text, checkpoints} -> trace -> {analysis, experiments}
    {runs, trace} -> recorded -> compute
    modules -> decode
    config -> cost -> {session, checkpoints}
    modules -> steps
    {trace, cost, decode, steps} -> mistakes
    {analysis, experiments, steps, mistakes} -> practice
    {analysis, cost, experiments, steps, decode, mistakes} -> figures
    {session, figures, practice} -> compute -> server -> ui -> pages, app.py
    {phrases, characters} -> runs
    {runs, assets, figures} -> notebook; assets -> server
    {text, runs} -> recording

Each rule is a function from source text to error sentences; one test per rule reads all files and reports every
violation. A second test feeds the rule sources that violate it, so that a rule that finds nothing is noticed.
"""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

# For each package: the packages next to it on its left, which it may import, and its third-party libraries.
NEXT_ON_THE_LEFT = {
    "checks": (),
    "started": (),
    "facts": ("checks",),
    "phrases": (),
    "exercises": (),
    "characters": (),
    "equations": (),
    "mechanisms": ("checks", "equations", "phrases"),
    "config": ("facts", "phrases", "mechanisms"),
    "modules": ("config",),
    "text": ("modules", "characters"),
    "checkpoints": ("modules", "text", "cost"),
    "trace": ("checkpoints", "text"),
    "layerwise": ("trace",),
    "recorded": ("runs", "trace"),
    "experiments": ("trace",),
    "steps": ("modules",),
    "decode": ("modules", "cost"),
    "mistakes": ("cost", "decode", "steps", "trace"),
    "analysis": ("trace",),
    "cost": ("config",),
    "runs": ("characters", "checks", "phrases"),
    "recording": ("text", "runs"),
    "counting": (),  # a process of its own, which compute starts
    "practice": ("exercises", "mistakes", "experiments", "analysis", "steps", "started"),
    "figures": ("analysis", "cost", "experiments", "steps", "decode", "mistakes"),
    "session": ("exercises", "cost"),
    "compute": ("session", "figures", "layerwise", "recorded", "practice"),
    "assets": (),
    "notebook": ("assets", "figures", "runs"),
    "server": ("assets", "compute"),
    "ui": ("server",),  # its frame draws the workarounds that run in the browser
    "pages": ("ui",),
    "training": ("experiments",),
    "__main__": ("practice", "runs"),  # the command: starts the app, or the judge
}
PACKAGES = {
    "checks": set(),
    "started": set(),
    "facts": set(),
    "phrases": set(),
    "exercises": set(),
    "characters": {"tokenizers"},
    "equations": set(),
    "mechanisms": set(),
    "config": set(),
    "modules": {"torch", "numpy"},
    "text": {"tokenizers"},
    "checkpoints": {"torch", "numpy", "safetensors", "huggingface_hub"},
    "trace": {"torch", "numpy"},
    "layerwise": {"torch", "numpy"},
    "recorded": {"numpy"},
    "experiments": {"torch", "numpy"},
    "steps": {"torch", "numpy"},
    "decode": {"torch"},
    "mistakes": {"torch", "numpy"},
    "practice": {"torch", "numpy", "safetensors", "psutil"},
    "analysis": {"numpy"},
    "cost": set(),
    "runs": {"numpy", "safetensors"},
    "recording": {"torch", "transformers", "tokenizers", "numpy", "PIL"},
    "counting": {"torch", "transformers"},
    "figures": {"numpy", "plotly"},
    "session": set(),
    "compute": {"numpy", "cachetools"},
    "ui": {"numpy", "streamlit", "segno", "starlette"},  # starlette: st.App takes the route and the middleware as such
    "assets": set(),
    "notebook": {"numpy"},
    "server": {"streamlit", "starlette", "google", "psutil"},  # google: the messages of Streamlit's protocol
    "pages": {"streamlit"},
    "training": {"torch", "numpy", "safetensors", "tokenizers"},
    "__main__": {"streamlit", "click"},  # click: Streamlit's own command
}
STAND_ALONE = {
    f"attnviz.modules.{name}" for name in ("attention", "delta", "sparse", "rope", "norm", "feedforward", "cache")
}
MAX_SERVER_LINES = 1010  # of all files of attnviz/server together
CACHES = {"lru_cache", "cachetools", "cache_data", "cache_resource", "computed_once"}
MECHANISMS = {"mha", "gqa", "mqa", "mla"}
MIXERS = {"Grouped", "Latent", "GatedDelta"}  # their classes
# Where mechanisms are made, read from files or taught; hf_*.py read config.json too.
COMPARING = {"mechanisms", "modules", "config", "checkpoints", "training", "mistakes", "practice"}
MODULES = re.compile(r"attnviz[.]modules\b")
# In brackets, or this file would violate its own rule.
PATHS_OF_ONE_MACHINE = re.compile(r"[/]work/|[/]farm/|[/]root/|[/]tmp/|[.][.]/shared|[.][.]/[.]library")


def room_of(module: str) -> str | None:
    """Return the package of a module of the project: "ui" for "attnviz.ui.state"; None for other modules."""
    first, *rest = module.split(".")
    if first in ("app", "pages"):
        return "pages"
    return rest[0] if first == "attnviz" and rest else None


@cache
def left_of(room: str) -> set[str]:
    return {other for near in NEXT_ON_THE_LEFT[room] for other in (near, *left_of(near))}


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


@cache
def nodes(source: str) -> list[ast.AST]:
    return list(ast.walk(ast.parse(source)))


def imported(source: str, module: str, is_package: bool = False) -> Iterator[str]:
    """Return the full names of all imports in a source: also inside functions, relative, and by name as a string."""
    package = module.split(".") if is_package else module.split(".")[:-1]
    for node in nodes(source):
        match node:
            case ast.Import():
                yield from (alias.name for alias in node.names)
            case ast.ImportFrom():
                base = package[: len(package) - node.level + 1] if node.level else []
                start = ".".join([*base, *([node.module] if node.module else [])])
                yield from (f"{start}.{alias.name}" for alias in node.names)
            case ast.Call(func=ast.Name(id="__import__" | "import_module"), args=[ast.Constant(value=str(name)), *_]):
                yield name
            case ast.Call(func=ast.Attribute(attr="import_module"), args=[ast.Constant(value=str(name)), *_]):
                yield name


def wrong_imports(source: str, module: str, is_package: bool = False) -> list[str]:
    room = room_of(module)
    if room is None:
        return [f"{module} imports {name}" for name in imported(source, module) if room_of(name)]
    if room not in NEXT_ON_THE_LEFT:
        return [f"{module} is in no room: give {room!r} its place in NEXT_ON_THE_LEFT and PACKAGES"]
    wrong, libraries = [], sys.stdlib_module_names | PACKAGES[room] | {"attnviz"}
    for name in imported(source, module, is_package):
        top, other = name.split(".")[0], room_of(name)
        if other is None and top not in libraries:
            wrong.append(f"{module} imports {top}, which {room} may not")
        if module in STAND_ALONE and (other is not None or top == "attnviz"):
            wrong.append(f"{module} imports {name}: it must stand alone")
        elif other is not None and other != room and other not in left_of(room):
            wrong.append(f"{module} imports {name}: {other} does not lie to the left of {room}")
    return wrong


def code_in_a_page(source: str) -> list[str]:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
    return [f"line {n.lineno}: a page defines nothing" for n in nodes(source) if isinstance(n, kinds)]


def stored_or_computed_in_a_page(source: str, module: str) -> list[str]:
    """A file in attnviz/ui/pages caches nothing and runs no module: both belong to attnviz/compute."""
    names = set(imported(source, module)) | {ast.unparse(n) for n in nodes(source) if isinstance(n, ast.Attribute)}
    caches = [name for name in names if name.split(".")[-1] in CACHES or name == "functools.cache"]
    return [f"{module} uses {name}" for name in sorted({*caches, *filter(MODULES.match, names)})]


def compared_mechanisms(source: str) -> list[str]:
    """A mechanism is asked what it has; its name or class is compared only where it is made or read from a file."""
    wrong = []
    for node in nodes(source):
        match node:
            case ast.Compare():
                parts = [n for side in (node.left, *node.comparators) for n in ast.walk(side)]
            case ast.MatchValue(value=value):
                parts = [value]
            case ast.Call(func=ast.Name(id="isinstance"), args=[_, kind]):
                parts = list(ast.walk(kind))
            case _:
                continue
        named = {getattr(n, "value", None) for n in parts if isinstance(n, ast.Constant)}
        if named & MECHANISMS or MIXERS & {getattr(n, "id", "") for n in parts}:
            wrong.append(f"line {getattr(node, 'lineno', 0)} compares a mechanism's name: ask config.mixer")
    return wrong


def paths_of_one_machine(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if PATHS_OF_ONE_MACHINE.search(line)]


def first_circle(sources: Mapping[str, str]) -> list[str]:
    """Return modules of which each imports the next, also inside a function, and the last the first; [] if none."""
    wanted = {module: {*imported(source, module)} for module, source in sources.items()}
    named = {
        module: {name if name in sources else name.rpartition(".")[0] for name in wanted[module]} for module in sources
    }
    graph = {module: {name for name in names if name in sources and name != module} for module, names in named.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


SOURCES = [ROOT / "app.py", *sorted((ROOT / "pages").glob("*.py")), *sorted((ROOT / "attnviz").rglob("*.py"))]
PARTS = [path for path in SOURCES if path.parent == ROOT / "attnviz" / "ui" / "pages"]
PAGES = [path for path in SOURCES if room_of(module_of(path)) == "pages"]
TRACKED = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
TEXTS = [path for path in TRACKED if not path.endswith((".safetensors", ".npz", ".png"))]


WRONG_IMPORTS = [
    ("attnviz.modules.attention", "from attnviz.trace import trace"),
    ("attnviz.modules.attention", "from attnviz.modules.rope import Rope"),
    ("attnviz.modules.norm", "def late():\n    from . import parts"),
    ("attnviz.modules.latent", "from attnviz.trace import trace"),
    ("attnviz.modules.attention", "def late():\n    from attnviz import ui"),
    ("attnviz.modules.attention", "from ..figures import theme"),
    ("attnviz.modules.attention", "import pandas"),
    ("attnviz.config", "import torch"),
    ("attnviz.cost", "import numpy as np"),
    ("attnviz.cost", "from attnviz.modules import KVCache"),
    ("attnviz.analysis", "import torch.nn.functional as F"),
    ("attnviz.figures.heads", "import torch"),
    ("attnviz.figures.heads", "import streamlit as st"),
    ("attnviz.ui.charts", "import plotly.graph_objects as go"),
    ("attnviz.ui.charts", "import importlib\nimportlib.import_module('plotly')"),
    ("attnviz.ui.charts", "from attnviz.training import train"),
    ("pages.1_heads", "import numpy as np"),
    ("pages.1_heads", "from attnviz.training.train import train"),
    ("app", "import torch"),
    ("attnviz.runs.run", "import torch"),
    ("attnviz.runs.run", "from attnviz.trace import trace"),
    ("attnviz.recording.inputs", "from attnviz.trace import trace"),
    ("attnviz.newroom", ""),
    ("attnviz", "from attnviz.modules import attend"),
]


def test_imports_come_from_the_left() -> None:
    assert [
        wrong
        for path in SOURCES
        for wrong in wrong_imports(path.read_text(), module_of(path), path.name == "__init__.py")
    ] == []


def test_a_wrong_import_is_noticed() -> None:
    missed = [
        (module, source)
        for module, source in WRONG_IMPORTS
        if len(wrong_imports(source, module, module == "attnviz")) != 1
    ]
    assert missed == []


def test_right_imports_are_let_pass() -> None:
    source = "import math\nimport torch\nfrom .rope import Rope\nfrom attnviz import config\n"
    assert wrong_imports(source + "from attnviz.checks import ConfigError", "attnviz.modules.latent") == []
    assert wrong_imports("import math\nimport torch", "attnviz.modules.rope") == []
    assert wrong_imports("from .ui import frame", "attnviz.ui", is_package=True) == []


def test_a_page_defines_nothing() -> None:
    assert [f"{path.name}, {wrong}" for path in PAGES for wrong in code_in_a_page(path.read_text())] == []


def test_code_in_a_page_is_noticed() -> None:
    broken = ["def f(): 1", "if True:\n    class C: a = 1", "f = lambda: 1", "async def f(): 1"]
    assert [source for source in broken if len(code_in_a_page(source)) != 1] == []


def test_a_part_of_a_page_stores_and_computes_nothing() -> None:
    wrong = [each for path in PARTS for each in stored_or_computed_in_a_page(path.read_text(), module_of(path))]
    assert len(PARTS) > 10 and wrong == [], "move it to attnviz/compute"


def test_a_cache_or_a_module_in_a_page_is_noticed() -> None:
    broken = [
        "from functools import lru_cache", "from functools import cache", "import functools\nf = functools.cache(g)",
        "import cachetools", "@st.cache_data\ndef f(): 1", "models.computed_once(1, f)", "import attnviz.modules",
        "from attnviz.modules.rope import Rope", "from attnviz import modules",
    ]  # fmt: skip
    assert [
        source for source in broken if len(stored_or_computed_in_a_page(source, "attnviz.ui.pages.cost")) != 1
    ] == []
    right = "from functools import partial\nfigures.cache(models)\nfrom attnviz.compute import models"
    assert stored_or_computed_in_a_page(right, "attnviz.ui.pages.cost") == []


def test_the_workarounds_stay_small() -> None:
    files = [path for path in TRACKED if path.startswith("attnviz/server/")]
    assert 0 < sum(len((ROOT / path).read_text(encoding="utf-8").splitlines()) for path in files) <= MAX_SERVER_LINES


def test_a_mechanism_is_asked_and_not_compared() -> None:
    asking = [path for path in SOURCES if room_of(module_of(path)) not in COMPARING and "hf_" not in path.name]
    found = {str(path.relative_to(ROOT)): compared_mechanisms(path.read_text()) for path in asking}
    assert len(found) > 100 and {path: wrong for path, wrong in found.items() if wrong} == {}


def test_a_compared_mechanism_is_noticed() -> None:
    broken = [
        'c.attention == "mla"', '"mha" != kind', 'kind in ("gqa", "mqa")', 'match kind:\n    case "mla": 1',
        "isinstance(layer.mixer, Latent)", "isinstance(part, Dense | Grouped)", '(c and c.attention) == "mla"',
    ]  # fmt: skip
    assert [source for source in broken if len(compared_mechanisms(source)) != 1] == []
    right = 'offer("mla")\nSettings(attention="gqa")\na == b\nc.mixer.absorbed\nisinstance(part, Experts)\nhue["mla"]'
    assert compared_mechanisms(right) == []


def test_no_modules_import_in_a_circle() -> None:
    sources = {module_of(path): path.read_text() for path in SOURCES if path.name != "__init__.py"}
    sources["attnviz.compute.view"] = ""  # computes what nobody chose with modules that take a view
    assert first_circle(sources) == []


def test_a_circle_is_noticed() -> None:
    circle = {"attnviz.a": "def late():\n    from attnviz.b import f", "attnviz.b": "from attnviz import a"}
    assert set(first_circle(circle)) == {"attnviz.a", "attnviz.b"}
    assert first_circle({**circle, "attnviz.b": "import math"}) == []


def test_no_path_of_one_machine() -> None:
    found = {path: paths_of_one_machine((ROOT / path).read_text(encoding="utf-8")) for path in TEXTS}
    assert {path: lines for path, lines in found.items() if lines} == {}


def test_a_path_of_one_machine_is_noticed() -> None:
    assert paths_of_one_machine("DATA = '/ro" + "ot/data'\n") == ["DATA = '/ro" + "ot/data'"]


RUN = "from streamlit.testing.v1 import AppTest; app = AppTest.{}.run(timeout=60); assert not app.exception"
HEAVY = ("torch", "plotly", "transformers", "pandas", "pyarrow", "numpy")
EMPTY = "from_string('import streamlit')"


def heavy_after(*statements: str) -> list[set[str]]:
    """Run the statements in a new Python process, and return the heavy modules that it has imported after each."""
    code = "\n".join(["import sys", *(f"{each}\nprint('imported', *sys.modules)" for each in statements)])
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    found = [line.split()[1:] for line in run.stdout.splitlines() if line.startswith("imported ")]
    assert len(found) == len(statements)
    return [{name for name in names if name.split(".")[0] in HEAVY} for names in found]


@pytest.mark.slow
def test_server_and_frame_and_front_door_open_without_anything_heavy() -> None:
    """The server's module and the frame of a page without numpy too; then an overview; and after both, what is noticed.

    Streamlit itself, and an empty page, go before: they import parts of plotly. torch is not imported to be noticed:
    that would take most of the test's time.
    """
    streamlit, server, frame, numpy, empty, overview, figure = heavy_after(
        "import streamlit",
        "import app",
        "import attnviz.ui.frame, attnviz.ui.state",
        "import numpy",
        RUN.format(EMPTY),
        RUN.format("from_file('app.py')"),
        "import plotly.graph_objects as go; go.Figure()",
    )
    assert streamlit == server == frame and not {"torch", "pandas", "numpy"} & frame and "numpy" in numpy
    assert [name for name in overview - empty if not name.startswith("numpy")] == []
    assert not {"torch", "transformers"} & empty
    assert figure - overview != set()
