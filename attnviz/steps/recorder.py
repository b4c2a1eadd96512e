"""Record what each line of the source computes while a model runs.

Two hooks are used. Python's trace function (`sys.settrace`) reports which line of which call runs; a
`TorchFunctionMode` reports which torch operation a line calls, with its arguments and result. Both are set for one run
only, and by default the trace function follows only the files in `attnviz/modules/`.

Only one layer is recorded in detail; each other block is one line. A tensor is copied when it appears and again after
an in-place change, so that each line shows the values at that time.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from attnviz import modules
from attnviz.modules import Transformer
from attnviz.steps.axes import axes_in_comment
from attnviz.steps.run import Call, HalfWeight, Line, Made, Operation, Run, Value, values_in
from attnviz.steps.source import comment_at, docstring_of, look_up, names_read, source_of, statements

MODULES = str(Path(modules.__file__).parent)
MAX_BYTES = 64_000_000  # of all copies of one run
HALF = (torch.float16, torch.bfloat16)
MAX_LINES = 200  # of a run of a learner's file
NO_NAME = {"__get__", "__set__"}  # for a tensor property the property's name is shown


@torch.no_grad()  # not inference_mode, whose tensors have no version counter
def record(model: Transformer, ids: Sequence[int], layer: int, *, max_bytes: int = MAX_BYTES) -> Run:
    """Run the model on these token ids and record its lines; of the blocks, only this layer's lines.

    max_bytes: limit on the copies of tensors; beyond it a `Value` has a shape but no array. ValueError for no ids or
    for a layer that the model does not have.
    """
    if not len(ids):
        raise ValueError("a run needs at least one token id")
    if not 0 <= layer < len(model.blocks):
        raise ValueError(f"layer must be between 0 and {len(model.blocks) - 1}, not {layer}")
    _compute_frequencies(model, len(ids))
    recorder = _Recorder(model, layer, max_bytes)
    logits = recorder.watch(lambda: model.forward(torch.tensor(ids)[None]))
    return Run(
        model, layer, tuple(ids), recorder.calls, recorder.lines, recorder.values,
        logits[0].numpy(), recorder.nbytes,
    )  # fmt: skip


@torch.no_grad()
def record_decode(
    step: Callable[[], Tensor], files: Sequence[str], model: Transformer, ids: Sequence[int], layer: int
) -> Run:
    """Record one decode step: `step()` runs the last id with a cache of the others and returns its logits (V,).

    files: source files whose functions are also recorded, such as those that choose the next token.
    """
    _compute_frequencies(model, len(ids))
    recorder = _Recorder(model, layer, MAX_BYTES, (MODULES, *files))
    logits = recorder.watch(step)
    return Run(
        model, layer, tuple(ids), recorder.calls, recorder.lines, recorder.values, logits[None].numpy(),
        recorder.nbytes, n_cached=len(ids) - 1,
    )  # fmt: skip


def _compute_frequencies(model: Transformer, length: int) -> None:
    """Let the model cache RoPE's frequencies: computed in a recorded run, their lines would be in the first one only,
    and the numbers of all later steps, which links name, would depend on what else has run."""
    model.attention_options(length)


@torch.no_grad()
def record_file(
    run: Callable[[], object], file: str, module: nn.Module | None, model: Transformer, ids: Sequence[int], layer: int
) -> Run:
    """Record the lines of one file while `run()` runs, on tensors of this model's layer; at most MAX_LINES.

    module: the module whose parameters get names. ValueError if no function of the file was called.
    """
    recorder = _Recorder(module or nn.Module(), layer, MAX_BYTES, (file,))
    recorder.watch(run)
    if not recorder.calls:
        raise ValueError("no function of the file was called")
    calls, lines = _first_lines(recorder.calls, recorder.lines)
    return Run(model, layer, tuple(ids), calls, lines, recorder.values, np.empty((0, 0)), recorder.nbytes, own=True)


def _first_lines(calls: list[Call], lines: list[Line]) -> tuple[list[Call], list[Line]]:
    """Return the first MAX_LINES lines and their calls. Loops over tokens run thousands of lines."""
    for call in calls:
        call.lines = [i for i in call.lines if i < MAX_LINES]
    calls = [call for call in calls if call.lines]
    for line in lines:
        line.calls = [i for i in line.calls if i < len(calls)]
    return calls, lines[:MAX_LINES]


class _Open:
    """A call that is still running: its record, its statements, and the known values of its variables."""

    def __init__(self, call: Call, code: CodeType) -> None:
        self.call, self.statements = call, statements(code)
        self.line: Line | None = None
        self.known: dict[str, int] = {}  # variable -> index of its value

    def comment(self) -> str:
        """Return the comment at the end of the statement that runs."""
        call, line = self.call, self.line
        return comment_at(call.source, line.number - call.first, line.last - call.first) if line else ""


class _Recorder(TorchFunctionMode):
    """The two hooks and the run that they record."""

    def __init__(self, model: nn.Module, layer: int, max_bytes: int, files: tuple[str, ...] = (MODULES,)) -> None:
        super().__init__()
        self.calls: list[Call] = []
        self.lines: list[Line] = []
        self.values: list[Value] = []
        self.nbytes, self._max_bytes, self._files = 0, max_bytes, files
        self._stack: list[_Open] = []
        self._muted = 0
        self._others = {id(block) for i, block in enumerate(getattr(model, "blocks", ())) if i != layer}
        self._names = {id(module): name for name, module in model.named_modules()}
        self._weights = {id(p): name for name, p in model.named_parameters()}
        self._seen: dict[tuple[int, int], Value] = {}  # by a tensor's id() and version
        self._alive: list[Tensor] = []  # keeps tensors alive, so that no new tensor gets the id() of an old one

    def watch(self, run: Callable[[], Any]) -> Any:
        """Call `run` with both hooks set and return its result."""
        with self:
            before = sys.gettrace()
            sys.settrace(self.on_call)
            try:
                return run()
            finally:
                sys.settrace(before)

    # ---- Python's side: calls and lines

    def on_call(self, frame: FrameType, event: str, arg: object) -> Callable | None:
        """Decide for each call whether to trace its lines (the global trace function)."""
        code = frame.f_code
        if self._muted or not code.co_filename.startswith(self._files) or code.co_name.startswith(("<", "__init__")):
            return None
        module = frame.f_locals.get("self")
        if id(module) in self._others:
            self._muted += 1
            if self._stack and self._stack[-1].line:
                self._stack[-1].line.skipped = self._names[id(module)]
            return self._until_return
        self._open(frame, module)
        return self._on_line

    def _until_return(self, frame: FrameType, event: str, arg: object) -> Callable:
        if event == "return":
            self._muted -= 1
        return self._until_return

    def _open(self, frame: FrameType, module: object) -> None:
        code, caller = frame.f_code, self._stack[-1].line if self._stack else None
        name = code.co_name
        if isinstance(module, nn.Module) and name == "forward":
            name = _short(self._names.get(id(module), "")) or type(module).__name__
        elif name == "__call__":
            name = type(module).__name__
        first, source = source_of(code)
        file = Path(code.co_filename)
        call = Call(
            len(self.calls), name, code.co_qualname, file.parent.name, file.name, first, source,
            None if caller is None else caller.index, docstring_of(code),
        )  # fmt: skip
        self.calls.append(call)
        if caller is not None:
            caller.calls.append(call.index)
        self._stack.append(_Open(call, code))
        call.arguments = list(self._new(frame))
        if caller is None:  # the run's arguments are shown first
            self.lines.append(Line(len(self.lines), call.index, first, first, made=call.arguments))
            call.lines.append(self.lines[-1].index)

    def _on_line(self, frame: FrameType, event: str, arg: Any) -> Callable:
        here = self._stack[-1]
        if event == "line":
            first, last = here.statements.get(frame.f_lineno, (frame.f_lineno, frame.f_lineno))
            if here.line is None or (here.line.number, here.line.last) != (first, last):
                self._end_line(frame)
                self._begin_line(frame, first, last)
        elif event == "return":
            self._end_line(frame)
            comment = here.comment()
            here.call.returned = [
                Made(name, value, axes_in_comment(comment, value.shape, i))
                for i, (name, value) in enumerate(self._named("return", arg))
            ]
            if here.line is not None:
                here.line.made += here.call.returned
            self._stack.pop()
        return self._on_line

    def _begin_line(self, frame: FrameType, first: int, last: int) -> None:
        here = self._stack[-1]
        line = here.line = Line(len(self.lines), here.call.index, first, last)
        self.lines.append(line)
        here.call.lines.append(line.index)
        for name in names_read(frame.f_code, first):
            value = look_up(name, frame)
            if isinstance(value, nn.Module):
                for each, parameter in value.named_parameters(recurse=False):
                    line.reads[f"{name}.{each}"] = self._value(parameter)
            elif isinstance(value, Tensor):
                line.reads[name] = self._value(value)

    def _end_line(self, frame: FrameType) -> None:
        """Record the variables that the line assigned or changed."""
        here = self._stack[-1]
        if here.line is not None:
            here.line.made += self._new(frame)

    def _new(self, frame: FrameType) -> Iterator[Made]:
        here = self._stack[-1]
        comment, position = here.comment(), 0
        for variable, held in list(frame.f_locals.items()):
            for name, value in self._named(variable, held):
                if here.known.get(name) != value.index:
                    here.known[name] = value.index
                    yield Made(name, value, axes_in_comment(comment, value.shape, position))
                    position += 1

    def _named(self, name: str, held: object) -> Iterator[tuple[str, Value]]:
        """Yield the tensors that a variable holds: the tensor itself, or the items of a tuple by name."""
        if isinstance(held, Tensor):
            yield name, self._value(held)
        elif isinstance(held, tuple):
            fields = getattr(held, "_fields", range(len(held)))
            for each, item in zip(fields, held, strict=True):
                if isinstance(item, Tensor):
                    yield (f"{name}.{each}" if isinstance(each, str) else f"{name}[{each}]"), self._value(item)

    # ---- torch's side: operations

    def __torch_function__(self, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        kwargs = kwargs or {}
        here = None if self._muted or not self._stack else self._stack[-1].line
        if here is None:
            return func(*args, **kwargs)
        given = self._as_values(args), self._as_values(kwargs)  # before a call that changes them in place
        result = func(*args, **kwargs)
        outputs = tuple(self._value(t) for t in _tensors_in(result))
        inputs = {value.index for value in values_in(given)}
        if outputs and not inputs.issuperset(
            value.index for value in outputs
        ):  # skip operations that return their input
            here.operations.append(Operation(_name_of(func), func, *given, outputs))
        return result

    def _as_values(self, given: Any) -> Any:
        """Replace each tensor in nested tuples, lists and dicts by its `Value`."""
        if isinstance(given, Tensor):
            return self._value(given)
        if isinstance(given, (tuple, list)):
            items = [self._as_values(each) for each in given]
            return items if isinstance(given, list) or hasattr(given, "_fields") else tuple(items)
        if isinstance(given, dict):
            return {key: self._as_values(each) for key, each in given.items()}
        return given

    def _value(self, tensor: Tensor) -> Value:
        """Return the snapshot of the tensor's present version, copied on first use."""
        key = id(tensor), _version(tensor)
        if key not in self._seen:
            self._alive.append(tensor)
            nbytes = tensor.numel() * tensor.element_size()
            array: Any = None
            if id(tensor) in self._weights and tensor.dtype in HALF:
                array = HalfWeight(tensor)
            elif id(tensor) in self._weights:
                array = tensor.detach().numpy()  # a view: nothing is written to a model
            elif self.nbytes + nbytes <= self._max_bytes:
                self.nbytes += nbytes
                with torch._C.DisableTorchFunction():
                    copy = tensor.detach().clone()
                    array = (copy.float() if copy.dtype is torch.bfloat16 else copy).numpy()  # which numpy lacks
                array.flags.writeable = False
            value = Value(len(self.values), tuple(tensor.shape), array, self._weights.get(id(tensor), ""))
            self.values.append(value)
            self._seen[key] = value
        return self._seen[key]


def _version(tensor: Tensor) -> int:
    """Return what changes with each change in place: torch's counter, or a hash where an inference tensor has none."""
    if not tensor.is_inference():
        return tensor._version
    with torch._C.DisableTorchFunction():
        return hash(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())


def _tensors_in(result: Any) -> Iterator[Tensor]:
    if isinstance(result, Tensor):
        yield result
    elif isinstance(result, (tuple, list)):
        for each in result:
            yield from _tensors_in(each)


def _short(path: str) -> str:
    """Return the last name in a module's path, with the list's name for an item of a list: "attn", "blocks.1"."""
    *_, before, last = ("", *path.split("."))
    return f"{before}.{last}" if last.isdigit() else last


def _name_of(function: Callable) -> str:
    name = getattr(function, "__name__", str(function))
    return getattr(getattr(function, "__self__", None), "__name__", name) if name in NO_NAME else name
