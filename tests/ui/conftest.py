"""Fixtures of the tests of pages without a browser."""

import pytest


@pytest.fixture
def no_links_to_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace page links: in an AppTest, a fragment's rerun has no page registry."""
    monkeypatch.setattr("streamlit.page_link", lambda *_, **__: None)
