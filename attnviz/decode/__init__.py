"""Decoding one token at a time: caches that grow, are bounded, quantised or paged; sampling; speculation."""

from attnviz.decode.bounded import CacheFull, LimitedCache, SlidingCache, limited_cache, sliding_cache
from attnviz.decode.generate import Step, generate, losses, read
from attnviz.decode.sampling import Sampling, Stage, distribution, stages

__all__ = [
    "CacheFull",
    "LimitedCache",
    "Sampling",
    "SlidingCache",
    "Stage",
    "Step",
    "distribution",
    "generate",
    "limited_cache",
    "losses",
    "read",
    "sliding_cache",
    "stages",
]
