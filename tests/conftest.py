"""Fixtures and settings of all tests."""

import gc
import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from xdist import is_xdist_controller

from tests.browser.server import Server, serve

BROWSER = Path(__file__).parent / "browser"
settings.register_profile("any machine", deadline=None)  # the first example includes imports, and machines are busy
settings.load_profile("any machine")
gc.disable()  # until all tests are imported: each collection walks all of torch, and finds nothing to free
# torch and streamlit are imported where they are used: xdist's controller, which runs no test, needs neither.


def pytest_collection(session: pytest.Session) -> None:
    """Compute with one thread: tests' tensors are tiny, and a waiting second thread quadruples the processor time."""
    if not is_xdist_controller(session):
        import torch

        torch.set_num_threads(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin each of xdist's equal shares with browser tests: they take longest, and a share's end can be stolen."""
    n = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if n > 1:
        browser = [item for item in items if BROWSER in item.path.parents]
        others = [item for item in items if BROWSER not in item.path.parents]
        items[:] = [item for k in range(n) for part in (browser, others) for item in part[_share(k, n, len(part))]]


def _share(k: int, n: int, size: int) -> slice:
    return slice(size * k // n, size * (k + 1) // n)


def pytest_collection_finish() -> None:
    """Let collections begin, without what is imported: it stays."""
    gc.freeze()
    gc.enable()
    gc.set_threshold(100_000)


@pytest.fixture(autouse=True)
def same_random_numbers() -> None:
    """Seed the random weights and inputs, so that they are equal in every run.

    This generator alone: `torch.manual_seed` writes a traceback for each kind of GPU, and takes half a millisecond.
    """
    import torch

    torch.default_generator.manual_seed(0)


def pytest_configure() -> None:
    """Silence the warning that each widget and cache gives outside a run of Streamlit: it drowns what failed."""
    logging.getLogger("streamlit.runtime.scriptrunner_utils.script_run_context").setLevel(logging.ERROR)


@pytest.fixture(scope="session", autouse=True)
def no_search_for_components() -> Iterator[None]:
    """Skip Streamlit's search for components in all installed packages, which takes most of an AppTest's time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("streamlit.components.v2.manifest_scanner.scan_component_manifests", list)
        yield


@pytest.fixture(scope="session", autouse=True)
def no_waiting_in_small_steps() -> Iterator[None]:
    """Let AppTest wait for its script's thread: it looks a thousand times a second, and slows the script each time."""
    from streamlit.testing.v1 import local_script_runner

    wait = local_script_runner.require_widgets_deltas

    def wait_for_the_thread(runner: local_script_runner.LocalScriptRunner, timeout: float = 3) -> None:
        runner._script_thread.join(timeout)
        wait(runner, 0 if runner._script_thread.is_alive() else 1)  # 0: it says that the time is over, and stops it

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local_script_runner, "require_widgets_deltas", wait_for_the_thread)
        yield


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """Start the app, shared by the tests of a run. A traceback in its log fails the run, whatever the pages showed."""
    with serve() as running:
        yield running
        assert running.tracebacks() == []


@pytest.fixture
def no_checkpoints(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Remove the checkpoint files and clear the caches of their contents."""
    from attnviz.compute import models
    from attnviz.compute.byte_cache import ByteCache

    def forget() -> None:
        for kept in (models.config_of, models._shipped_config):
            kept.cache_clear()

    monkeypatch.setattr("attnviz.checkpoints.FOLDER", tmp_path)
    monkeypatch.setattr(models, "_shipped", ByteCache(models.MAX_SHIPPED_BYTES))
    forget()
    yield
    forget()
