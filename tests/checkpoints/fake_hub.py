"""A local hub: serves the requests that huggingface_hub sends to huggingface.co from a folder."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

COMMIT = "5" * 40


class FakeHub:
    """A local hub server. `asked`: (method, file, first byte) of each request for a file."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self.folder, self.asked = name, folder, list[tuple[str, str, int]]()

    def handler(hub) -> type[BaseHTTPRequestHandler]:
        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *args: object) -> None:
                pass

            def do_HEAD(self) -> None:
                self.answer(body=False)

            def do_GET(self) -> None:
                self.answer(body=True)

            def answer(self, body: bool) -> None:
                path = self.path.partition("?")[0]
                if path.startswith(f"/api/models/{hub.name}"):
                    files = [{"rfilename": p.name, "size": p.stat().st_size} for p in sorted(hub.folder.iterdir())]
                    self.send(200, json.dumps({"id": hub.name, "sha": COMMIT, "siblings": files}).encode(), {}, body)
                elif path.startswith(f"/{hub.name}/resolve/"):
                    self.file(path.rpartition("/")[2], body)
                else:
                    self.send(404, b"{}", {"X-Error-Code": "RepoNotFound"}, body)

            def file(self, name: str, body: bool) -> None:
                content = (hub.folder / name).read_bytes()
                start = int((re.findall(r"bytes=(\d+)-", self.headers.get("Range", "")) or [0])[0])
                hub.asked.append((self.command, name, start))
                etag = hashlib.sha256(content).hexdigest()
                headers = {"ETag": f'"{etag}"', "X-Repo-Commit": COMMIT}
                if start:
                    headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
                self.send(206 if start else 200, content[start:], headers, body)

            def send(self, status: int, content: bytes, headers: dict[str, str], body: bool) -> None:
                self.send_response(status)
                for name, value in (headers | {"Content-Length": str(len(content))}).items():
                    self.send_header(name, value)
                self.end_headers()
                with suppress(ConnectionError):  # the client has disconnected
                    self.wfile.write(content if body else b"")

        return Handler


@contextmanager
def fake_hub(name: str, folder: Path) -> Iterator[tuple[FakeHub, str]]:
    """Serve the folder as the model `name`; yields the hub and its address."""
    hub = FakeHub(name, folder)
    server = ThreadingHTTPServer(("127.0.0.1", 0), hub.handler())
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield hub, f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
