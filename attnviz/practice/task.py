"""A task: its statement and skeleton, test inputs, the right version and known mistaken versions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from attnviz.config import ModelConfig
from attnviz.practice.child import EXTRA_MEMORY, run_steps

SECONDS = 60.0  # for all checks of a file together: a right version in plain Python loops takes a few
LIMITS = f"at most {SECONDS:.0f} s for all checks together, {EXTRA_MEMORY / 2**30:g} GiB beside torch"

Names = Mapping[str, Any]  # the namespace of a learner's file: classes and functions by name


@dataclass(frozen=True)
class Case:
    """One test case: inputs and the calls made with them (see `child.run_steps`)."""

    label: str
    steps: list[dict[str, Any]]
    tensors: dict[str, Tensor]
    tolerance: float = 2e-4
    large: bool = False  # takes seconds; skipped when searching for the mistake
    any_order: bool = False  # the numbers of an output may be in any order

    @property
    def outputs(self) -> list[str]:
        """The names of the outputs, such as "call 2" and "cache.nbytes"."""
        calls, names = 0, []
        for step in self.steps:
            if step.get("out"):
                calls += 1
                names.append(f"call {calls}")
            elif "length" in step:
                names.append(f"len({step['length']})")
            elif "attribute" in step:
                names.append(".".join(step["attribute"]))
        return names

    def run(self, names: Names) -> list[Tensor]:
        """Compute the outputs of a version, given its namespace."""
        with torch.no_grad():
            return self.ordered(run_steps(self.steps, self.tensors, names))

    def ordered(self, outputs: list[Tensor]) -> list[Tensor]:
        """Sort each output (…, n), largest first, if its order is free."""
        return [each.sort(descending=True).values for each in outputs] if self.any_order else outputs


@dataclass(frozen=True)
class Mistaken:
    """A version with a known mistake. explanation: completes the sentence "Your output equals ours …".

    mistake: the id of the corresponding mistake in attnviz/mistakes, or "".
    """

    explanation: str
    names: Names
    mistake: str = ""


CHECK = ".venv/bin/python -m attnviz.practice check"  # in a checkout, before the file's path


@dataclass(frozen=True)
class Task:
    """A coding task. skeleton: the file that `new` writes, without the line that names the task."""

    name: str
    title: str
    skeleton: str
    right: Names
    cases: Callable[[int], list[Case]]
    mistaken: tuple[Mistaken, ...] = field(default=())  # in addition to those of attnviz/mistakes
    model: ModelConfig | None = None  # selects a mistake's MLA version if the task is about MLA

    @property
    def file(self) -> str:
        """The file name that `new` uses."""
        return self.name.replace("-", "_") + ".py"

    def source(self, folder: str = "practice") -> str:
        """Return the skeleton for a file in `folder`; its first lines name the task, the judge's command and limits."""
        return f'# TASK = "{self.name}", read by: {CHECK} {folder}/{self.file}\n# Limits: {LIMITS}.\n{self.skeleton}'


def argument(value: Any, tensors: dict[str, Tensor], key: str) -> dict[str, Any]:
    """Encode one argument of a step. A tensor is added to the case's tensors under the key."""
    if isinstance(value, Tensor):
        tensors[key] = value
        return {"tensor": key}
    return {"value": value}


def function_case(
    label: str, name: str, *args: Any, tolerance: float = 2e-4, large: bool = False, **kwargs: Any
) -> Case:
    """Build a case that calls one function."""
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
    """Build a case that creates a module, sets its weights by name and calls it on x."""
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
