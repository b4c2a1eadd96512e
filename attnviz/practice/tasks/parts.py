"""The tasks on the other parts of a block: RoPE, RMSNorm, SwiGLU and the pre-norm block itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnviz.config import ModelConfig
from attnviz.modules import Block, RMSNorm, SwiGLU
from attnviz.modules.rope import apply_rope, rope_frequencies
from attnviz.practice.task import Case, Mistaken, Task, function_case, module_case
from attnviz.practice.tasks.attention import drawn


def _rope(
    frequencies: Callable[[int, float], Tensor] = rope_frequencies, layout: str = "half", first: int = 0, sign: int = 1
) -> dict[str, Any]:
    def rope(x: Tensor, positions: Tensor, theta: float = 10000.0) -> Tensor:
        return apply_rope(x, sign * (positions + first), frequencies(x.shape[-1], theta), layout)

    return {"rope": rope}


def _by_whole_dim(D: int, theta: float) -> Tensor:
    return theta ** -(torch.arange(D // 2, dtype=torch.float64) / D)


def _first_pair_turns(D: int, theta: float) -> Tensor:
    return theta ** -(2 * torch.arange(1, D // 2 + 1, dtype=torch.float64) / D)


def _pairs_of(turned: Callable[[Tensor], Tensor], spread: Callable[[Tensor], Tensor]) -> dict[str, Any]:
    """Build x · cos + turned(x) · sin with the angles (T, D / 2) spread over the D dimensions."""

    def rope(x: Tensor, positions: Tensor, theta: float = 10000.0) -> Tensor:
        angles = spread((positions[:, None] * rope_frequencies(x.shape[-1], theta)).float())
        return x * angles.cos() + turned(x) * angles.sin()

    return {"rope": rope}


def _halves(x: Tensor, sign: int = -1) -> Tensor:
    a, b = x.chunk(2, -1)
    return torch.cat((sign * b, a), -1)


def _twice(angles: Tensor) -> Tensor:
    return torch.cat((angles, angles), -1)


def _restarted() -> dict[str, Any]:
    def rope(x: Tensor, positions: Tensor, theta: float = 10000.0) -> Tensor:
        return apply_rope(x, torch.arange(x.shape[-2]), rope_frequencies(x.shape[-1], theta))

    return {"rope": rope}


def _theta_unused() -> dict[str, Any]:
    def rope(x: Tensor, positions: Tensor, theta: float = 10000.0) -> Tensor:
        return apply_rope(x, positions, rope_frequencies(x.shape[-1]))

    return {"rope": rope}


def _rope_cases(seed: int) -> list[Case]:
    return [
        function_case("positions 0, 1, 2, …", "rope", drawn(seed, 2, 3, 7, 10), torch.arange(7)),
        function_case("positions from 13, as with a cache", "rope", drawn(seed + 1, 2, 3, 5, 14), torch.arange(13, 18)),
        function_case("positions in any order", "rope", drawn(seed + 2, 1, 5, 5, 6), torch.tensor([3, 0, 11, 7, 2])),
        function_case("theta = 500,000", "rope", drawn(seed + 3, 2, 3, 7, 22), torch.arange(7), theta=500_000.0),
        function_case("T = 1", "rope", drawn(seed + 4, 2, 3, 1, 10), torch.tensor([29])),
        function_case("position 2,039", "rope", drawn(seed + 5, 1, 2, 1, 26), torch.tensor([2039]), tolerance=2e-3),
    ]


ROPE = Task(
    "rope",
    "RoPE: angles and rotation",
    '''"""Rotary position embeddings, half-split: dimension i is paired with i + D / 2.

