"""The bytes that a decode step reads, and an accelerator's memory, in words: a rate can be checked from them."""

from __future__ import annotations

from attnviz.cost import Accelerator, DecodeStep, Serving
from attnviz.cost.units import bytes_text
from attnviz.cost.weights import count_parameters, embeddings_beside
from attnviz.phrases import listed

DIGITS = 4  # one more than a rate is printed with, so that dividing them gives it


def read_text(serving: Serving, step: DecodeStep) -> str:
    """Say how many bytes of weights and of cache a step reads, and which weights it does not read."""
    read, all_ = (bytes_text(n, digits=DIGITS) for n in (step.weight_bytes, serving.weights_together()))
    weights = f"{read} of weights"
    if read != all_:
        weights = f"{read} of the {all_} of weights ({_left_unread(serving, step)})"
    together = f", on all {serving.count:,} together" if serving.count > 1 else ""
    return f"{weights} and {bytes_text(step.cache_bytes, digits=DIGITS)} of cache{together}"


def limit_text(serving: Serving, step: DecodeStep) -> str:
    """Say what limits a step: the bytes that it reads at a bandwidth, or its FLOPs at a peak."""
    machine = serving.machine
    if step.bound_by(machine) == "compute":
        return f"the arithmetic is the limit: {step.flops / 1e12:,.4g} TFLOP at {machine.flops / 1e12:,g} TFLOP/s"
    return f"a step reads {read_text(serving, step)}, at {bandwidth_text(machine)}"


def bandwidth_text(machine: Accelerator) -> str:
    """Format the bytes per second, which makers give in powers of ten: "3.35 TB/s", "300 GB/s"."""
    tera = machine.bandwidth >= 1e12
    return f"{machine.bandwidth / (1e12 if tera else 1e9):,g} {'TB/s' if tera else 'GB/s'}"


def _left_unread(serving: Serving, step: DecodeStep) -> str:
    """Say of which weights a step reads only some."""
    model, experts = serving.held, serving.model.experts
    tables = [] if model.tie_embeddings else ["the input embedding"]
    tables += ["the position embedding"] if "position embeddings" in count_parameters(model).parts else []
    tables += ["the per-layer embeddings"] if embeddings_beside(model) else []
    parts = [f"only rows of {listed(tables)}"] if tables else []
    if experts is not None and experts.read(step.batch_size) < experts.n_routed:
        parts.append("only the selected experts")
    return ", ".join(parts)


def memory_text(a: Accelerator) -> str:
    """Return the memory of one accelerator, with its source: "79.6 GiB as its driver reports, sold as 80 GB".

    The driver of each of them reports more than the data sheet's GB would be as 10⁹ bytes: these GB are GiB.
    """
    each, size = " each" if a.count > 1 else "", bytes_text(a.memory // a.count)
    sold = f"{a.data_sheet_gb / a.count:g}"
    if a.is_typed:
        return f"{size}{each}"
    if not a.reported_by:
        return f"{size}{each}, the {sold} GB of the data sheet read as 10⁹ bytes"
    return f"{size}{each} as its driver reports, sold as {sold} GB"
