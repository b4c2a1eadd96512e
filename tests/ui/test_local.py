"""Detection of local requests: a loopback host name, and no proxy headers."""

import pytest

from attnviz.ui.local import is_local_request


@pytest.mark.parametrize("host", ["localhost:8501", "127.0.0.1:8501", "[::1]:8501", "localhost"])
def test_the_machines_own_browser(host):
    assert is_local_request({"Host": host})


@pytest.mark.parametrize(
    "headers",
    [
        {}, {"Host": ""}, {"Host": "example.org"}, {"Host": "localhost.example.org"}, {"Host": "127.0.0.1.nip.io"},
        {"Host": "localhost", "X-Forwarded-For": "1.2.3.4"}, {"Host": "localhost", "Forwarded": "for=1.2.3.4"},
        {"Host": "127.0.0.1", "X-Real-Ip": "1.2.3.4"}, {"Host": "127.0.0.1", "Via": "1.1 proxy"},
    ],
)  # fmt: skip
def test_somebody_else(headers):
    assert not is_local_request(headers)
