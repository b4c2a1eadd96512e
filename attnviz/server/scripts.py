"""The app's scripts, served as ES modules that import each other: a browser fetches each of them once.

Without it: Streamlit sends an inline script again with every change of its component, 14 to 32 KB each, and the browser
hashes it each time. So they are where app.py only runs as a script, without the route. Since Streamlit 1.51, the first
with such components; observed in 1.67. Can be removed when a component can name files of an app that is not installed
as a package. No upstream issue.
"""

from __future__ import annotations

import json
from hashlib import sha256

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from attnviz.assets import SCRIPTS, joined, with_imported

VERSION = sha256(json.dumps(SCRIPTS).encode()).hexdigest()[:12]
FOLDER = "app/static/scripts"  # below the address at which Streamlit serves an app's own files
FOR_EVER = {"Cache-Control": "public, max-age=31536000, immutable"}
# What is sent in place of a component's script: it draws with the default export, and the others are what that module
# imports, since one after the other they would take a round trip each. It waits inside the function, not on the
# module's top level: there, WebKit runs the second of two components of one kind before the module is evaluated.
# Streamlit awaits what the function returns, the cleanup, and shows an error.
LOADER = """const drawing = Promise.all({files}.map((file) => import(new URL(`{folder}/${{file}}`, document.baseURI))));
export default async (component) => (await drawing).find((each) => each.default)?.default(component);
"""

_routes: list[Route] = []


def routes() -> list[Route]:
    """Return the server's route for scripts; components declared from now on import theirs from it."""
    _routes[:] = [Route(f"/{{base:path}}{FOLDER}/{{version}}/{{file:path}}", _answer)]
    return _routes


def loader(*scripts: str) -> str:
    """Return what Streamlit sends of a component with these scripts, paths in SCRIPTS; one has a default export."""
    files = list(dict.fromkeys(each for script in scripts for each in with_imported(script)))
    return LOADER.format(files=json.dumps(files[::-1]), folder=f"{FOLDER}/{VERSION}") if _routes else joined(files)


def tag(script: str) -> str:
    """Return the HTML that runs a script as soon as the page is open, before a component can; "" without the route.

    A component that imports it too finds it loaded.
    """
    return f'<script type="module" async src="{FOLDER}/{VERSION}/{script}"></script>' if _routes else ""


async def _answer(request: Request) -> Response:
    """Answer with a script; a browser may not store one under the name of another version."""
    version, file = (request.path_params[name] for name in ("version", "file"))
    if file not in SCRIPTS:
        return Response(status_code=404)
    headers = FOR_EVER if version == VERSION else {"Cache-Control": "no-store"}
    return Response(SCRIPTS[file], media_type="text/javascript", headers=headers)
