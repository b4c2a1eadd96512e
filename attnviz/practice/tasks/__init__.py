"""The tasks of "Write it yourself", in the order of `attnviz/exercises.py`."""

from __future__ import annotations

from attnviz import exercises
from attnviz.practice.task import Task
from attnviz.practice.tasks import attention, block, cache, delta, flash, latent, parts, sampling, sparse

_WRITTEN = (
    attention.SCALED_DOT_PRODUCT, attention.SELF_ATTENTION, attention.MULTI_HEAD, attention.GROUPED_QUERY,
    block.BLOCK, cache.CACHE, delta.DELTA, flash.FLASH, latent.LATENT, parts.RMS_NORM, parts.ROPE, parts.SWIGLU,
    sampling.TOP_P, sparse.SPARSE,
)  # fmt: skip
TASKS: dict[str, Task] = {
    task.name: task for task in sorted(_WRITTEN, key=lambda t: list(exercises.TASKS).index(t.name))
}
