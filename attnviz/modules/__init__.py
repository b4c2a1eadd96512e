"""The attention modules that the app runs. Needs only torch; independent of text, figures and the browser."""

from attnviz.modules.attention import Attended, GroupedQueryAttention, attend
from attnviz.modules.cache import KVCache, StateCache
from attnviz.modules.delta import GatedDeltaNet
from attnviz.modules.extended import CacheReadingAttention, ExtendedAttention
from attnviz.modules.feedforward import GeGLU, GELUFeedForward, SwiGLU
from attnviz.modules.heads import (
    FusedSelfAttention,
    MultiHeadAttention,
    MultiQueryAttention,
    SelfAttention,
    StackedHeads,
)
from attnviz.modules.indexed import SparseAttention, SparseLatentAttention
from attnviz.modules.latent import MultiHeadLatentAttention
from attnviz.modules.norm import LayerNorm, RMSNorm
from attnviz.modules.recording import AttentionRecord, Recording
from attnviz.modules.rope import Rope, apply_rope, rope_frequencies
from attnviz.modules.transformer import Block, SandwichBlock, Transformer

__all__ = [
    "Attended",
    "AttentionRecord",
    "Block",
    "CacheReadingAttention",
    "ExtendedAttention",
    "FusedSelfAttention",
    "GELUFeedForward",
    "GatedDeltaNet",
    "GeGLU",
    "GroupedQueryAttention",
    "KVCache",
    "LayerNorm",
    "MultiHeadAttention",
    "MultiHeadLatentAttention",
    "MultiQueryAttention",
    "RMSNorm",
    "Recording",
    "Rope",
    "SandwichBlock",
    "SelfAttention",
    "SparseAttention",
    "SparseLatentAttention",
    "StackedHeads",
    "StateCache",
    "SwiGLU",
    "Transformer",
    "apply_rope",
    "attend",
    "rope_frequencies",
]
