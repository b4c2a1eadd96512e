"""The components' scripts, sent inline or served as files, which a browser fetches once.

Streamlit sends an inline script again with every change of its component, 14 to 32 KB each, and the browser hashes it
each time. `app.py` adds the route to the server; without it, as in tests of one page, scripts are sent inline.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import sha256
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

HERE = Path(__file__).parent
FOLDER = "app/static/components"  # below the address at which Streamlit serves an app's own files
MAX_FILES = 32  # kept in memory; anyone may ask for other combinations of the scripts
FOR_EVER = {"Cache-Control": "public, max-age=31536000, immutable"}
# What is sent in place of a component's script: it imports the file, and draws with its function. It waits for the
# import inside the function, not on the module's top level: there, WebKit runs the second of two components of one kind
# before the module is evaluated. Streamlit awaits what the function returns, the cleanup, and shows an error.
LOADER = """const drawing = import(new URL("{url}", document.baseURI));
export default async (component) => (await drawing).default(component);
"""

_routes: list[Route] = []


def routes() -> list[Route]:
    """Return the server's route for scripts; components declared from now on name their script's URL."""
    _routes[:] = [Route(f"/{{base:path}}{FOLDER}/{{file}}", _answer)]
    return _routes


def of(names: tuple[str, ...]) -> str:
    """Return what Streamlit sends of these scripts: a line that imports their file, or all of them."""
    return LOADER.format(url=f"{FOLDER}/{file_name(names)}") if _routes else whole(names)


@lru_cache(MAX_FILES)
def whole(names: tuple[str, ...]) -> str:
    """Return these files of this folder, one after the other."""
    return "".join((HERE / f"{name}.js").read_text(encoding="utf-8") for name in names)


@lru_cache(MAX_FILES)
def file_name(names: tuple[str, ...]) -> str:
    """Return a name from which any process can make the file, and which differs for other contents."""
    return f"{'+'.join(names)}.{sha256(whole(names).encode()).hexdigest()[:12]}.js"


async def _answer(request: Request) -> Response:
    """Answer with the scripts that the file's name lists; a name from before an update is not to be stored."""
    file = request.path_params["file"]
    names = tuple(file.partition(".")[0].split("+"))
    if len(set(names)) < len(names) or not set(names) <= {path.stem for path in HERE.glob("*.js")}:
        return Response(status_code=404)
    headers = FOR_EVER if file == file_name(names) else {"Cache-Control": "no-store"}
    return Response(whole(names), media_type="text/javascript", headers=headers)
