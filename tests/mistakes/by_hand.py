"""The number of each mistake, and of the right version, computed independently of the mistaken code."""

from collections.abc import Callable
from copy import deepcopy
from functools import cache

import numpy as np
import torch
from torch import Tensor, nn

from attnviz.checkpoints import load_checkpoint
from attnviz.config import ModelConfig
from attnviz.modules import Transformer, apply_rope, rope_frequencies
from attnviz.modules.masks import attention_mask
from attnviz.session.shared import DEFAULT_TEXT
from attnviz.text import tokenizer
from attnviz.trace import Trace, trace
from tests.mistakes.states_by_hand import (
    RULES,
    keys_kept,
    logits_of_rule,
    norm_of_state,
    right,
    share_on_earlier_chunks,
)

IDS = tokenizer().encode(DEFAULT_TEXT)
T = len(IDS)


@cache
def model_of(name: str) -> Transformer:
    return load_checkpoint(name)[0]


@cache
def trace_of(model: str) -> Trace:
    return trace(model_of(model), IDS)


def softmax(scores: np.ndarray, axis: int = -1) -> np.ndarray:
    raised = np.exp(scores.astype(np.float64) - scores.max(axis, keepdims=True))
    return raised / raised.sum(axis, keepdims=True)


def scores_of(model: str) -> np.ndarray:
    """Return the scores of layer 0 before the mask: (H, T, T)."""
    found, c = trace_of(model), model_of(model).config
    return np.stack([found.layers[0].scores_of(head) for head in range(c.n_heads)]).astype(np.float64)


def loss_of(logits: Tensor) -> float:
    return float(-logits[0, :-1].double().log_softmax(-1).gather(-1, torch.tensor(IDS[1:])[:, None]).mean())


def entropy(model: str) -> float:
    c = model_of(model).config
    wide = c.d_model if c.attention == "mla" else c.n_heads * c.head_dim
    factor = (c.head_dim / wide) ** 0.5
    weights = softmax(np.where(trace_of(model).allowed[0], scores_of(model) * factor, -np.inf))
    return entropy_of(weights)


def entropy_of(weights: np.ndarray) -> float:
    return float(-(weights * np.log(np.maximum(weights, 1e-30))).sum(-1).mean())


def hooked(model: str, make: Callable[[nn.Module], list]) -> Transformer:
    """Return a separate copy of the model with hooks on its attention modules."""
    fresh = deepcopy(model_of(model))
    for block in fresh.blocks:
        make(block)
    return fresh


def logits_of(model: Transformer, ids: list[int] = IDS) -> Tensor:
    with torch.inference_mode():
        return model(torch.tensor([ids]))


def with_rope(model: str, rope: Callable[[Tensor, int], Tensor]) -> Tensor:
    """Return the logits (1, T, V) with a different rotation."""
    it = model_of(model)
    with torch.inference_mode():
        x = it.embed(torch.tensor([IDS]))
        for block in it.blocks:
            x = block(x, mask=attention_mask(T, T, causal=True), rope=rope)
        return it.logits(x)


class Rotation:
    """A rotation that the attention calls for q, then for k."""

    latent_softmax_factor = 1.0

    def __init__(self, model: str, positions_q: Tensor, positions_k: Tensor) -> None:
        c = model_of(model).config
        self.frequencies, self.positions, self.calls = rope_frequencies(c.rotary_dim), (positions_q, positions_k), 0

    def __call__(self, x: Tensor, start: int) -> Tensor:
        self.calls += 1
        return apply_rope(x, self.positions[(self.calls - 1) % 2], self.frequencies)


def positions_restart(model: str) -> float:
    first = T - 8
    positions = torch.cat((torch.arange(first), torch.zeros(8, dtype=torch.long)))
    moved = with_rope(model, Rotation(model, positions, positions)) - logits_of(model_of(model))
    return float(moved[:, -1].abs().max())


def keys_rotated_twice(model: str) -> float:
    return loss_of(with_rope(model, Rotation(model, torch.arange(T), 2 * torch.arange(T))))


def rope_on_values(model: str) -> float:
    c = model_of(model).config

    def turned(x: Tensor) -> Tensor:
        return apply_rope(x.transpose(1, 2), torch.arange(T), rope_frequencies(c.rotary_dim)).transpose(1, 2)

    def hook(module: nn.Module, given: tuple, out: Tensor) -> Tensor:
        if c.attention != "mla":
            return turned(out.unflatten(-1, (c.n_kv_heads, -1))).flatten(2)
        k, v = out.unflatten(-1, (c.n_heads, -1)).split((c.qk_nope_head_dim, c.v_head_dim), dim=-1)
        return torch.cat((k, turned(v)), dim=-1).flatten(2)

    def make(block: nn.Module) -> list:
        return [(block.attn.kv_b_proj if c.attention == "mla" else block.attn.v_proj).register_forward_hook(hook)]

    return loss_of(logits_of(hooked(model, make)))


