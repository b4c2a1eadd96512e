"""What every test starts from."""

import pytest
import torch


@pytest.fixture(autouse=True)
def same_random_numbers() -> None:
    """Weights and inputs are drawn at random, the same ones in every run."""
    torch.manual_seed(0)
