"""Accelerators by their makers' data sheets: memory, bandwidth and dense 16-bit FLOP/s, each with its source."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True)
class Accelerator:
    """One device, or several taken together, as if passing data between them cost nothing."""

    id: str
    name: str
    year: int
    memory: int  # bytes; makers count in GB of 10^9
    bandwidth: float  # bytes a second
    flops: float  # dense 16-bit multiply-adds count as two, a second
    source: str

    @property
    def ridge(self) -> float:
        """FLOPs a byte from which on arithmetic, not memory, is the limit."""
        return self.flops / self.bandwidth

    def times(self, n: int) -> Accelerator:
        """`n` of them: memory, bandwidth and FLOP/s added up."""
        if n == 1:
            return self
        return Accelerator(
            self.id, f"{n} × {self.name}", self.year, n * self.memory, n * self.bandwidth, n * self.flops, self.source
        )


def load_accelerators() -> dict[str, Accelerator]:
    """The accelerators by id, oldest first."""
    return dict(_accelerators())


@cache
def _accelerators() -> dict[str, Accelerator]:
    entries = json.loads((Path(__file__).parents[1] / "accelerators.json").read_text(encoding="utf-8"))
    return {
        e["id"]: Accelerator(
            e["id"], e["name"], e["year"], e["memory_gb"] * 10**9, e["bandwidth_gb_s"] * 1e9, e["tflops"] * 1e12,
            e["source"],
        )
        for e in entries
    }  # fmt: skip
