"""A task: its statement and skeleton, test inputs, the right version and known mistaken versions."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from attnviz.config import ModelConfig
from attnviz.exercises import TASKS
from attnviz.practice.child import EXTRA_MEMORY, run_steps
from attnviz.started import PRACTICE

SECONDS = 60.0  # for all checks of a file together: a right version in plain Python loops takes a few
LIMITS = f"at most {SECONDS:.0f} s for all checks together, {EXTRA_MEMORY / 2**30:g} GiB beside torch"

Names = Mapping[str, Any]  # the namespace of a learner's file: classes and functions by name

TOLERANCE = 2e-5  # float32 in any order of operations stays within it, float16 and bfloat16 do not


@dataclass(frozen=True)
class Case:
    """One test case: inputs and the calls made with them (see `child.run_steps`)."""

    label: str
    steps: list[dict[str, Any]]
    tensors: dict[str, Tensor]
    tolerance: float = TOLERANCE
    large: bool = False  # takes seconds; skipped when searching for the mistake
    any_order: bool = False  # the numbers of an output may be in any order
    repeated: bool = False  # its last two calls have the same inputs

    @property
    def outputs(self) -> list[str]:
        """The names of the outputs, such as "call 2", "state of call 2" and "cache.nbytes"."""
        several, calls, names = sum(bool(step.get("out")) for step in self.steps) > 1, 0, list[str]()
        for step in self.steps:
            if out := step.get("out"):
                calls += 1
                of_the_call = f" of call {calls}" if several else ""
                names += [f"call {calls}"] if out is True else [f"{each}{of_the_call}" for each in out]
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
    """A known mistake. explanation: completes the sentence "Your output equals ours …".

    options: what `Task.build` is called with to make it; two mistakes without a common option can be combined.
    mistake: the id of the corresponding mistake in attnviz/mistakes, or "".
    """

    explanation: str
    options: Mapping[str, Any] = field(default_factory=dict)
    mistake: str = ""


CHECK = f"{PRACTICE} check"  # before the file's path


@dataclass(frozen=True)
class Task:
    """A coding task. skeleton: the file that `new` writes, without its first lines.

    right: AttnViz's own version. build: the same with options, each of which is a mistake.
    """

    name: str
    skeleton: str
    right: Names
    cases: Callable[[int], list[Case]]
    build: Callable[..., Names]
    mistaken: tuple[Mistaken, ...] = field(default=())  # in addition to those of attnviz/mistakes
    model: ModelConfig | None = None  # selects a mistake's MLA version if the task is about MLA

    @property
    def title(self) -> str:
        return TASKS[self.name]

    @property
    def file(self) -> str:
        """The file name that `new` uses."""
        return self.name.replace("-", "_") + ".py"

    def source(self, folder: str = "practice") -> str:
        """Return the skeleton for a file in `folder`; its first lines name the task, the judge's command and limits."""
        return f'# TASK = "{self.name}", read by: {CHECK} {folder}/{self.file}\n# Limits: {LIMITS}.\n{self.skeleton}'


def argument(value: object, tensors: dict[str, Tensor], key: str) -> dict[str, Any]:
    """Encode one argument of a step. A tensor is added to the case's tensors under the key."""
    if isinstance(value, Tensor):
        tensors[key] = value
        return {"tensor": key}
    return {"value": value}


def function_case(
    label: str, name: str, *args: Any, tolerance: float = TOLERANCE, large: bool = False, twice: bool = False,
    returned: tuple[str, ...] = (), **kwargs: Any,
) -> Case:  # fmt: skip
    """Build a case that calls one function. twice: once more with the same arguments. returned: the names of what it
    returns, if that is several tensors."""
    tensors: dict[str, Tensor] = {}
    step = {
        "call": name,
        "args": [argument(value, tensors, f"argument {i}") for i, value in enumerate(args)],
        "kwargs": {key: argument(value, tensors, key) for key, value in kwargs.items()},
        "out": list(returned) or True,
    }
    return Case(label, [step, step] if twice else [step], tensors, tolerance, large, repeated=twice)


def module_case(
    label: str, right: Names, name: str, sizes: dict[str, int], seed: int, *inputs: Tensor,
    tolerance: float = TOLERANCE, factors: Mapping[str, float] | None = None, **kwargs: Any,
) -> Case:  # fmt: skip
    """Build a case that creates a module, sets its weights by name and calls it on each of the inputs.

    factors: multiply parameters by name. With several inputs, another module with the same weights is called on the
    last input too.
    """
    tensors: dict[str, Tensor] = {}
    given = {key: argument(value, tensors, key) for key, value in kwargs.items()}
    make: dict[str, Any] = {
        "call": name,
        "kwargs": {key: {"value": value} for key, value in sizes.items()},
        "keep": "module",
    }
    calls: list[dict[str, Any]] = [
        {"call": "module", "args": [argument(x, tensors, f"x{i}")], "kwargs": given, "out": True}
        for i, x in enumerate(inputs)
    ]
    generator = torch.Generator().manual_seed(seed)
    for parameter, like in right[name](**sizes).named_parameters():
        spread = like.shape[-1] ** -0.5
        drawn = torch.empty(like.shape).normal_(0.0, spread if like.ndim > 1 else 0.3, generator=generator)
        tensors[f"module/{parameter}"] = (drawn if like.ndim > 1 else 1 + drawn) * (factors or {}).get(parameter, 1.0)
    load = {"load": "module"}
    again = [make, load, calls[-1]] if len(inputs) > 1 else []
    return Case(label, [make, load, *calls, *again], tensors, tolerance, repeated=bool(again))


def printable(text: str) -> str:
    """Remove escape sequences and other control characters that a terminal would interpret."""
    text = re.sub(r"\x1b(\[[0-?]*[ -/]*[@-~]|.)", "", text)
    return "".join(c for c in text if c == "\n" or (c.isprintable() and c != "\u202e"))
