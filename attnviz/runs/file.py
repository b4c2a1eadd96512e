"""Saved runs: one safetensors file, with the tokens as JSON in its metadata.

    attention.<kind>.<layer>   (H, T, S)           q.<kind>.<layer>, k.…, v.…, gradients.…, where they were recorded
    logits                     (T, vocabulary)     picture   (height, width, 3), bytes

A file is a stranger's: sizes are compared with the limits before memory is taken, and the run is checked like one given
to `run_of`. The file is not memory-mapped, since shortening a mapped file kills the process.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from attnviz.phrases import count, listed
from attnviz.runs.arrays import RunError, in_words
from attnviz.runs.kinds import KINDS, AttentionKind
from attnviz.runs.run import AttentionRun, run_of
from attnviz.runs.tokens import checked_tokens

FORMAT = 1
METADATA = "attnviz_run"
PER_LAYER = ("q", "k", "v", "gradients")
DTYPES: dict[str, np.dtype] = {"F32": np.dtype("<f4"), "F16": np.dtype("<f2"), "U8": np.dtype("u1")}
MAX_HEADER = 50_000_000  # bytes
MAX_LAYERS = 10_000
MAX_AXES = 8
MAX_NAMED = 5  # ignored tensors
HOW = "attnviz.save_run(path, attention, tokens) writes one"


@dataclass(frozen=True)
class Limits:
    """The largest run that is opened."""

    nbytes: int = 8_000_000_000  # of its tensors
    n_tokens: int = 32_768  # per side
    n_heads: int = 100_000  # of all layers


def save_run(path: str | os.PathLike[str], attention: Any, tokens: Any = None, **besides: Any) -> Path:
    """Save a run as a safetensors file, and return its path; arguments as for `run_of`."""
    from safetensors.numpy import save_file

    run, path = run_of(attention, tokens, **besides), Path(path)
    if not path.parent.is_dir():
        raise RunError(f"There is no folder {path.parent}.")
    tensors = {name: np.ascontiguousarray(array) for name, array in _tensors(run).items()}
    path.touch()
    mode = path.stat().st_mode  # as the umask has it: safetensors writes a file that only its owner can read
    save_file(tensors, path, {METADATA: json.dumps(_described(run))})
    path.chmod(mode)
    return path


def _tensors(run: AttentionRun) -> dict[str, np.ndarray]:
    found = {f"attention.{kind.name}.{i}": layer for kind in run.kinds for i, layer in enumerate(kind.layers)}
    for what in PER_LAYER:
        for name, layers in getattr(run, what).items():
            found |= {f"{what}.{name}.{i}": layer for i, layer in enumerate(layers)}
    return found | {what: array for what in ("logits", "picture") if (array := getattr(run, what)) is not None}


def _described(run: AttentionRun) -> dict[str, Any]:
    kinds = [
        {"name": kind.name, "n_layers": kind.n_layers, "tokens": kind.tokens, "key_tokens": kind.key_tokens,
         "n_kv_heads": kind.n_kv_heads, "first_row": kind.first_row}
        for kind in run.kinds
    ]  # fmt: skip
    names = ("patches", "n_before", "output_from", "names", "title", "notes")
    return {"format": FORMAT, "kinds": kinds} | {name: getattr(run, name) for name in names}


# ---- opening


def open_run(source: str | os.PathLike[str] | bytes, limits: Limits = Limits()) -> AttentionRun:
    """Open a saved run, a path or the file's bytes; ValueError if it is none, or larger than the limits."""
    if isinstance(source, bytes | bytearray | memoryview):
        return _opened(io.BytesIO(source), "the file", limits)
    path = _one_file(source)
    with path.open("rb") as file:
        return _opened(file, path.name, limits)


def check_run(source: str | os.PathLike[str]) -> None:
    """Check that a file begins as a saved run does, without reading its tensors; ValueError or OSError if not."""
    path = _one_file(source)
    with path.open("rb") as file:
        _header(file, path.name)


def _one_file(source: str | os.PathLike[str]) -> Path:
    path = Path(source)
    if not path.is_file():
        raise RunError(f"{path} is a folder; a saved run is one file" if path.is_dir() else f"There is no file {path}.")
    return path


