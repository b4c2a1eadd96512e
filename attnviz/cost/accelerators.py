"""Accelerators: memory as the driver reports it, bandwidth and dense FLOP/s from the data sheet, with sources."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from attnviz.equations import Expression, Value, function
from attnviz.mechanisms import letter

TYPED = "own"  # id of an accelerator of which only the memory is known


@dataclass(frozen=True)
class Accelerator:
    """One device, or several whose communication is assumed to cost nothing.

    memory: bytes; as the driver reports if a source is known, else the data sheet's GB read as 10^9 bytes.
    bandwidth: bytes per second. flops: peak dense FLOP/s at `arithmetic`, a multiply-add counted as two.
    """

    id: str
    name: str
    year: int
    memory: int
    bandwidth: float
    flops: float
    source: str
    data_sheet_gb: float
    fp8_flops: float | None = None  # None if the data sheet gives no fp8 peak
    reported_by: str = ""  # source of the reported memory; empty if no report is known
    count: int = 1
    arithmetic: str = "16-bit"
    bf16: bool = True  # whether the 16-bit peak holds for bf16 too; False if its tensor cores multiply only fp16

    @property
    def of_one(self) -> str:
        """The name of one of `count` of these."""
        return self.name.removeprefix(f"{self.count} × ")

    @property
    def is_typed(self) -> bool:
        """True if only its memory is known: `of_memory`."""
        return self.id == TYPED

    @property
    def ridge(self) -> float:
        """FLOPs per byte above which arithmetic, not memory, is the limit."""
        return self.ridge_cost().value

    def ridge_cost(self) -> Expression:
        """Return the same as an expression."""
        return self.peak() / self.rate()

    def peak(self) -> Value:
        """Return the peak FLOP/s under their letter."""
        return letter("Π", self.flops, f"peak {self.arithmetic} FLOP/s", digits=_decimals(self.flops), scientific=True)

    def rate(self) -> Value:
        """Return the bytes per second under their letter."""
        return letter("β", self.bandwidth, digits=_decimals(self.bandwidth), scientific=True)

    def times(self, n: int) -> Accelerator:
        """Return `n` of these: memory, bandwidth and FLOP/s added up."""
        if n == 1:
            return self
        return replace(
            self, name=f"{n} × {self.name}", memory=n * self.memory, bandwidth=n * self.bandwidth, flops=n * self.flops,
            data_sheet_gb=n * self.data_sheet_gb, fp8_flops=self.fp8_flops and n * self.fp8_flops, count=n,
        )  # fmt: skip

    def multiplying(self, weights: str, cached: str) -> Accelerator:
        """Return the accelerator with the peak FLOP/s assumed for weights and cache in these precisions.

        fp8 if weights and cache both are fp8 and the data sheet has a peak for it, else 16-bit: narrower numbers are
        widened to 16 bits, and for fp32, which is slower, the 16-bit peak remains an upper bound.
        """
        if weights == cached == "fp8" and self.fp8_flops:
            return replace(self, flops=self.fp8_flops, arithmetic="fp8")
        return self

    def by_data_sheet(self) -> Accelerator:
        """Return the accelerator with the data sheet's memory, its GB read as 10^9 bytes."""
        return replace(self, memory=round(self.data_sheet_gb * 10**9))


class Pass:
    """One pass of a model, a decode step or the prefill of a prompt, and the bound on its time."""

    def work(self) -> Expression:
        """Return the FLOPs under their letter."""
        raise NotImplementedError

    def read(self) -> Expression:
        """Return the bytes read, as an expression."""
        raise NotImplementedError

    def least_seconds(self, accelerator: Accelerator) -> Expression:
        """Return the minimum time, as an expression: reading and arithmetic overlap perfectly, both at their peak."""
        return function("max", self.read() / accelerator.rate(), self.work() / accelerator.peak())

    def seconds(self, accelerator: Accelerator) -> float:
        """Return the same as a number."""
        return self.least_seconds(accelerator).value

    def reading_seconds(self, accelerator: Accelerator) -> float:
        return self.read().value / accelerator.bandwidth

    def bound_by(self, accelerator: Accelerator) -> str:
        """Return the limit that takes longer: "memory" or "compute"."""
        return "memory" if self.reading_seconds(accelerator) >= self.work().value / accelerator.flops else "compute"


def _decimals(number: float) -> int:
    """Return the decimals of a data sheet's number in scientific notation: 2, or as many as it has."""
    return next((n for n in range(2, 6) if float(f"{number:.{n}e}") == number), 2)


def of_memory(gib: float, bandwidth_gb_s: float = 0) -> Accelerator:
    """Return an accelerator of which only the memory in GiB is known, and its bandwidth in GB/s unless that is 0.

    Its arithmetic is taken to be no limit.
    """
    memory = round(gib * 2**30)
    return Accelerator(
        TYPED, f"{gib:g} GiB", 0, memory, bandwidth_gb_s * 1e9, math.inf, "typed in", memory / 1e9,
    )  # fmt: skip


def load_accelerators() -> dict[str, Accelerator]:
    """Return the accelerators by id, oldest first."""
    return dict(_accelerators())


@cache
def _accelerators() -> dict[str, Accelerator]:
    entries = json.loads((Path(__file__).parents[1] / "accelerators.json").read_text(encoding="utf-8"))
    return {entry["id"]: _accelerator(entry) for entry in entries}


def _accelerator(e: dict) -> Accelerator:
    reported = e.get("reported_mib")
    fp8 = e.get("fp8_tflops")
    return Accelerator(
        e["id"], e["name"], e["year"], reported * 2**20 if reported else e["memory_gb"] * 10**9,
        e["bandwidth_gb_s"] * 1e9, e["tflops"] * 1e12, e["source"], e["memory_gb"], fp8 and fp8 * 1e12,
        e.get("reported_by", ""), bf16=e.get("bf16", True),
    )  # fmt: skip
