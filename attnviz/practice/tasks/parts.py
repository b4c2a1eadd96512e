"""The tasks on the other parts of a block: RoPE, RMSNorm and SwiGLU."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnviz.modules import RMSNorm, SwiGLU
from attnviz.modules.rope import apply_rope, rope_frequencies
from attnviz.practice.task import Case, Mistaken, Task, function_case
from attnviz.practice.tasks.inputs import drawn


def _rope(
    exponent: Callable[[Tensor, int], Tensor] = lambda i, D: -2 * i / D,
    layout: str = "half",
    position: Callable[[Tensor], Tensor] = lambda positions: positions,
    sign: int = 1,
    theta_used: bool = True,
    turned: Callable[[Tensor], Tensor] | None = None,
    spread: Callable[[Tensor], Tensor] | None = None,
    joined: Callable[[Tensor], Tensor] = lambda rotated: rotated,
) -> dict[str, Any]:
    """Build RoPE; without options it is right.

    exponent: of theta, for pair i of D / 2. position: what is rotated by, of the given positions. sign: of the angles.
    theta_used: False if theta is 10,000 always. turned, spread: x · cos + turned(x) · sin with the angles (T, D / 2)
    spread over the D dimensions. joined: the result, of the halves one after another.
    """

    def rope(x: Tensor, positions: Tensor, theta: float = 10000.0) -> Tensor:
        D = x.shape[-1]
        base = theta if theta_used else 10000.0
        frequencies = base ** exponent(torch.arange(D // 2, dtype=torch.float64), D)  # (D / 2,)
        at = sign * position(positions)
        if not (turned or spread):
            return joined(apply_rope(x, at, frequencies, layout))
        angles = (spread or _twice)((at[:, None] * frequencies).float())  # (T, D)
        return joined(x * angles.cos() + (turned or _halves)(x) * angles.sin())

    return {"rope": rope}


def _right_rope(x: Tensor, positions: Tensor, theta: float = 10000.0) -> Tensor:
    return apply_rope(x, positions, rope_frequencies(x.shape[-1], theta))


def _halves(x: Tensor, sign: int = -1) -> Tensor:
    a, b = x.chunk(2, -1)
    return torch.cat((sign * b, a), -1)


def _twice(angles: Tensor) -> Tensor:
    return torch.cat((angles, angles), -1)


def _rope_cases(seed: int) -> list[Case]:
    return [
        function_case("positions 0, 1, 2, …", "rope", drawn(seed, 2, 3, 7, 10), torch.arange(7)),
        function_case("positions from 13, as with a cache", "rope", drawn(seed + 1, 2, 3, 5, 14), torch.arange(13, 18)),
        function_case("positions in any order", "rope", drawn(seed + 2, 1, 7, 5, 6), torch.tensor([3, 0, 11, 7, 2])),
        function_case("theta = 500,000", "rope", drawn(seed + 3, 2, 3, 7, 22), torch.arange(7), theta=500_000.0),
        function_case("T = 1", "rope", drawn(seed + 4, 2, 3, 1, 10), torch.tensor([29])),
        function_case("position 4,099", "rope", drawn(seed + 5, 1, 2, 1, 26), torch.tensor([4099]), tolerance=2e-3),
    ]


ROPE = Task(
    "rope",
    '''"""Rotary position embeddings, half-split: dimension i is paired with i + D / 2.

