"""Modules built without drawing weights that are replaced at once, and modules by their shapes alone."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn
from torch.overrides import TorchFunctionMode

DRAWING = frozenset({nn.init.kaiming_uniform_, nn.init.uniform_})  # what nn.Linear fills itself with
CREATING = frozenset({torch.empty, torch.ones})  # what the modules here make their parameters with


class Undrawn(TorchFunctionMode):
    """Inside the block, and for this thread alone, the weights of a new linear layer are whatever memory held."""

    def __torch_function__(self, func: Callable, types, args=(), kwargs=None):
        return None if func in DRAWING else func(*args, **(kwargs or {}))


class ShapesOnly(Undrawn):
    """As well, new tensors take no memory (they are on the meta device) and a linear layer gives only a shape.

    A product on the meta device would give the same shape, and import torch's compiler first: 70 MB and more than a
    second.
    """

    def __torch_function__(self, func: Callable, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if func is F.linear:
            x, weight = args[:2]
            return x.new_empty(*x.shape[:-1], weight.shape[0])
        if func in CREATING:
            kwargs.setdefault("device", "meta")
        return super().__torch_function__(func, types, args, kwargs)
