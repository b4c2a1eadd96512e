"""The tasks of "Write it yourself", in the order in which they are listed."""

from __future__ import annotations

from attnviz.practice.task import Task
from attnviz.practice.tasks import attention, block, cache, flash, latent, parts, sampling

TASKS: dict[str, Task] = {
    task.name: task
    for task in (
        attention.SCALED_DOT_PRODUCT, attention.SELF_ATTENTION, attention.MULTI_HEAD, attention.GROUPED_QUERY,
        parts.ROPE, parts.RMS_NORM, parts.SWIGLU, cache.CACHE, block.BLOCK, sampling.TOP_P, latent.LATENT,
        flash.FLASH,
    )
}  # fmt: skip
