"""Requests that are taken for those of this machine's own browser, and all others."""

from itertools import product

import pytest

from attnviz.session.local import refused

HERE = {"Host": "localhost:8501", "User-Agent": "Chromium"}


@pytest.mark.parametrize(
    "address, headers, asked_by",
    [
        (None, HERE, None), ("", HERE, None), ("0.0.0.0", HERE, None), ("192.168.1.5", HERE, None),
        ("demo.example", HERE, None), ("127.0.0.1.demo.example", HERE, None),
        ("127.0.0.1", {}, None), ("127.0.0.1", {"Host": ""}, None), ("127.0.0.1", {"Host": "demo.example"}, None),
        ("127.0.0.1", {"Host": "127.0.0.1.nip.io"}, None), ("127.0.0.1", HERE | {"Via": ""}, None),
        ("127.0.0.1", {"Host": "demo.example:443"}, None), ("127.0.0.1", {"host": "localhost.demo.example"}, None),
        ("127.0.0.1", {"Host": "[2001:db8::1]:8501"}, None), ("127.0.0.1", HERE, "203.0.113.7"),
        ("127.0.0.1", HERE, "nonsense"), *(
            ("127.0.0.1", HERE | {name: "203.0.113.7"}, None)
            for name in ("X-Forwarded-For", "x-forwarded-for", "Forwarded", "X-Real-IP", "Via", "X-Forwarded-Host")
        ),
    ],
)  # fmt: skip
def test_nobody_elses_request_is_taken_for_ones_own(address, headers, asked_by):
    assert refused(address, headers, asked_by).endswith(".")


@pytest.mark.parametrize(
    "address, host, asked_by",
    [
        *product(
            ["127.0.0.1", "localhost", "::1", "127.0.0.2"],
            ["localhost:8501", "127.0.0.1:8501", "[::1]:8501", "localhost", "127.0.0.1"],
            [None, "127.0.0.1", "::1"],
        )
    ],
)
def test_the_machines_own_browser_is_recognised(address, host, asked_by):
    assert refused(address, {"Host": host}, asked_by) == ""
