"""A task: what is asked for, inputs to judge it on, the right version and known mistakes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from attnviz.config import ModelConfig
from attnviz.practice.child import run_steps

Names = Mapping[str, Any]  # what a person's file defines: classes and functions by name


@dataclass(frozen=True)
class Case:
    """One set of inputs, and what is called with them (see `child.run_steps`)."""

    label: str
    steps: list[dict[str, Any]]
    tensors: dict[str, Tensor]
    tolerance: float = 2e-4
    large: bool = False  # takes seconds, and is left out when mistakes are looked for

    def run(self, names: Names) -> list[Tensor]:
        """Compute the outputs of this version."""
        with torch.no_grad():
            return run_steps(self.steps, self.tensors, names)


@dataclass(frozen=True)
class Mistaken:
    """A version with a known mistake. says: continues "Your output equals ours …".

    mistake: the id of the mistake in attnviz/mistakes that it is a case of, or is.
    """

    says: str
    names: Names
    mistake: str = ""


@dataclass(frozen=True)
class Task:
    """What is asked for. skeleton: the file that `new` writes, without the line that names the task."""

    name: str
    title: str
    skeleton: str
    right: Names
    cases: Callable[[int], list[Case]]
    mistaken: tuple[Mistaken, ...] = field(default=())  # besides those of attnviz/mistakes
    model: ModelConfig | None = None  # says which of a mistake's two versions it is: of MLA or not

    @property
    def file(self) -> str:
        """The name that `new` gives the file."""
        return self.name.replace("-", "_") + ".py"

    def source(self) -> str:
        """The whole skeleton, which carries its task."""
        return f'TASK = "{self.name}"  # read by: python -m attnviz.practice check {self.file}\n\n{self.skeleton}'


def argument(value: Any, tensors: dict[str, Tensor], key: str) -> dict[str, Any]:
    """Write one argument for a step; a tensor is put with the case's tensors."""
    if isinstance(value, Tensor):
        tensors[key] = value
        return {"tensor": key}
    return {"value": value}


def function_case(
    label: str, name: str, *args: Any, tolerance: float = 2e-4, large: bool = False, **kwargs: Any
) -> Case:
    """Call one function."""
    tensors: dict[str, Tensor] = {}
    step = {
        "call": name,
        "args": [argument(value, tensors, f"argument {i}") for i, value in enumerate(args)],
        "kwargs": {key: argument(value, tensors, key) for key, value in kwargs.items()},
        "out": True,
    }
    return Case(label, [step], tensors, tolerance, large)


def module_case(
    label: str, right: Names, name: str, sizes: dict[str, int], seed: int, x: Tensor, **kwargs: Any
) -> Case:
    """Build a module, set its weights by name, call it on x."""
    tensors: dict[str, Tensor] = {}
    call = {
        "call": "module",
        "args": [argument(x, tensors, "x")],
        "kwargs": {key: argument(value, tensors, key) for key, value in kwargs.items()},
        "out": True,
    }
    make = {"call": name, "kwargs": {key: {"value": value} for key, value in sizes.items()}, "keep": "module"}
    generator = torch.Generator().manual_seed(seed)
    for parameter, like in right[name](**sizes).named_parameters():
        spread = like.shape[-1] ** -0.5
        drawn = torch.empty(like.shape).normal_(0.0, spread if like.ndim > 1 else 0.3, generator=generator)
        tensors[f"module/{parameter}"] = drawn if like.ndim > 1 else 1 + drawn
    return Case(label, [make, {"load": "module"}, call], tensors)
