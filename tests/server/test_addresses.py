"""Addresses that are almost a page's lead to it, under any base path; a page's own is not redirected."""

from http.client import HTTPConnection
from urllib.parse import urljoin, urlsplit

import pytest

from attnviz.server.addresses import redirected
from tests.browser.server import Server


@pytest.mark.parametrize("base", ["/", "/demo/attnviz/"])
@pytest.mark.parametrize(
    ("path", "page"),
    [
        ("heads/x", "heads"), ("heads/", "heads"), ("heads/x/", "heads"), ("Heads", "heads"), ("DECODE/1", "decode"),
        ("overview", ""), ("overview/", ""), ("Overview/a/b", ""),
    ],
)  # fmt: skip
def test_what_is_almost_a_pages_address_leads_to_it(base: str, path: str, page: str) -> None:
    to = redirected(base + path)
    assert to is not None and urljoin(base + path, to) == base + page


@pytest.mark.parametrize("path", ["/", "/heads", "/demo/heads", "/nonsense", "/static/js/index.js", ""])
def test_other_addresses_stay(path: str) -> None:
    assert redirected(path) is None


@pytest.mark.slow
def test_a_browser_is_redirected_with_the_query_and_streamlits_own_requests_are_not(server: Server) -> None:
    def answered(path: str, accept: str) -> tuple[int, str | None]:
        connection = HTTPConnection(urlsplit(server.url).netloc, timeout=20)
        connection.request("GET", path, headers={"accept": accept})
        answer = connection.getresponse()
        connection.close()
        return answer.status, answer.headers["location"]

    to = "../decode?model=mla&text=a%20b%26c"
    assert answered("/decode/1?model=mla&text=a%20b%26c", "text/html,*/*") == (302, to)
    assert answered("/heads/x", "*/*")[0] != 302  # a script, an image
    assert answered("/heads", "text/html") == (200, None)
