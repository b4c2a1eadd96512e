"""Fixtures of the tests of the server."""

from collections.abc import Iterator

import pytest

from tests.browser.server import Server, serve


@pytest.fixture(scope="package")
def server() -> Iterator[Server]:
    """Start the app as it is, shared by these tests."""
    with serve() as running:
        yield running
        assert running.tracebacks() == []
