"""A half-precision weight, or a copy of it, computes the same as its float32 values."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from attnviz.checkpoints import stored as module
from attnviz.checkpoints.stored import Stored, stored


@pytest.fixture(params=[torch.bfloat16, torch.float16])
def both(request):
    half = torch.randn(37, 11).to(request.param)
    return stored(half), half.float()


@pytest.mark.parametrize("rows", [5, 10**9])
def test_every_use_gives_float32(both, rows, monkeypatch):
    monkeypatch.setattr(module, "ROWS_AT_ONCE", 11 * rows)
    weight, wide = both
    x, bias, ids = torch.randn(2, 3, 11), torch.randn(37), torch.randint(37, (2, 5))
    for use in (lambda w: F.linear(x, w), lambda w: F.linear(x, w, bias), lambda w: F.embedding(ids, w), lambda w: w[3],
                lambda w: w[2:5], lambda w: x @ w.T, lambda w: w.unflatten(0, (37, 1)).mean(1),
                lambda w: torch.cat([w, w]), lambda w: w * 2):  # fmt: skip
        found = use(weight)
        assert type(found) is torch.Tensor and found.dtype == torch.float32
        torch.testing.assert_close(found, use(wide))
    assert isinstance(weight, Stored) and weight.dtype != torch.float32 and not weight.requires_grad
    assert isinstance(weight.detach(), Stored) and weight.detach().numpy().dtype == "float32"


def test_a_copy_of_a_layer_has_each_weight_in_its_place(both):
    layer = nn.Sequential(*(nn.Linear(11, 37) for _ in range(20)))
    wides = [torch.randn(37, 11 + i).to(both[0].dtype) for i in range(20)]
    for part, wide in zip(layer, wides, strict=True):
        part._parameters["weight"] = stored(wide)
    for part, wide in zip(copy.deepcopy(layer).to(torch.float64), wides, strict=True):
        assert torch.equal(part.weight, wide.double())


def test_what_is_small_or_wide_is_an_ordinary_tensor():
    assert (
        type(stored(torch.randn(3).bfloat16())) is nn.Parameter and stored(torch.randn(3).half()).dtype == torch.float32
    )
    wide = torch.randn(3, 2)
    assert stored(wide).data_ptr() == wide.data_ptr() and not isinstance(stored(wide), Stored)
