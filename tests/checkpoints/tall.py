"""A random Llama with as many layers and heads as SmolLM2-135M."""

from pathlib import Path

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from tests.checkpoints.tokenizers import byte_level

L, H, K = 30, 9, 3
SIZES = dict(vocab_size=331, hidden_size=54, intermediate_size=37, head_dim=6, max_position_embeddings=1031)


def save_tall(folder: Path) -> Path:
    """Save it with a tokenizer; returns the folder."""
    torch.manual_seed(7)
    config = LlamaConfig(**SIZES, num_hidden_layers=L, num_attention_heads=H, num_key_value_heads=K)
    LlamaForCausalLM(config).bfloat16().save_pretrained(folder)
    byte_level(folder)
    return folder