x (B, H, T, D), positions (T,) -> (B, H, T, D). Pair i of the token at position p is rotated by the angle
p · theta^(−2i / D): (a, b) -> (a · cos − b · sin, b · cos + a · sin).
"""

import torch


def rope(x, positions, theta=10000.0):
    raise NotImplementedError
''',
    {"rope": _right_rope},
    _rope_cases,
    _rope,
    (
        Mistaken("in the interleaved layout (2i with 2i + 1)", {"layout": "interleaved"}, "rope_in_the_other_layout"),
        Mistaken("with each pair rotated in the opposite direction", {"sign": -1}),
        Mistaken("with cat((b, a)) instead of cat((−b, a)): both numbers of a pair get a plus",
                 {"turned": lambda x: _halves(x, 1)}),
        Mistaken("with pairs (i, i + D / 2), but angles in the order 0 0 1 1 …: a mix of both layouts",
                 {"spread": lambda angles: angles.repeat_interleave(2, -1)}),
        Mistaken("with pairs (i, i + D / 2), but the result in the order of the interleaved layout: a mix of both",
                 {"joined": lambda rotated: rotated.unflatten(-1, (2, -1)).mT.flatten(-2)}),
        Mistaken("without a rotation: x is returned unchanged", {"position": torch.zeros_like}),
        Mistaken("with positions that start at 1", {"position": lambda positions: positions + 1}),
        Mistaken("with positions that start at −1", {"position": lambda positions: positions - 1}),
        Mistaken("with positions from 0, ignoring the argument positions",
                 {"position": lambda positions: torch.arange(len(positions))}, "positions_restart"),
        Mistaken("with theta = 10,000, ignoring the argument theta", {"theta_used": False}),
        Mistaken("with the exponent −i / D instead of −2i / D", {"exponent": lambda i, D: -i / D}),
        Mistaken("with the exponent −4i / D instead of −2i / D", {"exponent": lambda i, D: -4 * i / D}),
        Mistaken("with the frequencies of pairs 1, 2, … instead of 0, 1, …",
                 {"exponent": lambda i, D: -2 * (i + 1) / D}),
        Mistaken("with the exponent −2(i − 1) / D for i = 0, 1, …: the paper counts i from 1",
                 {"exponent": lambda i, D: -2 * (i - 1) / D}),
        Mistaken("with the exponent 2i / D instead of −2i / D: multiplied by theta instead of divided",
                 {"exponent": lambda i, D: 2 * i / D}),
    ),
)  # fmt: skip


def _norm(
    centred: bool = False, root: str = "inside", mean: Callable[[Tensor], Tensor] = lambda x: x.mean(-1, keepdim=True),
    weighted: Callable[[Tensor], Tensor] = lambda weight: weight, used_eps: Callable[[float], float] = lambda eps: eps,
    default_eps: float = 1e-6,
) -> dict[str, Any]:  # fmt: skip
    """Build RMSNorm; without options it is right.

    centred: the mean is subtracted first. root: where eps is added to the root, "inside", "outside", or "clamp" for the
    larger one of both. mean: of the squares. weighted: the factor, of the weight. used_eps: of the given eps.
    """

    def rms_norm(x: Tensor, weight: Tensor, eps: float = default_eps) -> Tensor:
        eps = used_eps(eps)
        x = x - x.mean(-1, keepdim=True) if centred else x
        size = mean(x * x)
        scale = {"inside": (size + eps).sqrt(), "outside": size.sqrt() + eps, "clamp": size.sqrt().clamp_min(eps)}[root]
        return x / scale * weighted(weight)

    return {"rms_norm": rms_norm}


def _right_norm(x: Tensor, weight: Tensor, eps: float = 1e-6) -> Tensor:
    norm = RMSNorm(x.shape[-1], eps)
    norm.weight = nn.Parameter(weight)
    return norm(x)


def _norm_cases(seed: int) -> list[Case]:
    def case(label: str, n: int, *shape: int, size: float = 1.0, zero: bool = False, **kwargs: Any) -> Case:
        weight, x = 1 + 0.5 * drawn(seed + n, shape[-1]), size * (drawn(seed + n + 1, *shape) + 0.7)
        x[0, 0] *= not zero
        return function_case(label, "rms_norm", x, weight, **kwargs)

    return [
        case("x (2, 7, 13)", 0, 2, 7, 13),
        case("one token", 2, 1, 1, 5),
        case("eps = 0.3", 4, 2, 3, 11, eps=0.3),
        case("small x, where eps matters, and one token of zeros", 6, 2, 3, 11, size=1e-3, zero=True),
        case("x (5, 17), without a batch axis", 8, 5, 17),
    ]


RMS_NORM = Task(
    "rms-norm",
    '''"""RMSNorm over the last dimension: x / √(mean(x²) + eps) · weight.

