"""Run a learner's file in a separate process and compute its outputs, without judging them.

    python child.py FOLDER FILE

FOLDER holds inputs.safetensors and cases.json. The outputs of case i go to FOLDER/out/<i>.safetensors, an error report
to FOLDER/out/<i>.json. The parent (judge.py) holds the right outputs and compares. Imports only torch and safetensors.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any

if __name__ == "__main__":  # the parent imports this module too
    gc.disable()  # importing torch creates a hundred thousand objects that stay: walking them takes a quarter of it

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

EXTRA_MEMORY = 2**30  # bytes, in addition to what torch itself uses
LARGEST_FILE = 2**26  # bytes


class Refused(Exception):
    """The file does not implement the task's interface. The message says what is missing."""


def run_steps(steps: list[dict[str, Any]], tensors: Mapping[str, Tensor], names: Mapping[str, Any]) -> list[Tensor]:
    """Execute the steps of one case and return all outputs, in order.

    {"call": name, "args": …, "kwargs": …} calls a class or function; "keep": name stores the result under that name,
    "out": true, or the names of its tensors, makes it an output. {"load": name} sets a module's parameters from tensors
    "name/parameter". {"length": name} and {"attribute": [name, attribute]} are outputs too. An argument is
    {"tensor": key}, {"object": name} or {"value": anything}.
    """
    objects: dict[str, Any] = {}
    outputs: list[Tensor] = []
    for step in steps:
        match step:
            case {"load": name}:
                load_weights(objects[name], {k.partition("/")[2]: v for k, v in tensors.items() if "/" in k})
            case {"length": name}:
                outputs.append(torch.tensor(len(objects[name])))
            case {"attribute": [name, attribute]}:
                outputs.append(torch.tensor(_property(objects[name], attribute)))
            case _:
                result = _call(step, tensors, {**names, **objects})
                if step.get("keep"):
                    objects[step["keep"]] = result
                if step.get("out"):
                    outputs += outputs_of(step["call"], result)
    return outputs


def _call(step: dict[str, Any], tensors: Mapping[str, Tensor], known: Mapping[str, Any]) -> Any:
    """Call the class or function of a step. known: names of the file and objects of earlier steps."""

    def argument(given: dict[str, Any]) -> Any:
        if "tensor" in given:
            return tensors[given["tensor"]].clone()
        return lookup(given["object"], known) if "object" in given else given["value"]

    args = [argument(each) for each in step.get("args", [])]
    kwargs = {key: argument(each) for key, each in step.get("kwargs", {}).items()}
    return lookup(step["call"], known)(*args, **kwargs)


def lookup(name: str, names: Mapping[str, Any]) -> Any:
    """Return what has this name. Refused if the file does not define it."""
    if name not in names:
        raise Refused(f"The file defines no {name}.")
    return names[name]


def _property(owner: object, name: str) -> Any:
    """Return the value of a property. Refused if there is none, or a method in its place."""
    if not hasattr(owner, name):
        raise Refused(f"{type(owner).__name__} has no {name}.")
    value = getattr(owner, name)
    if callable(value):
        raise Refused(f"{name} is a method; the task needs a property: @property above its def.")
    return value


def outputs_of(called: str, result: object) -> list[Tensor]:
    """Return copies of the tensors that a call returned. Refused for anything else."""
    results = result if isinstance(result, tuple | list) else (result,)
    for output in results:
        if not isinstance(output, Tensor):
            within = " in a tuple; return the output alone" if results is result else " instead of a tensor"
            raise Refused(f"{called} returned {type(output).__name__}{within}.")
    return [output.detach().clone() for output in results]


def load_weights(module: object, weights: Mapping[str, Tensor]) -> None:
    """Set the parameters by name. Refused if the names or shapes differ from the task's."""
    if not isinstance(module, nn.Module):
        raise Refused(f"{type(module).__name__} is not an nn.Module.")
    own = dict(module.named_parameters())
    missing, more = sorted(set(weights) - set(own)), sorted(set(own) - set(weights))
    if missing:
        raise Refused(f"The module has no parameter {', '.join(missing)}; it has {', '.join(sorted(own)) or 'none'}.")
    if more:
        raise Refused(f"The module has parameters that the task does not have: {', '.join(more)}.")
    for name, weight in weights.items():
        if own[name].shape != weight.shape:
            raise Refused(f"{name} has shape {tuple(own[name].shape)}; the task needs {tuple(weight.shape)}.")
        own[name].data.copy_(weight)
    module.eval()


def limit() -> None:
    """Limit the address space to EXTRA_MEMORY above current use and files to 64 MiB, and disable core dumps.

    The parent also watches the resident memory.
    """
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_FSIZE, (LARGEST_FILE, LARGEST_FILE))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[0])
        most = pages * resource.getpagesize() + EXTRA_MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    except (ImportError, OSError, ValueError):  # not Linux: only the parent's watch applies
        pass


def load_namespace(file: Path) -> dict[str, Any]:
    """Execute a learner's file as a module and return its namespace."""
    module = types.ModuleType("answer")
    module.__file__ = str(file)
    sys.modules["answer"] = module
    sys.path.insert(0, str(file.parent))
    exec(compile(file.read_bytes(), str(file), "exec"), vars(module))  # noqa: S102, the learner's own file
    return vars(module)


def error_report(error: BaseException, file: str) -> dict[str, Any]:
    """Return the exception's type and message, and the line of the learner's file."""
    lines = []
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == file:
            lines.append(trace.tb_lineno)
        trace = trace.tb_next
    if isinstance(error, SyntaxError) and error.filename == file:
        lines = [error.lineno or 0]
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    return {"kind": type(error).__name__, "message": str(text)[:2000], "line": lines[-1] if lines else None}


def main(folder: Path, file: Path) -> None:
    """Compute every case, and write each result as soon as it is computed."""
    out, name = folder / "out", str(file)
    cases = json.loads((folder / "cases.json").read_text(encoding="utf-8"))
    inputs = load_file(folder / "inputs.safetensors")
    torch.set_num_threads(1)
    limit()
    try:
        names = load_namespace(file)
    except BaseException as error:  # noqa: BLE001, SystemExit too
        (out / "file.json").write_text(json.dumps(error_report(error, name)), encoding="utf-8")
        return
    for i, steps in enumerate(cases):
        tensors = {key.partition(":")[2]: value for key, value in inputs.items() if key.startswith(f"{i}:")}
        (out / f"{i}.begun").touch()
        try:
            with torch.no_grad():
                results = run_steps(steps, tensors, names)
            save_file({str(n): each.contiguous() for n, each in enumerate(results)}, out / f"{i}.safetensors")
        except BaseException as error:  # noqa: BLE001
            (out / f"{i}.json").write_text(json.dumps(error_report(error, name)), encoding="utf-8")


if __name__ == "__main__":
    gc.freeze()
    gc.enable()
    main(Path(sys.argv[1]), Path(sys.argv[2]))
    sys.stdout.flush()
    os._exit(0)  # everything is written, and taking down what torch has set up takes a tenth of the time
