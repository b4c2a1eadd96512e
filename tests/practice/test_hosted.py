"""A hosted app runs no user code: every way to request it from elsewhere is tried on a real server."""

from urllib.parse import urlsplit

import pytest
from websockets.asyncio.client import connect

from tests.browser.server import serve
from tests.practice.answers import ANSWERS
from tests.soak.session import Session
from tests.waiting import result_of

pytestmark = pytest.mark.slow

FROM_ELSEWHERE = {
    "through a proxy": {"X-Forwarded-For": "203.0.113.7"},
    "through a proxy with the standard header": {"Forwarded": "for=203.0.113.7"},
    "with its client's address": {"X-Real-IP": "203.0.113.7"},
}


def opened(url: str, headers: dict[str, str]) -> str:
    """Return the page's text for a browser that sends these headers."""

    async def ask() -> str:
        address = url.replace("http", "ws", 1) + "/_stcore/stream"
        options = {"subprotocols": ["streamlit"], "max_size": None, "compression": None}
        async with connect(address, additional_headers=headers, **options) as socket:
            session = Session(socket, "tab=write&task=rms-norm")
            await session.open("practice")
            return " ".join(session.said("markdown") + session.said("alert"))

    return result_of(ask())


@pytest.fixture
def own_file(tmp_path):
    """A correct solution that creates a marker file when it is run."""
    mark = tmp_path / "ran"
    file = tmp_path / "rms_norm.py"
    file.write_text(f"open({str(mark)!r}, 'w').close()\nTASK = 'rms-norm'\n{ANSWERS['rms-norm'][0]}")
    return file, mark


def test_code_runs_for_this_machine_and_for_nobody_else(own_file):
    file, mark = own_file
    with serve(env={"ATTNVIZ_CODE": str(file)}) as server:
        for name, headers in FROM_ELSEWHERE.items():
            text = opened(server.url, headers)
            assert "only on the machine" in text, name
            assert not mark.exists(), name
        assert (
            "All 5 checks passed" in opened(server.url, {}) and mark.exists()
        )  # the file can run, so the tests above are meaningful
        assert server.tracebacks() == []


def test_a_server_that_others_can_reach_runs_nothing(own_file):
    file, mark = own_file
    with serve("app.py", "--server.address=0.0.0.0", env={"ATTNVIZ_CODE": str(file)}) as server:
        text = opened(f"http://127.0.0.1:{urlsplit(server.url).port}", {})
        assert "not bound to loopback" in text and not mark.exists()
