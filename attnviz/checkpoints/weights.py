"""Tensors of safetensors files, read into this process's own memory.

The files are not memory-mapped: writing to a mapped file changes the open model, and shortening it kills the process
with SIGBUS.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from math import prod
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from attnviz.checks import ConfigError

LFS_POINTER = b"version https://git-lfs"
DTYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
COUNTED_AT_ONCE = 1_000_000  # numbers


@dataclass(frozen=True)
class Entry:
    """One tensor of a file: its type as named there, its shape, and where its bytes are."""

    path: Path
    dtype: str
    shape: tuple[int, ...]
    first: int
    nbytes: int

    def read(self, name: str) -> Tensor:
        """Read the tensor. ConfigError if it has another type than DTYPES, or numbers that are not finite."""
        if self.dtype not in DTYPES:
            raise ConfigError(f"the tensor {name} must be float32, float16 or bfloat16 (F32, F16 or BF16 in the "
                              f"file), not {self.dtype}")  # fmt: skip
        bytes_read = torch.empty(self.nbytes, dtype=torch.uint8)
        with self.path.open("rb") as file:
            file.seek(self.first)
            if file.readinto(bytes_read.numpy().data) != self.nbytes:
                raise ConfigError(f"{self.path.name} became shorter while it was read; open the model again")
        tensor = bytes_read.view(DTYPES[self.dtype]).reshape(self.shape)
        _refuse_non_finite(name, tensor)
        return tensor


def entries(files: list[Path]) -> dict[str, Entry]:
    """Return the tensors of these files by name; only the files' headers are read."""
    _refuse_more_than_memory(files)
    all_entries: dict[str, Entry] = {}
    for path in files:
        refuse_pointer(path)
        _check_format(path)
        all_entries |= _entries_of(path)
    return all_entries


def _check_format(path: Path) -> None:
    """Raise ConfigError unless the header is valid and the file has all the bytes that it names."""
    try:
        with safe_open(path, "pt"):
            pass
    except SafetensorError as error:
        raise ConfigError(f"{path.name}, of {path.stat().st_size:,} bytes, is damaged or incomplete ({error}); "
                          "download it again") from None  # fmt: skip


def _entries_of(path: Path) -> dict[str, Entry]:
    """Parse a header: its length in 8 bytes, and a JSON object {name: type, shape and offsets after the header}."""
    with path.open("rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        start = file.tell()
    header.pop("__metadata__", None)
    return {
        name: Entry(path, facts["dtype"], tuple(facts["shape"]), start + first, stop - first)
        for name, facts in header.items()
        for first, stop in [facts["data_offsets"]]
    }


def refuse_pointer(path: Path) -> None:
    """Raise ConfigError for an empty file, and for one that a clone without Git LFS leaves in a large one's place."""
    with path.open("rb") as file:
        start = file.read(len(LFS_POINTER))
    if not start:
        raise ConfigError(f"{path.name} is empty; download it again")
    if start == LFS_POINTER:
        raise ConfigError(f"{path.name} has {path.stat().st_size:,} bytes and is only a Git LFS pointer to the file; "
                          "run git lfs pull in the folder")  # fmt: skip


def _refuse_more_than_memory(files: list[Path]) -> None:
    """Raise ConfigError if the weights are larger than this machine's memory, where the system tells it."""
    if not hasattr(os, "sysconf"):
        return
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    nbytes = sum(path.stat().st_size for path in files)
    if nbytes > memory:
        raise ConfigError(f"its weights take {nbytes / 1e9:,.1f} GB, and this machine has {memory / 1e9:,.1f} GB of "
                          "memory; open a smaller model")  # fmt: skip


def _refuse_non_finite(name: str, tensor: Tensor) -> None:
    """Raise ConfigError if a tensor contains NaN or infinity."""
    if not tensor.numel() or all(torch.isfinite(bound) for bound in torch.aminmax(tensor)):
        return
    n = sum(int((~torch.isfinite(part)).sum()) for part in tensor.flatten().split(COUNTED_AT_ONCE))
    are = "is not a finite number" if n == 1 else "are not finite numbers"
    raise ConfigError(f"{n:,} of the {prod(tensor.shape):,} weights in the tensor {name} {are} (NaN or infinity); "
                      "download the file again, or save an earlier checkpoint of the training")  # fmt: skip
