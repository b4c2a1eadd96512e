"""The style sheet is in each page's HTML, and hides the rest of a page where one element is embedded."""

from urllib.request import Request, urlopen

import pytest
from streamlit.testing.v1 import AppTest

from attnviz.figures import theme
from attnviz.server.page_style import BASE, EARLY, LEFT, PageStyle, embedded_element, style
from attnviz.server.scripts import FOLDER, VERSION, tag
from attnviz.ui import frame
from tests.browser.server import ROOT, Server
from tests.waiting import result_of

HTML = "<html><head></head><body><div></div></body></html>"
TAGGED = [(b"etag", b"5"), (b"last-modified", b"today"), (b"content-length", b"50"), (b"x", b"y")]


def answered(scope: dict, content_type: str, *parts: bytes) -> tuple[dict[bytes, bytes], bytes, dict]:
    """Return headers and body that the middleware sends for an app's response, and the scope that the app receives."""
    sent, received = [], []

    async def send(message: dict) -> None:
        sent.append(message)

    async def app(scope: dict, _receive: object, send: object) -> None:
        received.append(scope)
        headers = [(b"content-type", content_type.encode()), *TAGGED]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        for at, part in enumerate(parts, 1):
            await send({"type": "http.response.body", "body": part, "more_body": at < len(parts)})

    asked = {
        "type": "http",
        "method": "GET",
        "path": "/",
        "query_string": b"",
        "headers": [(b"accept-encoding", b"gzip")],
    }
    result_of(PageStyle(app)({**asked, **scope}, None, send))
    return dict(sent[0]["headers"]), b"".join(each["body"] for each in sent[1:]), received[0]


@pytest.mark.parametrize("parts", [[HTML.encode()], [HTML[:20].encode(), HTML[20:].encode()]])
def test_html_gets_the_style_once(parts: list[bytes]):
    headers, body, asked = answered({}, "text/html; charset=utf-8", *parts)
    assert body.decode() == HTML.replace("<body>", f"<body><style>{BASE}</style>{''.join(map(tag, EARLY))}")
    assert headers[b"content-length"] == str(len(body)).encode() and headers[b"x"] == b"y"
    assert not {b"etag", b"last-modified"} & headers.keys()
    assert not asked["headers"]  # compressed HTML could not be changed


def test_the_style_sheets_colours_are_the_themes():
    for name in ("right", "neutral", "faint"):
        assert f"--{name}: {getattr(theme, name.upper())};" in BASE


def test_other_responses_stay_as_they_are():
    headers, body, _ = answered({}, "application/json", b"<body>", b"7")
    assert body == b"<body>7" and dict(TAGGED).items() <= headers.items()
    for scope in ({"path": "/static/js/index.5.js"}, {"method": "POST"}, {"type": "websocket", "method": None}):
        headers, body, asked = answered(scope, "text/html", b"<body>")
        assert body == b"<body>" and dict(TAGGED).items() <= headers.items() and asked["headers"]


def test_an_embedded_element_is_the_one_that_the_session_shows_alone():
    def key(path: str, query: str) -> str:
        element = embedded_element(path, query)
        return element.key if element else ""

    assert key("/heads", "embed=true&only=head-grid") == key("/base/heads/", "only=head-grid&embed=TRUE") == "head-grid"
    assert key("/", "embed=true&only=front-grid") == key("/base", "embed=true&only=front-grid") == "front-grid"
    assert key("/heads", "embed=true&only=lines") == "lines"  # its tab opens
    two = "embed=true&only=head-grid"
    others = ("only=head-grid", "embed=true", f"{two}&present=1", f"{two}&embed=0", "embed=false&only=head-grid",
              "embed=true&only=rope-pair", "embed=true&only=%FF")  # fmt: skip
    for other in others:
        assert key("/heads", other) == "", other


def test_a_server_sends_the_style_with_every_page(server: Server):
    alone = style(embedded_element("/heads", "embed=true&only=head-grid"), presented=False)
    assert ".st-key-head-grid" in alone
    for address in ("/", "/heads", "/rope/", "/nonsense", "/heads?embed=true&only=head-grid"):
        with urlopen(Request(server.url + address, headers={"Accept-Encoding": "gzip"})) as answer:
            body = answer.read()
        assert answer.headers["Content-Encoding"] is None and "ETag" not in answer.headers, address
        assert int(answer.headers["Content-Length"]) == len(body)
        only = f"body:not(:has(.st-key-{LEFT})) {{{alone}}}" if "only" in address else ""
        scripts = (f'<script type="module" async src="{FOLDER}/{VERSION}/{each}"></script>' for each in EARLY)
        early = "" if only else "".join(scripts)
        assert body.decode().count(f"<body><style>{BASE}{only}</style>{early}") == 1, address


@pytest.mark.parametrize("link", [{}, {"only": "head-grid", "embed": "true"}])
def test_without_it_the_style_is_an_element_of_the_page(monkeypatch: pytest.MonkeyPatch, link: dict[str, str]):
    monkeypatch.setattr(frame, "IN_HTML", False)
    app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60).switch_page("pages/1_heads.py")
    app.query_params.update(link)
    alone = ".st-key-head-grid {" if link else ""
    sent = [each.proto.body for each in app.run().get("html")]
    assert not app.exception and sum(BASE in each and alone in each for each in sent) == 1
