"""Subjects of the questions, graded and spoken, and the tasks to write yourself: {name in links: title}, in list order.

No torch, so that settings can name them and progress can be read without it. What they ask is in `attnviz/practice/`.
"""

from dataclasses import dataclass

SUBJECTS = {
    "shapes": "Shapes",
    "heads": "Heads and grouping",
    "masks": "Masks and softmax",
    "rope": "RoPE",
    "cost": "Parameters and cache",
    "decoding": "Decoding and speed",
}
SPOKEN = {  # of the questions to answer aloud: the names of their files
    "mechanism": "Mechanism",
    "positions": "Positions",
    "sharing": "Sharing keys and values",
    "cache": "Cache",
    "serving": "Serving",
    "since-2025": "Newer mechanisms",
    "board": "At the board",
    "wrong-answers": "What is wrong with this answer?",
}
TASKS = {
    "attention": "Scaled dot-product attention",
    "self-attention": "Single-head self-attention",
    "mha": "Causal multi-head attention",
    "gqa": "Grouped-query attention",
    "rope": "RoPE: angles and rotation",
    "rms-norm": "RMSNorm",
    "swiglu": "SwiGLU",
    "cache": "Decoding with a KV cache",
    "block": "A pre-norm block",
    "top-p": "Top-p (nucleus) sampling",
    "mla": "Multi-head latent attention",
    "flash": "Tiled (flash) attention",
    "delta": "The gated delta rule",
    "sparse": "Sparse attention with an indexer",
}


@dataclass(frozen=True)
class CardState:
    """When a card is due (an ISO date), the days since it was asked, its ease, and how often it was answered."""

    due: str
    interval_days: int
    ease: float
    seen: int