x (B, H, T, D), positions (T,) -> (B, H, T, D). Pair i of the token at position p is rotated by the angle
p · theta^(−2i / D): (a, b) -> (a · cos − b · sin, b · cos + a · sin).
"""

import torch


def rope(x, positions, theta=10000.0):
    raise NotImplementedError
''',
    _rope(),
    _rope_cases,
    (
        Mistaken("in the interleaved layout (2i with 2i + 1)", _rope(layout="interleaved"), "rope_in_the_other_layout"),
        Mistaken("with each pair rotated in the opposite direction", _rope(sign=-1)),
        Mistaken(
            "with cat((b, a)) instead of cat((−b, a)): both numbers of a pair get a plus",
            _pairs_of(lambda x: _halves(x, 1), _twice),
        ),
        Mistaken(
            "with pairs (i, i + D / 2), but angles in the order 0 0 1 1 …: a mix of both layouts",
            _pairs_of(_halves, lambda angles: angles.repeat_interleave(2, -1)),
        ),
        Mistaken("with positions that start at 1", _rope(first=1)),
        Mistaken("with positions from 0, ignoring the argument positions", _restarted(), "positions_restart"),
        Mistaken("with theta = 10,000, ignoring the argument theta", _theta_unused()),
        Mistaken("with the exponent −i / D instead of −2i / D", _rope(_by_whole_dim)),
        Mistaken("with the frequencies of pairs 1, 2, … instead of 0, 1, …", _rope(_first_pair_turns)),
    ),
)


def _norm(x: Tensor, weight: Tensor, eps: float = 1e-6) -> Tensor:
    norm = RMSNorm(x.shape[-1], eps)
    norm.weight = nn.Parameter(weight)
    return norm(x)


def _norm_cases(seed: int) -> list[Case]:
    def case(label: str, n: int, *shape: int, size: float = 1.0, **kwargs: Any) -> Case:
        weight = 1 + 0.5 * drawn(seed + n, shape[-1])
        return function_case(label, "rms_norm", size * (drawn(seed + n + 1, *shape) + 0.7), weight, **kwargs)

    return [
        case("x (2, 7, 13)", 0, 2, 7, 13),
        case("one token", 2, 1, 1, 5),
        case("eps = 0.3", 4, 2, 3, 11, eps=0.3),
        case("small x, where eps matters", 6, 2, 3, 11, size=1e-3),
        case("x (5, 17), without a batch axis", 8, 5, 17),
    ]


ROOT_OUTSIDE = {"rms_norm": lambda x, weight, eps=1e-6: x / ((x * x).mean(-1, keepdim=True).sqrt() + eps) * weight}
RMS_NORM = Task(
    "rms-norm",
    "RMSNorm",
    '''"""RMSNorm over the last dimension: x / √(mean(x²) + eps) · weight.

x (..., C), weight (C,) -> (..., C).
"""

import torch


def rms_norm(x, weight, eps=1e-6):
    raise NotImplementedError
''',
    {"rms_norm": _norm},
    _norm_cases,
    (
        Mistaken("with the mean subtracted first, which is LayerNorm without bias",
                 {"rms_norm": lambda x, weight, eps=1e-6: F.layer_norm(x, x.shape[-1:], weight, None, eps)}),
        Mistaken("with eps added outside the root", ROOT_OUTSIDE),
        Mistaken("with the sum of squares instead of their mean",
                 {"rms_norm": lambda x, weight, eps=1e-6: x * weight / ((x * x).sum(-1, keepdim=True) + eps).sqrt()}),
        Mistaken("without the weight",
                 {"rms_norm": lambda x, weight, eps=1e-6: _norm(x, torch.ones_like(weight), eps)}),
        Mistaken("with 1 + weight instead of weight, which is Gemma's RMSNorm",
                 {"rms_norm": lambda x, weight, eps=1e-6: _norm(x, 1 + weight, eps)}),
        Mistaken("with eps = 1e-6, ignoring eps", {"rms_norm": lambda x, weight, eps=1e-6: _norm(x, weight)}),
    ),
)  # fmt: skip


def _swiglu(activation: Callable[[Tensor], Tensor] = F.silu, swapped: bool = False) -> dict[str, Any]:
    def swiglu(x: Tensor, gate: Tensor, up: Tensor, down: Tensor) -> Tensor:
        a, b = (up, gate) if swapped else (gate, up)
        return F.linear(activation(F.linear(x, a)) * F.linear(x, b), down)

    return {"swiglu": swiglu}


def _right_swiglu(x: Tensor, gate: Tensor, up: Tensor, down: Tensor) -> Tensor:
    layer = SwiGLU(x.shape[-1], len(gate))
    layer.gate_proj.weight, layer.up_proj.weight = nn.Parameter(gate), nn.Parameter(up)
    layer.down_proj.weight = nn.Parameter(down)
    return layer(x)


def _swiglu_cases(seed: int) -> list[Case]:
    def case(label: str, n: int, C: int, W: int, *before: int, size: float = 1.0) -> Case:
        weights = drawn(seed + n, W, C), drawn(seed + n + 1, W, C), drawn(seed + n + 2, C, W)
        return function_case(label, "swiglu", size * drawn(seed + n + 3, *before, C), *weights)

    return [
        case("x (2, 7, 5), d_ff = 13", 0, 5, 13, 2, 7),
        case("T = 1", 4, 7, 17, 1, 1),
        case("d_ff smaller than d_model", 8, 11, 3, 2, 5),
        case("large x", 12, 5, 13, 2, 3, size=10.0),
    ]


SWIGLU = Task(
    "swiglu",
    "SwiGLU",
    '''"""SwiGLU: down · (silu(gate · x) * (up · x)), silu(a) = a · sigmoid(a).

