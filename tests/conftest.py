"""What every test starts from."""

import pytest
import torch

torch.set_num_threads(1)  # tests' tensors are tiny: a second thread takes four times the processor time to wait


@pytest.fixture(autouse=True)
def same_random_numbers() -> None:
    """Weights and inputs are drawn at random, the same ones in every run."""
    torch.manual_seed(0)