def other_layout(model: str) -> float:
    c, found = model_of(model).config, trace_of(model)
    frequencies, plain = rope_frequencies(c.rotary_dim), c.head_dim - c.rotary_dim

    def rotated(x: np.ndarray) -> Tensor:
        """Rotate x (heads, T, D); for MLA only the last dimensions."""
        turned = apply_rope(torch.tensor(x[..., plain:]), torch.arange(T), frequencies, "interleaved")
        return torch.cat((torch.tensor(x[..., :plain]), turned), -1).double()

    q, k = rotated(found.q_pre_rope[0]), rotated(found.k_pre_rope[0])
    scores = q @ k.repeat_interleave(len(q) // len(k), 0).mT * c.head_dim**-0.5
    return float(np.abs(np.tril(scores.numpy() - scores_of(model), -1)).max())


def tiled(model: str) -> float:
    it = model_of(model)
    c, full = it.config, {}
    for name, p in it.state_dict().items():
        if "k_proj" in name or "v_proj" in name:
            heads = p.unflatten(0, (c.n_kv_heads, -1))
            p = torch.cat([heads] * c.group_size).flatten(0, 1)
        full[name] = p
    mha = Transformer(ModelConfig(c.n_layers, c.d_model, c.n_heads, head_dim=c.head_dim, d_ff=c.d_ff, max_context=256))
    mha.load_state_dict(full)
    return loss_of(logits_of(mha))


def glu(model: str) -> float:
    class GLU(nn.Module):
        def __init__(self, ffn: nn.Module) -> None:
            super().__init__()
            self.ffn = ffn

        def forward(self, x: Tensor) -> Tensor:
            gate = self.ffn.gate_proj(x)
            return self.ffn.down_proj(self.ffn.up_proj(x) / (1 + torch.exp(-gate)))

    def make(block: nn.Module) -> list:
        block.ffn = GLU(block.ffn)
        return []

    return loss_of(logits_of(hooked(model, make)))


def post_norm(model: str) -> float:
    it = model_of(model)
    with torch.inference_mode():
        x = it.embed(torch.tensor([IDS]))
        for block, option in zip(it.blocks, it.attention_options(T), strict=True):
            for part, norm in ((lambda x: block.attn(x, **option), block.attn_norm), (block.ffn, block.ffn_norm)):  # noqa: B023
                x = x + part(x)
                x = x / ((x * x).mean(-1, keepdim=True) + 1e-6).sqrt() * norm.weight
        return loss_of(it.logits(x))


def mixed_heads(model: str) -> float:
    H = model_of(model).config.n_heads

    def hook(module: nn.Module, given: tuple) -> tuple:
        by_head = given[0].unflatten(-1, (H, -1)).transpose(1, 2).contiguous()  # (B, H, T, D), in memory
        return (by_head.flatten().unflatten(0, given[0].shape),)

    return loss_of(
        logits_of(hooked(model, lambda block: [block.attn.o_proj.register_forward_pre_hook(hook)]))
    )  # fmt: skip


def fused(model: str) -> float:
    it = deepcopy(model_of(model))
    c = it.config
    K, G, D = c.n_kv_heads, c.group_size, c.head_dim
    row = np.arange((c.n_heads + 2 * K) * D).reshape(K, G + 2, D)  # as read: per KV head
    for block in it.blocks:
        a = block.attn
        rows = torch.cat((a.q_proj.weight, a.k_proj.weight, a.v_proj.weight))
        for linear, of in ((a.q_proj, row[:, :G]), (a.k_proj, row[:, G]), (a.v_proj, row[:, G + 1])):
            linear.weight = nn.Parameter(rows[of.reshape(-1)], requires_grad=False)
    return loss_of(logits_of(it))


def across_the_batch(model: str) -> float:
    """Attend from each token's query to the keys of both texts at its position."""
    it, c = model_of(model), model_of(model).config
    attn = it.blocks[0].attn
    with torch.inference_mode():
        x = it.blocks[0].attn_norm(it.embed(torch.tensor([IDS, IDS[::-1]])))  # (2, T, C)
        q = attn.q_proj(x[0]).unflatten(-1, (c.n_heads, -1)).double()  # (T, H, D)
        k = attn.k_proj(x).unflatten(-1, (c.n_kv_heads, -1)).repeat_interleave(c.group_size, 2).double()  # (2, T, H, D)
        scores = (q * k).sum(-1) / c.head_dim**0.5  # (2, T, H)
    return float(torch.sigmoid(scores[1] - scores[0]).mean())


def overflowing_rows(model: str) -> float:
    """Find the growth between the first row of NaN and the first scaled score that overflows; count rows in float64."""
    found, c = trace_of(model), model_of(model).config
    q, k = found.q[0].astype(np.float64), np.repeat(found.k[0].astype(np.float64), c.n_heads // len(found.k[0]), 0)
    products = q @ k.transpose(0, 2, 1)
    decides = np.where(products.max(-1) > 0, products.max(-1), -np.where(found.allowed[0], products, -np.inf).max(-1))
    first, scaled = 65520 / decides.max(), 65520 * c.head_dim**0.5 / np.abs(products).max()
    growth = (first * scaled) ** 0.5 if first < scaled else first * max(c.head_dim**0.25, 2)
    return int((decides * growth > 65520).sum())


def later_positions(model: str) -> float:
    """Compare the text at positions 3, 4, … with positions 0, 1, …, with sinusoids instead of RoPE."""
    it = model_of(model)
    mask = attention_mask(T, T, causal=True)

    def run(first: int) -> Tensor:
        C = it.config.d_model
        angles = np.arange(first, first + T)[:, None] / 10000.0 ** (2 * np.arange(C // 2) / C)
        x = it.embed(torch.tensor([IDS])) + torch.tensor(np.concatenate((np.sin(angles), np.cos(angles)), 1)).float()
        for block in it.blocks:
            x = block(x, mask=mask)
        return it.logits(x)

    with torch.inference_mode():
        return float((run(3) - run(0)).abs().max())


def on_padding(model: str) -> float:
    return float(trace(model_of(model), [0, 0, 0, *IDS]).weights[0][:, 3:, :3].sum(-1).mean())


def unshifted(model: str) -> float:
    return -float(torch.tensor(trace_of(model).logits).double().log_softmax(-1)[range(T), IDS].mean())


def in_training_mode(model: str) -> float:
    """Run the right version in training mode, with the same random numbers."""
    it = deepcopy(model_of(model)).train()
    runs = []
    for block in it.blocks:
        block.attn.dropout = 0.1
    for seed in (0, 1):
        torch.manual_seed(seed)
        runs.append(logits_of(it))
    return float((runs[0] - runs[1]).abs().max())


def cached_bytes(model: str) -> float:
    c = model_of(model).config
    return 4 * T * c.n_layers * 2 * (c.kv_lora_rank if c.attention == "mla" else c.n_heads * c.head_dim)


def leaking(model: str) -> float:
    return float(np.triu(softmax(scores_of(model)), 1).sum() / (T * model_of(model).config.n_heads))


def smallest_row(model: str) -> float:
    return float((softmax(scores_of(model)) * trace_of(model).allowed[0]).sum(-1).min())


def largest_row(model: str) -> float:
    return float(softmax(np.where(trace_of(model).allowed[0], scores_of(model), -np.inf), axis=-2).sum(-1).max())


NUMBERS: dict[str, Callable[[str], float]] = {
    "attribute_before_assignment": lambda model: 0,
    "view_after_transpose": lambda model: 1,
    "groups_mixed_up": lambda model: 8 / {"mha": 8, "gqa-4": 4, "mqa": 1}[model],
    "fully_masked_row": lambda model: T,
    "scores_overflow_in_fp16": overflowing_rows,
    "cache_sized_with_n_heads": cached_bytes,
    "causal_mask_without_offset": lambda model: 1,
    "loss_without_shift": unshifted,
    "mask_never_used": leaking,
    "mask_of_another_batch": lambda model: 3,
    "padding_mask_over_queries": on_padding,
    "keys_rotated_twice": keys_rotated_twice,
    "dropout_in_evaluation": in_training_mode,
    "fused_qkv_per_head": fused,
    "left_padding_without_shifted_positions": later_positions,
    "mask_after_softmax": smallest_row,
    "positions_restart": positions_restart,
    "rope_on_values": rope_on_values,
    "rope_in_the_other_layout": other_layout,
    "scale_by_d_model": entropy,
    "softmax_over_queries": largest_row,
    "sigmoid_gate": glu,
    "norm_on_residual_sum": post_norm,
    "tiled_kv_heads": tiled,
    "attention_across_the_batch": across_the_batch,
    "reshape_without_transpose": mixed_heads,
    "fewer_flops_in_gqa": lambda model: 2 * 24 * {"gqa-4": 4, "mqa": 1}[model] * T * T,
    **{name: lambda model, name=name: loss_of(logits_of_rule(model_of(model), IDS, name)) for name in RULES},
    "values_added_up": lambda model: norm_of_state(trace_of(model), RULES["values_added_up"]),
    "state_of_a_chunk_dropped": lambda model: 0,
    "top_k_before_the_mask": lambda model: keys_kept(trace_of(model), 7, before_the_mask=True),
}
AS_IT_SHOULD_BE: dict[str, Callable[[str], float]] = {
    "attribute_before_assignment": lambda model: 4,
    "view_after_transpose": lambda model: T,
    "groups_mixed_up": lambda model: model_of(model).config.n_kv_heads,
    "cache_sized_with_n_heads": lambda model: 4 * T * {"gqa-4": 768, "mqa": 192, "mla": 320}[model],
    "causal_mask_without_offset": lambda model: T,
    "mask_of_another_batch": lambda model: 1,
    "mask_after_softmax": lambda model: 1,
    "softmax_over_queries": lambda model: 1,
    "fewer_flops_in_gqa": lambda model: 2 * 24 * 8 * T * T,
    "scale_by_d_model": lambda model: entropy_of(trace_of(model).weights[0]),
    "values_added_up": lambda model: norm_of_state(trace_of(model), right),
    "state_of_a_chunk_dropped": lambda model: share_on_earlier_chunks(trace_of(model), 15),
    "top_k_before_the_mask": lambda model: keys_kept(trace_of(model), 7, before_the_mask=False),
}  # fmt: skip
