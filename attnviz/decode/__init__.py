"""Decoding one token at a time: sampling, bounded, quantised and paged caches, speculative decoding."""

from attnviz.decode.bounded import CacheFull, LimitedCache, SlidingCache, limited_cache, sliding_cache
from attnviz.decode.generate import Step, generate, losses, read
from attnviz.decode.paged import BlockPool, OutOfBlocks, PagedSequence, paged_pool
from attnviz.decode.quantised import QuantisedCache, quantised_cache
from attnviz.decode.sampling import Sampling, Stage, distribution, stages
from attnviz.decode.speculation import ModelDrafter, NGramDrafter, Round, speculate
from attnviz.decode.work import Work, step_with_cache, step_without_cache

__all__ = [
    "BlockPool",
    "CacheFull",
    "LimitedCache",
    "ModelDrafter",
    "NGramDrafter",
    "OutOfBlocks",
    "PagedSequence",
    "QuantisedCache",
    "Round",
    "Sampling",
    "SlidingCache",
    "Stage",
    "Step",
    "Work",
    "distribution",
    "generate",
    "limited_cache",
    "losses",
    "paged_pool",
    "quantised_cache",
    "read",
    "sliding_cache",
    "speculate",
    "stages",
    "step_with_cache",
    "step_without_cache",
]
