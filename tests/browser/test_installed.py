"""The app installed from its wheel, and started by its command in another folder."""

import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from websockets.asyncio.client import connect

from attnviz.session.pages import ALL
from tests.browser.painted import settle
from tests.browser.server import Server, free_port, serving
from tests.packaged import Environment, build
from tests.practice.answers import ANSWERS
from tests.soak.session import Session
from tests.waiting import result_of

ELSEWHERE = """
[client]
showErrorDetails = "full"
[theme.light]
backgroundColor = "#ff0000"
[server]
maxUploadSize = 200
"""  # the settings of another project, in whose folder the command is started


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    folder = tmp_path_factory.mktemp("installed")
    environment = Environment.create(folder / "environment")
    environment.link_all()
    environment.install(build(folder / "wheel"))
    return environment


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a person's file of code and a browser that writes the addresses it is asked to open."""
    folder = tmp_path_factory.mktemp("project")
    (folder / ".streamlit").mkdir()
    (folder / ".streamlit" / "config.toml").write_text(ELSEWHERE, encoding="utf-8")
    (folder / "rms_norm.py").write_text(f"TASK = 'rms-norm'\n{ANSWERS['rms-norm'][0]}", encoding="utf-8")
    browser = folder / "browser"
    browser.write_text('#!/bin/sh\necho "$1" >> addresses\n', encoding="utf-8")
    browser.chmod(0o755)
    (folder / "home" / ".claude").mkdir(parents=True)  # of a person with a coding agent, to whom Streamlit advertises
    return folder


@pytest.fixture(scope="module")
def app(installed: Environment, project: Path) -> Iterator[Server]:
    port = free_port()
    command = [installed.program("attnviz"), "--model", "gqa-2", "--code", "rms_norm.py", "--", f"--server.port={port}"]
    screen = {"DISPLAY": ":0", "BROWSER": str(project / "browser")}  # without a screen, Streamlit opens no browser
    with serving(command, port, project, screen | {"HOME": str(project / "home")}) as server:
        yield server


async def opened(server: Server, page: str, query: str = "") -> Session:
    address = server.url.replace("http", "ws", 1) + "/_stcore/stream"
    async with connect(address, subprotocols=["streamlit"], max_size=None, compression=None) as websocket:
        session = Session(websocket, query)
        await session.open(page)
        return session


def test_each_page_opens_from_the_wheel(app: Server, installed: Environment) -> None:
    where = installed.run("python", "-c", "import attnviz; print(attnviz.__file__)", cwd=installed.folder).stdout
    assert Path(where.strip()).is_relative_to(installed.packages)
    for page in ALL:
        session = result_of(opened(app, page.path))
        assert session.said("exception") == [] and len(session.shown) > 20, page.name
    assert app.tracebacks() == []


def test_the_persons_own_file_is_judged_and_run_on_the_shipped_weights(app: Server, installed: Environment) -> None:
    session = result_of(opened(app, "practice", "tab=write&task=rms-norm"))
    assert "All 5 checks passed." in session.said("alert")
    said = " ".join(session.said("markdown"))
    assert "Your source, line by line" in said and "No line made a tensor" not in said
    assert app.tracebacks() == []


def test_the_settings_are_ours_in_another_projects_folder(
    app: Server, project: Path, window: Callable[..., Page]
) -> None:
    page = window()
    page.goto(f"{app.url}/heads")
    settle(page)
    expect(page.get_by_role("heading", level=1, name="Heads")).to_be_visible()
    expect(page.locator("canvas").first).to_be_visible()
    expect(page.get_by_text("agents")).to_have_count(0)
    ground = "getComputedStyle(document.querySelector('[data-testid=stApp]')).backgroundColor"
    assert page.evaluate(ground) == "rgb(251, 251, 250)"
    port = int(app.url.rpartition(":")[2])
    assert (project / "addresses").read_text(encoding="utf-8") == f"http://localhost:{port}/practice?tab=write\n"
    with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.2", port), timeout=5):
        pass  # bound to localhost alone, although Streamlit listens on all addresses by default


def test_a_file_is_judged_by_the_command(installed: Environment, project: Path) -> None:
    ascii = {"PYTHONIOENCODING": "ascii"}  # a pipe without the letters … and √, as on Windows
    written = installed.run("attnviz", "practice", "new", "rms-norm", cwd=project, **ascii)
    assert (project / "practice" / "rms_norm.py").is_file() and "attnviz practice check" in written.stdout
    judged = installed.run("attnviz", "practice", "check", "practice/rms_norm.py", cwd=project, **ascii)
    assert judged.returncode == 1 and "not written yet" in judged.stdout and "0 of 5 checks passed" in judged.stdout