x (..., C), gate and up (F, C), down (C, F) -> (..., C). The matrices have the layout of nn.Linear: (out, in).
"""

import torch


def swiglu(x, gate, up, down):
    raise NotImplementedError
''',
    {"swiglu": _right_swiglu},
    _swiglu_cases,
    (
        Mistaken("with a sigmoid instead of SiLU, which is GLU", _swiglu(torch.sigmoid), "sigmoid_gate"),
        Mistaken("with gate and up swapped", _swiglu(swapped=True)),
        Mistaken("with GELU instead of SiLU, which is GEGLU", _swiglu(F.gelu)),
        Mistaken("with ReLU instead of SiLU, which is ReGLU", _swiglu(F.relu)),
        Mistaken("without an activation, which is a bilinear layer", _swiglu(lambda x: x)),
    ),
)


class _Block(Block):
    def __init__(self, d_model: int, n_heads: int, n_kv_heads: int, d_ff: int) -> None:
        super().__init__(ModelConfig(1, d_model, n_heads, n_kv_heads, d_ff=d_ff, vocab_size=2))

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        return super().forward(x, causal=True)


def _block(forward: Callable[[Any, Tensor], Tensor]) -> dict[str, Any]:
    return {"Block": type("Block", (_Block,), {"forward": forward})}


def _post_norm(self: Any, x: Tensor) -> Tensor:
    x = self.attn_norm(x + self.attn(x, causal=True))
    return self.ffn_norm(x + self.ffn(x))


def _normed_residual(self: Any, x: Tensor) -> Tensor:
    x = self.attn_norm(x)
    x = x + self.attn(x, causal=True)
    x = self.ffn_norm(x)
    return x + self.ffn(x)


def _without_residual(self: Any, x: Tensor) -> Tensor:
    return self.ffn(self.ffn_norm(self.attn(self.attn_norm(x), causal=True)))


def _parallel(self: Any, x: Tensor) -> Tensor:
    return x + self.attn(self.attn_norm(x), causal=True) + self.ffn(self.ffn_norm(x))


def _one_norm(self: Any, x: Tensor) -> Tensor:
    x = x + self.attn(self.attn_norm(x), causal=True)
    return x + self.ffn(self.attn_norm(x))


def _not_causal(self: Any, x: Tensor) -> Tensor:
    x = x + self.attn(self.attn_norm(x))
    return x + self.ffn(self.ffn_norm(x))


def _block_cases(seed: int) -> list[Case]:
    def case(label: str, n: int, T: int, C: int, H: int, K: int, W: int, size: float = 1.0) -> Case:
        sizes = {"d_model": C, "n_heads": H, "n_kv_heads": K, "d_ff": W}
        return module_case(label, BLOCK.right, "Block", sizes, seed + n, size * drawn(seed + n, 2, T, C))

    return [
        case("d_model = 66, 6 query heads, 3 KV heads, d_ff = 17", 0, 7, 66, 6, 3, 17),
        case("K = H", 1, 5, 35, 5, 5, 13),
        case("K = 1", 2, 11, 39, 3, 1, 71),
        case("T = 1", 3, 1, 66, 6, 2, 17),
        case("small x, where eps matters", 4, 7, 35, 5, 1, 13, size=1e-3),
    ]


BLOCK = Task(
    "block",
    "A pre-norm block",
    '''"""A pre-norm block as in Llama, without RoPE: x + attention(norm(x)), then x + SwiGLU(norm(x)).

x (B, T, d_model) -> (B, T, d_model), causal. The check sets these parameters by name (no biases):
    attn_norm.weight (d_model,)      ffn_norm.weight (d_model,)      RMSNorm, eps = 1e-6
    attn.q_proj.weight, attn.k_proj.weight, attn.v_proj.weight, attn.o_proj.weight      grouped-query attention
    ffn.gate_proj.weight, ffn.up_proj.weight (d_ff, d_model), ffn.down_proj.weight (d_model, d_ff)      SwiGLU
"""

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, d_model, n_heads, n_kv_heads, d_ff):
        super().__init__()
        raise NotImplementedError

    def forward(self, x):
        raise NotImplementedError
''',
    {"Block": _Block},
    _block_cases,
    (
        Mistaken("with the norms after the residual sums (post-norm)", _block(_post_norm), "norm_on_residual_sum"),
        Mistaken("with the residual stream itself normalised: x = norm(x) before x + …", _block(_normed_residual)),
        Mistaken("without the residual connections", _block(_without_residual)),
        Mistaken("with attention and feed-forward in parallel, which is a parallel block", _block(_parallel)),
        Mistaken("with attn_norm also before the feed-forward", _block(_one_norm)),
        Mistaken("without a causal mask", _block(_not_causal), "mask_never_used"),
    ),
)
