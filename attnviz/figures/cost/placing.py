"""Sentences on how several accelerators, windows and pages divide a model's memory."""

from __future__ import annotations

from collections.abc import Iterable

from attnviz.config import ModelConfig
from attnviz.cost import Serving
from attnviz.cost.cached import cached_by_kind
from attnviz.cost.placed import DATA, TENSOR, windowed
from attnviz.cost.sums import mixers
from attnviz.phrases import count

PARALLEL = {TENSOR: "tensor parallelism", DATA: "data-parallel attention"}


def placing(serving: Serving, n_sequences: int) -> str:
    """State what each accelerator holds, and how windows and pages are counted; "" where there is nothing to say."""
    return " ".join(filter(None, (parallel_text(serving, n_sequences), *allocation(serving))))


def parallel_text(serving: Serving, n_sequences: int | None = None) -> str:
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
    held, *others = dict.fromkeys(kind.mixer.under_tensor_parallelism(n) for kind in cached_by_kind(serving.model, 1))
    more = "".join(f"; in other layers it {each}" for each in others)
    return f"With tensor parallelism, each accelerator {held}{more}.{_uneven(serving.model, n)}"


def copies_text(model: ModelConfig, n: int) -> str:
    """State how many times n accelerators hold the cache under tensor parallelism, "once" if there are no copies."""
    most = max((mixer.copies(n) for _, mixer in mixers(model)), default=1)
    return f"{float(most):.3g} times" if most > 1 else "once"


def _uneven(model: ModelConfig, n: int) -> str:
    uneven = dict.fromkeys(mixer.n_heads for _, mixer in mixers(model) if not mixer.divides_evenly(n))
    if not uneven:
        return ""
    return (
        f" {count(max(uneven), 'head')} cannot be divided evenly by {n:,}, which vLLM refuses; counted here for the "
        "accelerator that holds most."
    )


def allocation(serving: Serving) -> Iterable[str]:
    """State how the windows and pages are counted, where the model has a window and pages are not single tokens."""
    if windowed(serving.model, serving.n_tokens):
        if serving.full_windows:
            yield "Windowed layers take memory for all tokens, as in vLLM without its hybrid KV cache manager."
        else:
            yield "Windowed layers take memory for their window alone, as in transformers: a lower bound."
    if serving.page > 1:
        yield f"Each sequence takes whole pages of {serving.page:,} tokens."
