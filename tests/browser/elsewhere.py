"""Requests of Chromium to any host but this machine.

They go through a proxy, which costs the pages nothing. Listening to each request would take 0.05 s of every page.
"""

from socketserver import StreamRequestHandler, ThreadingTCPServer


class Elsewhere(ThreadingTCPServer):
    """A proxy that refuses all requests, and remembers the first line of each."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Refusal)
        self.asked: list[str] = []

    @property
    def option(self) -> str:
        """Chromium's option to use it; requests to localhost never go through a proxy."""
        return f"--proxy-server=127.0.0.1:{self.server_address[1]}"

    def told(self) -> list[str]:
        """Return the requests since the last call."""
        told, self.asked = self.asked, []
        return told


class Refusal(StreamRequestHandler):
    server: Elsewhere

    def handle(self) -> None:
        self.server.asked.append(self.rfile.readline(4096).decode(errors="replace").strip())
        self.wfile.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