def _opened(file: BinaryIO, name: str, limits: Limits) -> AttentionRun:
    entries, info = _header(file, name)
    kinds = [_field(kind, "", dict) for kind in _field(info, "kinds", list)[: len(KINDS) + 1]]  # more are refused below
    wanted = {f"attention.{_kind(kind)}.{i}": kind for kind in kinds for i in range(_n_layers(kind))}
    if missing := [each for each in wanted if each not in entries]:
        raise RunError(f"{name} lacks {missing[0]}: it is incomplete or was changed")
    known = [each for each in entries if each in wanted or _is_known(each)]
    _refuse_large({each: entries[each] for each in known}, list(wanted), limits)
    arrays = {each: entries[each].read(file) for each in known}
    ignored = tuple(each for each in entries if each not in arrays)
    return _run(info, kinds, arrays, _about_ignored(ignored))


def _run(
    info: dict[str, Any], kinds: list[dict], arrays: Mapping[str, np.ndarray], notes: tuple[str, ...]
) -> AttentionRun:
    def layers(what: str, kind: dict) -> tuple[np.ndarray, ...]:
        names = [f"{what}.{kind['name']}.{i}" for i in range(kind["n_layers"])]
        if any(name in arrays for name in names) and (missing := [name for name in names if name not in arrays]):
            raise RunError(f"the file lacks {missing[0]}: it is incomplete or was changed")
        return tuple(arrays[name] for name in names if name in arrays)

    values = tuple(
        AttentionKind(kind["name"], layers("attention", kind), checked_tokens(kind.get("tokens")),
                      checked_tokens(kind.get("key_tokens"), "key_tokens"),
                      tuple(_field(kind, "n_kv_heads", list, [])), kind.get("first_row", 0))
        for kind in kinds
    )  # fmt: skip
    tensors = {what: {kind["name"]: found for kind in kinds if (found := layers(what, kind))} for what in PER_LAYER}
    names, patches = info.get("names"), _field(info, "patches", list, [])
    return AttentionRun(
        values, **tensors, logits=arrays.get("logits"), picture=arrays.get("picture"),
        patches=tuple(patches) or None, n_before=info.get("n_before", 0),
        output_from=info.get("output_from"), names=None if names is None else checked_tokens(names, "names"),
        title=_field(info, "title", str, ""), notes=(*checked_tokens(info.get("notes", []), "notes"), *notes),
    )  # fmt: skip


