"""A model with a state in three of four layers against one with a cache in each: a trace, and a step after 4,096."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import median
from time import perf_counter

import torch

from attnviz.config import ModelConfig
from attnviz.experiments.measurement import timings
from attnviz.modules import Transformer
from attnviz.trace import trace
from attnviz.training.__main__ import config_of

N_TOKENS, CONTEXT, ROUNDS = 256, 4096, 60


def ratios() -> dict[str, float]:
    """Return the medians of the hybrid's seconds divided by those of GQA-4, over alternating rounds."""
    configs = [replace(config_of(name), max_context=None) for name in ("hybrid", "gqa-4")]
    hybrid, full = timings(configs, [CONTEXT])
    return {
        "trace of hybrid / GQA-4, T=256": _traces(configs),
        "step of hybrid / GQA-4, 4,096 tokens": hybrid.median / full.median,
    }


def _traces(configs: Sequence[ModelConfig]) -> float:
    ids = torch.randint(0, configs[0].vocab_size, (N_TOKENS,), generator=torch.Generator().manual_seed(0)).tolist()
    models = [Transformer.random(config, seed=0) for config in configs]
    seconds: list[list[float]] = [[], []]
    for _ in range(ROUNDS):
        for model, times in zip(models, seconds, strict=True):
            times.append(_seconds(lambda model=model: trace(model, ids)))
    hybrid, full = map(median, seconds)
    return hybrid / full


def _seconds(run: Callable[[], object]) -> float:
    began = perf_counter()
    run()
    return perf_counter() - began


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(ratios())
