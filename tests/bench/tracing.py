"""Cost of a trace, against a minimal implementation that records nothing, and against transformers."""

from collections.abc import Callable
from statistics import median
from time import perf_counter

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

from attnviz.config import ModelConfig
from attnviz.modules import Transformer
from attnviz.trace import trace

SETTINGS = ModelConfig(n_layers=4, d_model=192, n_heads=8, d_ff=512, vocab_size=2048)  # the shipped MHA checkpoint's
N_TOKENS = 128
ROUNDS = 200


def ratios() -> dict[str, float]:
    """Return seconds of a trace divided by those of each other implementation: medians over alternating rounds."""
    model = Transformer.random(SETTINGS, seed=0)
    llama = llama_like(model)
    ids = torch.randint(0, SETTINGS.vocab_size, (1, N_TOKENS), generator=torch.Generator().manual_seed(0))
    tables = causal_mask_and_rotation(N_TOKENS)
    token_ids = ids[0].tolist()
    runs: dict[str, Callable[[], object]] = {
        "trace": lambda: trace(model, token_ids),
        "forward": lambda: model(ids),
        "bare": lambda: bare(model, ids, *tables),
        "transformers": lambda: llama(ids, output_attentions=True, use_cache=False),
    }
    with torch.inference_mode():
        expected = torch.tensor(trace(model, token_ids).logits)
        logits = {"bare": runs["bare"]()[0], "transformers": runs["transformers"]().logits[0]}
        for name, others in logits.items():
            assert torch.allclose(others, expected, atol=1e-4), f"{name} computes something else"
        seconds = {name: [] for name in runs}
        for _ in range(ROUNDS):
            for name, run in runs.items():
                began = perf_counter()
                run()
                seconds[name].append(perf_counter() - began)
    middle = {name: median(times) for name, times in seconds.items()}
    return {
        "trace_ms": 1000 * middle["trace"],
        "trace / its own forward": middle["trace"] / middle["forward"],
        "trace / bare": middle["trace"] / middle["bare"],
        "trace / transformers": middle["trace"] / middle["transformers"],
    }


def causal_mask_and_rotation(n_tokens: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return what depends only on the length: the mask, (T, T) bool, True = masked, and cos and sin (T, D)."""
    half = SETTINGS.head_dim // 2
    frequencies = SETTINGS.rope_theta ** (-torch.arange(half) / half)
    angles = (torch.arange(n_tokens)[:, None] * frequencies).repeat(1, 2)  # (T, D)
    return torch.ones(n_tokens, n_tokens, dtype=torch.bool).triu(1), angles.cos(), angles.sin()


def bare(model: Transformer, ids: Tensor, forbidden: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Compute logits (B, T, V) without recording: intermediate tensors are freed after use."""
    c = SETTINGS
    x = model.embed.weight[ids]
    for block in model.blocks:
        a, f = block.attn, block.ffn
        h = F.rms_norm(x, (c.d_model,), block.attn_norm.weight, 1e-6)
        q, k, v = (
            F.linear(h, p.weight).view(*ids.shape, c.n_heads, c.head_dim).transpose(1, 2)
            for p in (a.q_proj, a.k_proj, a.v_proj)
        )  # (B, H, T, D) each
        q, k = (r * cos + torch.cat([-r[..., c.head_dim // 2 :], r[..., : c.head_dim // 2]], -1) * sin for r in (q, k))
        weights = (q @ k.mT * c.head_dim**-0.5).masked_fill_(forbidden, -torch.inf).softmax(-1)
        x = x + F.linear((weights @ v).transpose(1, 2).flatten(2), a.o_proj.weight)
        h = F.rms_norm(x, (c.d_model,), block.ffn_norm.weight, 1e-6)
        x = x + F.linear(F.silu(F.linear(h, f.gate_proj.weight)) * F.linear(h, f.up_proj.weight), f.down_proj.weight)
    return F.linear(F.rms_norm(x, (c.d_model,), model.norm.weight, 1e-6), model.embed.weight)


def llama_like(model: Transformer) -> LlamaForCausalLM:
    """Return transformers' eager Llama with the same weights."""
    c = model.config
    settings = LlamaConfig(
        vocab_size=c.vocab_size,
        hidden_size=c.d_model,
        intermediate_size=c.d_ff,
        num_hidden_layers=c.n_layers,
        num_attention_heads=c.n_heads,
        num_key_value_heads=c.n_kv_heads,
        rope_theta=c.rope_theta,
        tie_word_embeddings=True,
        attn_implementation="eager",
    )
    llama = LlamaForCausalLM(settings).eval()
    theirs = {
        "embed.": "model.embed_tokens.", "blocks.": "model.layers.", ".attn.": ".self_attn.", ".ffn.": ".mlp.",
        "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
    }  # fmt: skip
    for name, weight in model.state_dict().items():
        name = "model.norm.weight" if name == "norm.weight" else name
        for ours, other in theirs.items():
            name = name.replace(ours, other)
        llama.get_parameter(name).data.copy_(weight)
    return llama