x (..., C), weight (C,) -> (..., C).
"""

import torch


def rms_norm(x, weight, eps=1e-6):
    raise NotImplementedError
''',
    {"rms_norm": _right_norm},
    _norm_cases,
    _norm,
    (
        Mistaken("with the mean subtracted first, which is LayerNorm without bias", {"centred": True}),
        Mistaken("with eps added outside the root", {"root": "outside"}),
        Mistaken("with eps as the least root, instead of added to the mean of squares", {"root": "clamp"}),
        Mistaken("with the sum of squares instead of their mean", {"mean": lambda x: x.sum(-1, keepdim=True)}),
        *(Mistaken("with the mean over the tokens of the sequence instead of the last dimension",
                   {"mean": lambda x, axis=axis: x.mean(axis, keepdim=True)}) for axis in (-2, 1)),
        Mistaken("with the mean over all numbers of x instead of the last dimension of each token",
                 {"mean": lambda x: x.mean()}),
        Mistaken("without the weight", {"weighted": torch.ones_like}),
        Mistaken("with 1 + weight instead of weight, which is Gemma's RMSNorm",
                 {"weighted": lambda weight: 1 + weight}),
        Mistaken("without eps", {"used_eps": lambda eps: 0.0}),
        Mistaken("with eps = 1e-6, ignoring eps", {"used_eps": lambda eps: 1e-6}),
        Mistaken("with eps = 1e-5 by default instead of 1e-6", {"default_eps": 1e-5}),
        Mistaken("with eps = 1e-8 by default instead of 1e-6", {"default_eps": 1e-8}),
    ),
)  # fmt: skip


def _swiglu(
    activation: Callable[[Tensor], Tensor] = F.silu, swapped: bool = False, activated: str = "gate"
) -> dict[str, Any]:
    """Build SwiGLU; without options it is right. activated: what the activation is applied to, "gate", "both" or
    "product"."""

    def swiglu(x: Tensor, gate: Tensor, up: Tensor, down: Tensor) -> Tensor:
        a, b = (F.linear(x, each) for each in ((up, gate) if swapped else (gate, up)))
        if activated == "product":
            return F.linear(activation(a * b), down)
        return F.linear(activation(a) * (activation(b) if activated == "both" else b), down)

    return {"swiglu": swiglu}


def _right_swiglu(x: Tensor, gate: Tensor, up: Tensor, down: Tensor) -> Tensor:
    layer = SwiGLU(x.shape[-1], len(gate))
    layer.gate_proj.weight, layer.up_proj.weight = nn.Parameter(gate), nn.Parameter(up)
    layer.down_proj.weight = nn.Parameter(down)
    return layer(x)


def _swiglu_cases(seed: int) -> list[Case]:
    def case(label: str, n: int, C: int, W: int, *before: int, gate: float = 0.0) -> Case:
        weights = [drawn(seed + n, W, C) * C**-0.5, drawn(seed + n + 1, W, C) * C**-0.5, drawn(seed + n + 2, C, W)]
        x = drawn(seed + n + 3, *before, C)
        if gate:  # the last token's gates are its size and its negative in turn
            sizes = gate * (1 - 2.0 * (torch.arange(W) % 2))  # (W,)
            x[..., 0], x[..., -1, :] = 0.0, 0.0
            x[..., -1, 0], weights[0][:, 0], weights[1][:, 0] = 1.0, sizes, 1 / gate
        return function_case(label, "swiglu", x, *(w / W**0.5 if w is weights[2] else w for w in weights))

    return [
        case("x (2, 7, 5), d_ff = 13", 0, 5, 13, 2, 7),
        case("T = 1", 4, 7, 17, 1, 1),
        case("d_ff smaller than d_model", 8, 11, 3, 2, 5),
        case("gates of 1,000 and −1,000", 12, 5, 13, 2, 3, gate=1000.0),
        case("x (5,), one token without other axes", 16, 5, 13),
    ]


SWIGLU = Task(
    "swiglu",
    '''"""SwiGLU: down · (silu(gate · x) * (up · x)), silu(a) = a · sigmoid(a).

x (..., C), gate and up (F, C), down (C, F) -> (..., C). The matrices have the layout of nn.Linear: (out, in).
"""

import torch


def swiglu(x, gate, up, down):
    raise NotImplementedError
''',
    {"swiglu": _right_swiglu},
    _swiglu_cases,
    _swiglu,
    (
        Mistaken("with a sigmoid instead of SiLU, which is GLU", {"activation": torch.sigmoid}, "sigmoid_gate"),
        Mistaken("with gate and up swapped", {"swapped": True}),
        Mistaken("with GELU instead of SiLU, which is GEGLU", {"activation": F.gelu}),
        Mistaken("with the tanh form of GELU instead of SiLU", {"activation": partial(F.gelu, approximate="tanh")}),
        Mistaken("with a · sigmoid(1.702 · a) instead of SiLU, which approximates GELU",
                 {"activation": lambda a: a * torch.sigmoid(1.702 * a)}),
        Mistaken("with ReLU instead of SiLU, which is ReGLU", {"activation": F.relu}),
        Mistaken("without an activation, which is a bilinear layer", {"activation": lambda a: a}),
        Mistaken("with NaN for large gates: exp(a) / (1 + exp(a)) overflows",
                 {"activation": lambda a: a * a.exp() / (1 + a.exp())}),
        Mistaken("with SiLU of both gate and up", {"activated": "both"}),
        Mistaken("with SiLU of the product gate · up", {"activated": "product"}),
    ),
)  # fmt: skip
