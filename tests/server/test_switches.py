"""Workarounds are switched off by name, or all of them."""

import pytest

from attnviz import server
from attnviz.server import base_url, stale, switches


@pytest.mark.parametrize(("off", "left"), [("", [stale, base_url]), ("base_url", [stale]), ("all", [])])
def test_a_workaround_is_switched_off_by_its_name(monkeypatch: pytest.MonkeyPatch, off: str, left: list) -> None:
    monkeypatch.setattr(switches, "_WITHOUT", [off])
    assert server._enabled(stale, base_url) == left
