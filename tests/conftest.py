"""What every test starts from."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import settings

settings.register_profile("any machine", deadline=None)  # a first example pays for imports, and machines are busy
settings.load_profile("any machine")
torch.set_num_threads(1)  # tests' tensors are tiny: a second thread takes four times the processor time to wait


@pytest.fixture(autouse=True)
def same_random_numbers() -> None:
    """Weights and inputs are drawn at random, the same ones in every run."""
    torch.manual_seed(0)


@pytest.fixture(scope="session", autouse=True)
def no_search_for_components() -> Iterator[None]:
    """Every AppTest reads the metadata of all installed packages, for components: most of its time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("streamlit.components.v2.manifest_scanner.scan_component_manifests", lambda: [])
        yield


@pytest.fixture
def no_checkpoints(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """The files are gone, and nobody remembers what was in them."""
    from attnviz.compute import models

    def forget() -> None:
        for kept in (models.config_of, models._shipped_config):
            kept.cache_clear()

    monkeypatch.setattr("attnviz.checkpoints.FOLDER", tmp_path)
    forget()
    yield
    forget()
