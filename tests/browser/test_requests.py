"""No page asks any host but the server: `watched` in conftest.py hears of it in every browser test."""

import re
from collections.abc import Callable

import pytest

from tests.browser.conftest import watching
from tests.browser.elsewhere import Elsewhere

FETCH = "url => fetch(url).catch(() => {})"
CONNECT = "url => new Promise((resolve) => (new WebSocket(url).onclose = resolve))"
REQUESTS = {  # {what the proxy is asked: URL, how it is asked for}
    "GET http://elsewhere.invalid/a": ("http://elsewhere.invalid/a", FETCH),
    "CONNECT elsewhere.invalid:443": ("https://elsewhere.invalid/a", FETCH),
    "CONNECT elsewhere.invalid:80": ("ws://elsewhere.invalid/a", CONNECT),
}


@pytest.mark.parametrize("asked", REQUESTS)
def test_a_request_to_another_host_fails_a_test(new_context: Callable, elsewhere: Elsewhere, asked: str) -> None:
    url, how = REQUESTS[asked]
    with pytest.raises(AssertionError, match=re.escape(asked)), watching(elsewhere) as watch:
        watch(new_context().new_page()).evaluate(how, url)
