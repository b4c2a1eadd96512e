"""Parameters held in half precision, as in their file, and converted to float32 for computation."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

AS_STORED = {Tensor.detach, Tensor.requires_grad_, Tensor.size, Tensor.dim, Tensor.numel, Tensor.element_size,
             Tensor.is_floating_point, Tensor.stride, Tensor.data_ptr, Tensor.untyped_storage, Tensor.__repr__,
             Tensor.__len__, Tensor.is_complex}  # fmt: skip  # metadata functions, which need no conversion
ROWS_AT_ONCE = 1_000_000  # elements of a weight that are converted to float32 at a time


class Stored(Tensor):
    """Tensor subclass for float16 or bfloat16 weights that converts to float32 in each operation, in blocks of rows.

    Results of operations and copies are ordinary tensors, so a layer with such weights is used like any other.
    """

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        if id(self) not in memo:
            memo[id(self)] = nn.Parameter(self.as_subclass(Tensor).float(), requires_grad=False)
        return memo[id(self)]

    @classmethod
    def __torch_function__(cls, func: Callable, types: object, args: tuple = (), kwargs: dict | None = None) -> Any:
        kwargs = kwargs or {}
        with torch._C.DisableTorchFunctionSubclass():
            if func in AS_STORED:
                result = func(*args, **kwargs)
                return result.as_subclass(cls) if func in (Tensor.detach, Tensor.requires_grad_) else result
            if getattr(func, "__name__", "") in ("__get__", "__set__"):  # a property: shape, dtype, data, T
                result = func(*args, **kwargs)
                is_view = isinstance(result, Tensor) and func.__self__.__name__ != "data"  # type: ignore[attr-defined]
                return result.float() if is_view else result
            if func is F.linear:
                return _linear(*args, **kwargs)
            if func is F.embedding:
                return F.embedding(args[0], args[1].as_subclass(Tensor)).float()  # converts only the rows looked up
            if func is Tensor.__getitem__:
                return func(args[0].as_subclass(Tensor), *args[1:]).float()
            return func(*_wide(args), **{name: _wide([value])[0] for name, value in kwargs.items()})


def stored(tensor: Tensor) -> nn.Parameter:
    """Wrap a tensor as a parameter in its stored precision; vectors and float32 tensors become ordinary ones."""
    if tensor.dtype == torch.float32 or tensor.ndim == 1:
        return nn.Parameter(tensor.float(), requires_grad=False)
    return nn.Parameter(tensor.as_subclass(Stored), requires_grad=False)


def _wide(given: Iterable[Any]) -> list[Any]:
    return [each.as_subclass(Tensor).float() if isinstance(each, Stored) else
            _wide(each) if isinstance(each, list) else each for each in given]  # fmt: skip


def _linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Compute x · weightᵀ + bias for x (..., C) and weight (O, C), in blocks of the weight's rows."""
    rows = max(1, ROWS_AT_ONCE // weight.shape[1])
    if weight.shape[0] <= rows:
        return F.linear(x, weight.as_subclass(Tensor).float(), bias)
    output = x.new_empty(*x.shape[:-1], weight.shape[0])
    for first in range(0, weight.shape[0], rows):
        part = slice(first, first + rows)
        output[..., part] = F.linear(x, weight[part].float(), None if bias is None else bias[part])
    return output
