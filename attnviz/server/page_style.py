"""The style sheet of the pages, in their HTML: in force before anything is drawn, and not sent again by each run.

Without it: the style sheet is an element of the page, so among the script's first messages, and the browser loads
another of Streamlit's scripts and renders once more before the first drawing (`make bench`: embedded figure). Relies on
Streamlit's index.html, test ids and class names; observed in 1.67. Can be removed when an app can have a style sheet.
No upstream issue.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from starlette.datastructures import MutableHeaders
from starlette.middleware import Middleware

from attnviz import assets
from attnviz.server import scripts
from attnviz.server.switches import wanted
from attnviz.session.page import Element
from attnviz.session.pages import ELEMENTS, PAGES
from attnviz.session.settings import Settings

IN_HTML = wanted("page_style")
FILES = Path(__file__).with_name("page_style.css"), *sorted((assets.FOLDER / "ui").glob("*.css"))
EARLY = "ui/components/chart_calculations.js", "ui/components/keeps.js"  # run before the first drawing
BASE = "".join(file.read_text(encoding="utf-8") for file in FILES)

# Hides everything but the element and its contents; its containers take the full width, without gaps. A lesson does not
# frame it: there is nothing beside it.
ALONE = """
.stMainBlockContainer :is(.stElementContainer, .stExpander, .stColumn):not(
  .{it}, .{it} *, :has(.{it}, .stAlert)
) {{ display: none; }}
.stMainBlockContainer .stColumn:has(.{it}) {{ width: 100%; flex: 1 1 100%; }}
.stMainBlockContainer .stVerticalBlock:not(.{it}, .{it} *) {{ gap: 0; }}
.stMainBlockContainer :is(.stAlert, .stPopover) {{ margin-bottom: 0.5rem; }}
.stMainBlockContainer {{ padding: 0.75rem 1rem !important; max-width: none; }}
.stAppHeader {{ display: none; }}
.{it} {{ --modebar: 14px; outline: none !important; }}
"""
LEFT = "not-alone"  # key of a container on embedded pages that do not show the address's element alone, or not any more
WHOLE_PAGE = """
.stMainBlockContainer { --zoom: 1; zoom: var(--zoom); }
@media (min-width: 900px) { .stMainBlockContainer { --zoom: 1.1; } }
@media (min-width: 1200px) { .stMainBlockContainer { --zoom: 1.4; } }
.stElementContainer:has(.stPlotlyChart) { zoom: calc(1 / var(--zoom)); }  /* plotly takes its box for unzoomed */
body:has(.st-key-lesson-bar) .stColumn:has(.st-key-mistake-list) { display: none; }  /* the lesson has chosen one */
"""
PRESENTED = """
.stAppHeader, .stSidebar { display: none; }
[data-testid="stBottomBlockContainer"] { padding-block: 0.25rem; }
@media (min-width: 900px) { [data-testid="stBottomBlockContainer"] { zoom: 1.1; } }
@media (min-width: 1200px) { [data-testid="stBottomBlockContainer"] { zoom: 1.4; } }
.st-key-bar-presented { flex-direction: row; align-items: center; gap: 1rem; }
.st-key-bar-presented > * { flex: none; width: auto; }
.st-key-bar-presented > :first-child { flex: 1; }  /* the text */
.st-key-lesson-text { max-height: 26vh; max-width: none; }
.st-key-lesson-tools { max-width: 12.5rem; }
@media (min-width: 800px) and (min-aspect-ratio: 5 / 4) {  /* a lesson's text beside the drawing */
  body:has(.st-key-lesson-bar) {
    .stMainBlockContainer { padding-right: calc(32% + 1rem / var(--zoom, 1)) !important; }
    [data-testid="stBottom"] { position: fixed; inset: 0 0 0 auto; width: 32vw; overflow-y: auto; }
    [data-testid="stBottomBlockContainer"] { zoom: var(--text-zoom, 1); padding: 0.75rem 1rem; }  /* by stage.js */
    .st-key-bar-presented { flex-direction: column; align-items: stretch; }
    .st-key-lesson-text { max-height: none; overflow: visible; }
    .st-key-lesson-question { flex-direction: column; align-items: flex-start; gap: 0.25rem; }
    .st-key-lesson-tools { max-width: none; }
    .st-key-lesson-tools > :first-child { flex-basis: 100%; }
    .st-key-bar-presented > :nth-child(2) { order: -1; }  /* the buttons */
  }
}
"""


class PageStyle:
    """ASGI middleware: add the style sheet, an embedded element's rules and an early script to the HTML of pages."""

    def __init__(self, app: Callable) -> None:
        self.app = app

    async def __call__(self, scope: dict[str, Any], receive: Callable, send: Callable) -> None:
        if scope.get("method") != "GET" or "." in scope["path"].rpartition("/")[2]:
            await self.app(scope, receive, send)
            return
        element = embedded_element(scope["path"], scope["query_string"].decode("utf-8", "replace"))
        alone = f"body:not(:has(.st-key-{LEFT})) {{{style(element, presented=False)}}}" if element else ""
        early = "".join(map(scripts.tag, EARLY)) if not element else ""
        page = _Styled(f"<body><style>{BASE}{alone}</style>{early}", send)
        headers = [(name, value) for name, value in scope["headers"] if name != b"accept-encoding"]
        await self.app({**scope, "headers": headers}, receive, page.send)


def embedded_element(path: str, query: str) -> Element | None:
    """Return the element that the embedded page at this address shows alone when it is opened."""
    link = dict(parse_qsl(query, keep_blank_values=True))
    if link.get("embed", "").lower() != "true":
        return None
    page = PAGES.get(path.rstrip("/").rpartition("/")[2], PAGES[""])  # Streamlit opens the overview for other addresses
    settings, _ = Settings.from_link(link, page)
    return None if settings.present or settings.only not in page.keys else ELEMENTS[settings.only]


def style(element: Element | None, presented: bool) -> str:
    """Return the CSS rules that hide everything but the element, and those of presentation mode."""
    rules = ALONE.format(it=element.css_class) if element else ""
    return rules + (PRESENTED + WHOLE_PAGE * (not element) if presented else "")


class _Styled:
    """An ASGI `send` that adds a style sheet to an HTML document: below the head, to which Streamlit adds its rules."""

    def __init__(self, style: str, send: Callable) -> None:
        self._style, self._send = style.encode(), send
        self._start: dict[str, Any] = {}
        self._body = b""

    async def send(self, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(raw=message["headers"])
            if headers.get("content-type", "").startswith("text/html"):
                self._start = message
                return
        if not self._start:
            await self._send(message)
            return
        self._body += message.get("body", b"")
        if not message.get("more_body"):
            await self._send_all()

    async def _send_all(self) -> None:
        body = self._body.replace(b"<body>", self._style, 1)
        headers = MutableHeaders(raw=list(self._start["headers"]))
        headers["content-length"] = str(len(body))
        for name in ("etag", "last-modified"):  # of the file without the style: a 304 would keep an earlier style
            del headers[name]
        await self._send({**self._start, "headers": headers.raw})
        await self._send({"type": "http.response.body", "body": body})


MIDDLEWARE = Middleware(PageStyle)
