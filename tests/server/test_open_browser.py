"""The browser is opened at the start, at the address that the server's options name."""

import threading

import pytest
import streamlit as st

from attnviz.server import open_browser
from tests.waiting import result_of


@pytest.mark.parametrize("headless", [True, False])
def test_the_browser_is_opened_unless_the_server_is_headless(monkeypatch, capsys, headless):
    opened, done = [], threading.Event()
    options = {"server.headless": headless, "server.port": 8600, "server.baseUrlPath": "/viz/"}
    monkeypatch.setattr(st, "get_option", options.get)
    monkeypatch.setattr("webbrowser.open", lambda url: (opened.append(url), done.set()))

    async def start() -> None:
        async with open_browser.opened(None):
            done.wait(0.2 if headless else 10)

    result_of(start())
    assert opened == ([] if headless else ["http://localhost:8600/viz"])
    assert "AttnViz runs at http://localhost:8600/viz\n" in capsys.readouterr().out


def test_the_address_is_that_of_the_options(monkeypatch):
    options = {"server.port": 443, "server.baseUrlPath": "", "server.address": "h", "server.sslCertFile": "c"}
    monkeypatch.setattr(st, "get_option", options.get)
    assert open_browser.address() == "https://h:443/"


@pytest.mark.parametrize("everywhere", ["0.0.0.0", "::"])
def test_a_server_for_all_addresses_is_opened_at_this_machines_own(monkeypatch, everywhere):
    options = {"server.port": 8501, "server.baseUrlPath": "", "server.address": everywhere}
    monkeypatch.setattr(st, "get_option", options.get)
    assert open_browser.address() == "http://localhost:8501/"
