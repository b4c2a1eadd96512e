"""Small models for the tests of decoding, with distinct primes as dimensions where possible."""

from __future__ import annotations

from typing import Any

from attnviz.config import ModelConfig
from attnviz.modules import Transformer

LATENT = dict(attention="mla", kv_lora_rank=7, qk_nope_head_dim=5, qk_rope_head_dim=4, v_head_dim=3)
GROUPED = dict(n_kv_heads=2, head_dim=10)
PROMPT = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5]


def small(n_layers: int = 2, seed: int = 1, **settings: Any) -> Transformer:
    """An untrained model: 6 heads, vocabulary 17."""
    settings = settings or GROUPED
    return Transformer.random(ModelConfig(n_layers, 13, 6, d_ff=19, vocab_size=17, **settings), seed)
