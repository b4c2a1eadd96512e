"""Safety: the server's headers and refusals, and calls that the package must not contain."""

import ast
import re
import tomllib
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from tests.browser.server import Server

ROOT = Path(__file__).parent.parent
SOURCES = [*ROOT.glob("attnviz/**/*.py"), *ROOT.glob("pages/*.py"), ROOT / "app.py"]
STRANGER = "https://stranger.example"


def asked(server: Server, path: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], bytes]:
    """Return status, headers and body of one request that another site's page could send."""
    request = urllib.request.Request(f"{server.url}/{path}", method=method, headers={"Origin": STRANGER, **headers})
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, dict(answer.headers.items()), answer.read()
    except urllib.error.HTTPError as error:
        return error.code, dict(error.headers.items()), error.read()


# ---- the server


def test_the_configuration_is_the_strict_one():
    config = tomllib.loads((ROOT / ".streamlit" / "config.toml").read_text())
    assert (config["client"]["showErrorDetails"], config["client"]["toolbarMode"]) == ("none", "viewer")
    assert config["browser"]["gatherUsageStats"] is False
    assert config["server"]["enableXsrfProtection"] is config["server"]["enableCORS"] is True
    assert config["server"]["maxUploadSize"] == 1 and config["server"]["maxMessageSize"] <= 32


@pytest.mark.parametrize("path", ["", "heads", "_stcore/health", "_stcore/host-config", "_stcore/metrics"])
def test_no_other_site_may_read_an_answer(server, path):
    status, headers, _ = asked(server, path)
    assert status == 200
    assert [name for name in headers if name.lower().startswith("access-control-")] == []


def test_the_token_against_forged_requests_is_not_sent_along_from_other_sites(server):
    cookie = asked(server, "_stcore/health")[1]["set-cookie"]
    assert cookie.startswith("_streamlit_xsrf=") and "SameSite=Lax" in cookie


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
def test_nothing_is_uploaded_without_the_token(server, method):
    status, _, body = asked(server, "_stcore/upload_file/a/b", method)
    assert status == 403 and b"XSRF" in body


def test_no_other_site_may_open_a_session(server):
    address = server.url.replace("http", "ws") + "/_stcore/stream"
    with connect(address, origin=server.url, subprotocols=["streamlit"]):
        pass  # the page itself may, so the refusal below is meaningful
    with pytest.raises(InvalidStatus) as refused:
        connect(address, origin=STRANGER, subprotocols=["streamlit"])
    assert refused.value.response.status_code == 403


@pytest.mark.parametrize(
    "path", ["..%2f..%2f..%2fetc%2fpasswd", "static/..%2f..%2f..%2frequirements.txt", "app/static/app.py"]
)
def test_no_file_of_the_machine_is_served(server, path):
    _, _, body = asked(server, path)
    assert b"root:" not in body and b"torch==" not in body and b"import" not in body


@pytest.mark.parametrize("path", ["_stcore/agent/interact", "_stcore/agent/mcp"])
def test_no_machine_drives_the_app(server, path):
    status, _, body = asked(server, path, "POST")
    assert status in (400, 403) and b"does not serve the agent API" in body


# ---- the package


# A source without any of these words has none of the misdeeds below; to parse all sources takes seconds.
SUSPICIOUS = re.compile(
    r"pickle|dill|joblib|shelve|marshal|(np|numpy|torch)\.(load|save)|\b(eval|exec)\(|system|persist|unsafe_allow|shell"
)
# Of the calls below. Only these are written out: all of them would take a second.
LAST_NAMES = {"load", "save", "eval", "exec", "system", "read_pickle"}
KEYWORDS = {"persist", "unsafe_allow_html", "unsafe_allow_javascript", "shell", "allow_pickle"}


def called(tree: ast.AST) -> Iterator[tuple[str, set[str]]]:
    """Return the name of every call that may be a misdeed, with its keyword arguments."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and (
            _last_name(node) in LAST_NAMES or any(k.arg in KEYWORDS for k in node.keywords)
        ):
            yield ast.unparse(node.func), {f"{k.arg}={ast.unparse(k.value)}" for k in node.keywords}


def _last_name(call: ast.Call) -> str:
    return getattr(call.func, "attr", "") or getattr(call.func, "id", "")


def imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name.partition(".")[0] for name in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield (node.module or "").partition(".")[0]
        elif isinstance(node, ast.Call) and _last_name(node) in ("import_module", "__import__"):
            yield from (each.value for each in node.args[:1] if isinstance(each, ast.Constant))


def misdeeds(source: str) -> list[str]:
    """Return calls that could run untrusted data: pickles of any kind, code from text, a shell."""
    if not SUSPICIOUS.search(source):
        return []
    tree = ast.parse(source)
    bad = [name for name in imported(tree) if name in {"pickle", "dill", "joblib", "shelve", "marshal", "cloudpickle"}]
    for name, keywords in called(tree):
        last = name.rpartition(".")[2]
        if last == "load" and name.startswith(("np.", "numpy.")) and "allow_pickle=False" not in keywords:
            bad.append(name)
        if name in {"torch.load", "torch.save", "eval", "exec", "os.system", "pd.read_pickle"}:
            bad.append(name)
        if "persist='disk'" in keywords:  # st.cache_data would read its pickles back from there
            bad.append(name)
        if keywords & {"unsafe_allow_html=True", "unsafe_allow_javascript=True", "shell=True", "allow_pickle=True"}:
            bad.append(name)
    return bad


RUN = {  # files that may call exec, and for which code; never in the server's process
    "attnviz/practice/child.py": "the user's own file, in a separate process on the user's machine",
    "attnviz/practice/drills/lines.py": "lines of code from the same file",
}
IN_A_PROCESS_OF_THEIR_OWN = {"child_on_shipped": {"run_user_file"}, "run_user_file": set()}  # which files import them


def test_no_pickle_is_read_and_nothing_written_by_others_is_run():
    found = {str(path.relative_to(ROOT)): misdeeds(path.read_text()) for path in SOURCES}
    assert {path: names for path, names in found.items() if names} == dict.fromkeys(RUN, ["exec"])


def test_what_runs_a_persons_file_is_not_imported_by_the_server():
    def importers(name: str) -> set[str]:
        return {
            path.stem
            for path in SOURCES
            if re.search(rf"(import|\.){name} import |import {name}$", path.read_text(), re.MULTILINE)
        }

    assert {name: importers(name) for name in IN_A_PROCESS_OF_THEIR_OWN} == IN_A_PROCESS_OF_THEIR_OWN
    calls = {path.stem for path in SOURCES if "load_namespace(" in path.read_text()}
    assert calls == {"child", "child_on_shipped"}


def test_the_search_above_would_find_it():
    broken = [
        "import pickle", "from joblib import load", "import_module('dill')", "torch.load(f)", "np.load(f)",
        "np.load(f, allow_pickle=True)",
        "eval('1')", "st.markdown(x, unsafe_allow_html=True)", "st.cache_data(persist='disk')",
    ]  # fmt: skip
    assert [source for source in broken if not misdeeds(source)] == []


def sinks(script: str) -> list[str]:
    """Return the places in a script that would turn text into markup or code."""
    known = ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "srcdoc")
    return [sink for sink in known if sink in script]


def test_no_component_makes_markup_or_code_of_a_text():
    found = {path.name: sinks(path.read_text()) for path in ROOT.glob("attnviz/**/*.js")}
    assert found and {name: names for name, names in found.items() if names} == {}
    assert sinks("box.innerHTML = text") == ["innerHTML"]