@dataclass(frozen=True)
class Entry:
    """One tensor of the file: its name, type, shape, and where its bytes are."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    start: int
    nbytes: int

    def read(self, file: BinaryIO) -> np.ndarray:
        if self.dtype not in DTYPES or (self.dtype == "U8") != (self.name == "picture"):
            raise RunError(f"{self.name} must be float32 or float16 (F32 or F16 in the file; U8 for a picture), "
                           f"not {self.dtype}")  # fmt: skip
        if self.nbytes != self.nbytes_of_shape:
            raise RunError(f"{self.name} of shape {in_words(self.shape)} has {self.nbytes:,} bytes in the file, "
                           f"not {self.nbytes_of_shape:,}: the file is damaged")  # fmt: skip
        file.seek(self.start)
        data = file.read(self.nbytes)
        if len(data) != self.nbytes:
            raise RunError(f"{self.name} ends after the end of the file, which became shorter; open it again")
        return np.frombuffer(data, DTYPES[self.dtype]).reshape(self.shape)

    @property
    def nbytes_of_shape(self) -> int:
        return prod(self.shape) * DTYPES.get(self.dtype, np.dtype("<f4")).itemsize


def _header(file: BinaryIO, name: str) -> tuple[dict[str, Entry], dict[str, Any]]:
    """Read the header: its length in 8 bytes, and JSON {name: type, shape and the offsets after the header}."""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    length = int.from_bytes(file.read(8), "little")
    if not 2 <= length <= min(MAX_HEADER, size - 8):
        raise RunError(f"{name} is no saved run: it is not a safetensors file. {HOW}")
    header = _json(file.read(length), f"{name} is no saved run: its header is not JSON. {HOW}")
    about = header.pop("__metadata__", None)
    text = about.get(METADATA) if isinstance(about, dict) else None
    if not isinstance(text, str):
        raise RunError(f"{name} is a safetensors file, but no saved run. {HOW}")
    info = _json(text, f"{name} is damaged: what it says of its run is not JSON")
    if info.get("format") != FORMAT:
        raise RunError(f"{name} has the format {info.get('format')!r}; this version of attnviz opens {FORMAT}")
    return {key: _entry(key, facts, 8 + length, size) for key, facts in header.items()}, info


def _json(text: str | bytes, otherwise: str) -> dict[str, Any]:
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        parsed = None
    if not isinstance(parsed, dict):
        raise RunError(otherwise)
    return parsed


def _entry(name: str, facts: Any, start: int, size: int) -> Entry:
    shape, offsets = (_sizes(facts, key) for key in ("shape", "data_offsets"))
    if shape is not None and len(shape) <= MAX_AXES and offsets is not None and len(offsets) == 2:
        first, last = offsets
        if first <= last <= size - start:
            return Entry(name, str(facts["dtype"]), shape, start + first, last - first)
    raise RunError(f"{name} is not whole in the file: it is incomplete or damaged; copy or save it again")


def _sizes(facts: Any, key: str) -> tuple[int, ...] | None:
    """Return whole numbers from 0 that a header lists, None if it lists anything else."""
    numbers = facts.get(key) if isinstance(facts, dict) and "dtype" in facts else None
    whole = isinstance(numbers, list) and all(type(n) is int and n >= 0 for n in numbers)
    return tuple(numbers) if whole else None  # type: ignore[arg-type]


def _field(given: Any, name: str, kind: type, otherwise: Any = None) -> Any:
    """Return a field of the run's description, or, for name "", the value itself; RunError if it has another type."""
    value = given.get(name) if name else given
    value = otherwise if value is None and otherwise is not None else value
    if not isinstance(value, kind):
        raise RunError(f"the file's description of its run is damaged: {name or 'a kind'} is not a {kind.__name__}")
    return value


def _kind(kind: dict) -> str:
    if kind.get("name") not in KINDS:
        raise RunError(f"a kind of attention is one of {listed(KINDS)}, not {str(kind.get('name'))[:60]!r}")
    return kind["name"]


def _n_layers(kind: dict) -> int:
    n = kind.get("n_layers")
    if type(n) is not int or not 1 <= n <= MAX_LAYERS:
        raise RunError(
            f"n_layers of {kind['name']!r} must be a whole number from 1 to {MAX_LAYERS:,}, not {str(n)[:60]}"
        )
    return n


def _is_known(name: str) -> bool:
    what, _, rest = name.partition(".")
    kind, _, layer = rest.partition(".")
    return name in ("logits", "picture") or (what in PER_LAYER and kind in KINDS and layer.isdecimal())


def _refuse_large(entries: Mapping[str, Entry], weights: list[str], limits: Limits) -> None:
    """Raise RunError for sizes above the limits; what a tensor takes follows from its shape alone."""
    nbytes = sum(entry.nbytes_of_shape for entry in entries.values())
    heads = sum(entries[name].shape[0] for name in weights if entries[name].shape)
    longest = max((n for name in weights for n in entries[name].shape[1:]), default=0)
    if nbytes > limits.nbytes:
        raise RunError(
            f"the run takes {nbytes / 1e9:,.2f} GB of memory; at most {limits.nbytes / 1e9:,.2f} GB are opened"
        )
    if longest > limits.n_tokens:
        raise RunError(f"the run has {longest:,} tokens; at most {limits.n_tokens:,} are opened")
    if heads > limits.n_heads:
        raise RunError(f"the run has {heads:,} heads; at most {limits.n_heads:,} are opened")


def _about_ignored(names: tuple[str, ...]) -> tuple[str, ...]:
    if not names:
        return ()
    more = len(names) - MAX_NAMED
    named = [name[:60] for name in names[:MAX_NAMED]] + ([f"{more:,} more"] if more > 0 else [])
    return (f"The file has {count(len(names), 'tensor')} that no page shows: {listed(named)}.",)
