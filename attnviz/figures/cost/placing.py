"""Sentences on how several accelerators, windows and pages divide a model's memory."""

from __future__ import annotations

from collections.abc import Iterable

from attnviz.cost import Serving
from attnviz.cost.cached import cached_by_kind
from attnviz.cost.placed import DATA, TENSOR, divides_evenly, windowed
from attnviz.cost.sums import mixers
from attnviz.phrases import listed

PARALLEL = {TENSOR: "tensor parallelism", DATA: "data-parallel attention"}
MOST_HELD = "Counted here for the accelerator that holds most."


def placing(serving: Serving, n_sequences: int) -> str:
    """State what each accelerator holds, and how windows and pages are counted; "" where there is nothing to say."""
    most = MOST_HELD if uneven_text(serving) else ""
    return " ".join(filter(None, (_held_text(serving, n_sequences), most, *allocation(serving))))


def parallel_text(serving: Serving, n_sequences: int | None = None) -> str:
    """State what each of several accelerators caches, and what cannot be divided; "" for one accelerator."""
    uneven = uneven_text(serving)
    return " ".join(filter(None, (_held_text(serving, n_sequences), uneven and f"{uneven}. {MOST_HELD}")))


def _held_text(serving: Serving, n_sequences: int | None) -> str:
    """State what each of several accelerators caches; "" for one."""
    n = serving.count
    if n == 1:
        return ""
    if serving.parallel == DATA:
        at_most = f"at most {serving.here(n_sequences):,} of the {n_sequences:,}" if n_sequences else "its own"
        sequences = "sequence" if n_sequences == 1 else "sequences"
        return (
            f"With data-parallel attention, each accelerator caches {at_most} {sequences} whole and holds all weights "
            "of attention; the other weights are divided."
        )
    kinds = cached_by_kind(serving.model, 1)
    held, *others = dict.fromkeys(kind.mixer.under_tensor_parallelism(n) for kind in kinds)
    more = "".join(f"; in other layers it {each}" for each in others)
    copied = any(kind.mixer.copies(n) > 1 for kind in kinds)
    once = " Data-parallel attention would hold it once." if copied else ""
    return f"With tensor parallelism, each accelerator {held}{more}.{once}"


def uneven_text(serving: Serving) -> str:
    """State which heads the accelerators cannot share evenly; "" if they can, or need not."""
    n = serving.count
    if divides_evenly(serving.model, n, serving.parallel):
        return ""
    uneven = dict.fromkeys(filter(None, (mixer.uneven(n) for _, mixer in mixers(serving.model))))
    return f"{listed(uneven)} cannot be divided evenly by {n:,}, which vLLM refuses"


def allocation(serving: Serving) -> Iterable[str]:
    """State how the windows and pages are counted, where the model has a window and pages are not single tokens."""
    if windowed(serving.model, serving.n_tokens):
        if serving.full_windows:
            yield "Windowed layers take memory for all tokens, as in vLLM without its hybrid KV cache manager."
        else:
            yield "Windowed layers take memory for their window alone, as in transformers: a lower bound."
    if serving.page > 1:
        yield f"Each sequence takes whole pages of {serving.page:,} tokens."
