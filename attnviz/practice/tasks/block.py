"""The task of the pre-norm block. B batch, T tokens, C d_model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from attnviz.config import ModelConfig
from attnviz.modules import Block
from attnviz.practice.task import Case, Mistaken, Task, module_case
from attnviz.practice.tasks.attention import NO_OUTPUT_PROJECTION, WRONG_SHAPES, gqa
from attnviz.practice.tasks.inputs import drawn
from attnviz.practice.tasks.kernels import (
    BY_D_MODEL,
    HALF_TILED,
    KEYS_FOR_VALUES,
    SOFTMAX_OVER_HEADS,
    TILED,
    WRONG_CAUSAL_MASKS,
    WRONG_SCORES,
)

_tanh_gelu = partial(F.gelu, approximate="tanh")
Norm = Callable[[Any, Tensor], Tensor]  # the norm's module, x -> x


class _Block(Block):
    def __init__(self, d_model: int, n_heads: int, n_kv_heads: int, d_ff: int) -> None:
        super().__init__(ModelConfig(1, d_model, n_heads, n_kv_heads, d_ff=d_ff, vocab_size=2))

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        return super().forward(x, causal=True)


def _block(
    stream: Callable[[Any, Tensor], Tensor] | None = None,
    norm: Norm | None = None,
    eps: tuple[float, float] = (1e-6, 1e-6),
    feed_forward: Callable[[Any, Tensor], Tensor] | None = None,
    **attention: Any,
) -> dict[str, Any]:
    """Build the block; without options it is right.

    stream: how the parts are put together. norm: of both norms. eps: of each norm. feed_forward: computes it.
    attention: the options of `gqa`.
    """

    def __init__(self: Any, d_model: int, n_heads: int, n_kv_heads: int, d_ff: int) -> None:
        _Block.__init__(self, d_model, n_heads, n_kv_heads, d_ff)
        self.attn = gqa(**attention)["GroupedQueryAttention"](d_model, n_heads, n_kv_heads)
        for each, own in zip((self.attn_norm, self.ffn_norm), eps, strict=True):
            each.eps = own
            if norm:
                each.forward = partial(norm, each)
        if feed_forward:
            self.ffn.forward = partial(feed_forward, self.ffn)

    return {"Block": type("Block", (_Block,), {"__init__": __init__, "forward": stream or Block.forward})}


def _post_norm(self: Any, x: Tensor) -> Tensor:
    x = self.attn_norm(x + self.attn(x))
    return self.ffn_norm(x + self.ffn(x))


def _normed_residual(self: Any, x: Tensor) -> Tensor:
    x = self.attn_norm(x)
    x = x + self.attn(x)
    x = self.ffn_norm(x)
    return x + self.ffn(x)


def _normed_first_residual(self: Any, x: Tensor) -> Tensor:
    x = self.attn_norm(x)
    x = x + self.attn(x)
    return x + self.ffn(self.ffn_norm(x))


def _normed_second_residual(self: Any, x: Tensor) -> Tensor:
    x = self.ffn_norm(x + self.attn(self.attn_norm(x)))
    return x + self.ffn(x)


def _swapped_norms(self: Any, x: Tensor) -> Tensor:
    x = x + self.attn(self.ffn_norm(x))
    return x + self.ffn(self.attn_norm(x))


def _without_residual(self: Any, x: Tensor) -> Tensor:
    return self.ffn(self.ffn_norm(self.attn(self.attn_norm(x))))


def _without_second_residual(self: Any, x: Tensor) -> Tensor:
    return self.ffn(self.ffn_norm(x + self.attn(self.attn_norm(x))))


def _parallel(self: Any, x: Tensor) -> Tensor:
    return x + self.attn(self.attn_norm(x)) + self.ffn(self.ffn_norm(x))


def _residual_of_the_input(self: Any, x: Tensor) -> Tensor:
    return x + self.ffn(self.ffn_norm(x + self.attn(self.attn_norm(x))))


def _one_norm(self: Any, x: Tensor) -> Tensor:
    x = x + self.attn(self.attn_norm(x))
    return x + self.ffn(self.attn_norm(x))


def _without_second_norm(self: Any, x: Tensor) -> Tensor:
    x = x + self.attn(self.attn_norm(x))
    return x + self.ffn(x)


def _without_first_norm(self: Any, x: Tensor) -> Tensor:
    x = x + self.attn(x)
    return x + self.ffn(self.ffn_norm(x))


def _mean_over(axis: int | None) -> Norm:
    """Return RMSNorm with the mean over another axis of x (B, T, C), None for all."""

    def norm(self: Any, x: Tensor) -> Tensor:
        mean = (x * x).mean() if axis is None else (x * x).mean(axis, keepdim=True)
        return x / (mean + self.eps).sqrt() * self.weight

    return norm


def _gated(activation: Callable[[Tensor], Tensor], swapped: bool = False) -> Callable[[Any, Tensor], Tensor]:
    def forward(self: Any, x: Tensor) -> Tensor:
        a, b = self.gate_proj(x), self.up_proj(x)
        return self.down_proj(activation(b) * a if swapped else activation(a) * b)

    return forward


def _block_cases(seed: int) -> list[Case]:
    def case(
        label: str, n: int, T: int, C: int, H: int, K: int, W: int, *more: Tensor, size: float = 1.0,
        factors: Mapping[str, float] | None = None,
    ) -> Case:  # fmt: skip
        sizes = {"d_model": C, "n_heads": H, "n_kv_heads": K, "d_ff": W}
        x = size * drawn(seed + n, 2, T, C)
        return module_case(label, BLOCK.right, "Block", sizes, seed + n, *more, x, factors=factors)

    return [
        case("d_model = 66, 6 query heads, 3 KV heads, d_ff = 17", 0, 7, 66, 6, 3, 17),
        case("K = H", 1, 5, 35, 5, 5, 13),
        case("K = 1", 2, 11, 39, 3, 1, 71),
        case("T = 1", 3, 1, 66, 6, 2, 17),
        case("small x, where eps of attn_norm matters", 4, 7, 35, 5, 1, 13, size=1e-3),
        case("small x after the attention, where eps of ffn_norm matters", 5, 7, 35, 5, 1, 13, size=1e-3,
             factors={"attn.o_proj.weight": 1e-4}),
        case("5 tokens, then 11 with the same module, and with another one", 6, 11, 35, 5, 1, 13,
             drawn(seed + 53, 2, 5, 35)),
    ]  # fmt: skip


BLOCK = Task(
    "block",
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
    _block,
    (
        Mistaken("with the norms after the residual sums (post-norm)", {"stream": _post_norm}, "norm_on_residual_sum"),
        Mistaken("with the residual stream itself normalised: x = norm(x) before x + …", {"stream": _normed_residual}),
        Mistaken("with the attention's residual normalised: x = norm(x) before x + attention(x)",
                 {"stream": _normed_first_residual}),
        Mistaken("with the feed-forward's residual normalised: x = norm(x) before x + SwiGLU(x)",
                 {"stream": _normed_second_residual}),
        Mistaken("with attn_norm and ffn_norm swapped", {"stream": _swapped_norms}),
        Mistaken("without the residual connections", {"stream": _without_residual}),
        Mistaken("without the residual connection of the feed-forward", {"stream": _without_second_residual}),
        Mistaken("with attention and feed-forward in parallel, which is a parallel block", {"stream": _parallel}),
        Mistaken("with the block's input as the second residual, so that the attention's output is not added",
                 {"stream": _residual_of_the_input}),
        Mistaken("with attn_norm also before the feed-forward", {"stream": _one_norm}),
        Mistaken("without ffn_norm", {"stream": _without_second_norm}),
        Mistaken("without attn_norm", {"stream": _without_first_norm}),
        *(Mistaken(f"with eps = {eps:g} in {names} instead of 1e-6", {"eps": used}) for eps in (1e-5, 1e-8)
          for names, used in (("both norms", (eps, eps)), ("attn_norm", (eps, 1e-6)), ("ffn_norm", (1e-6, eps)))),
        *(Mistaken(f"without eps in {names}", {"eps": used}) for names, used in
          (("both norms", (0.0, 0.0)), ("attn_norm", (0.0, 1e-6)), ("ffn_norm", (1e-6, 0.0)))),
        Mistaken("with nn.RMSNorm's default eps (1.2e-7) instead of 1e-6", {"eps": (torch.finfo().eps,) * 2}),
        Mistaken("with the mean of each norm over the tokens of the sequence instead of the last dimension",
                 {"norm": _mean_over(1)}),
        Mistaken("with the mean of each norm over all numbers of x", {"norm": _mean_over(None)}),
        Mistaken("with LayerNorm without bias instead of RMSNorm",
                 {"norm": lambda norm, x: F.layer_norm(x, x.shape[-1:], norm.weight, None, norm.eps)}),
        Mistaken("with a sigmoid instead of SiLU, which is GLU", {"feed_forward": _gated(torch.sigmoid)},
                 "sigmoid_gate"),
        Mistaken("with GELU instead of SiLU, which is GEGLU", {"feed_forward": _gated(F.gelu)}),
        Mistaken("with the tanh form of GELU instead of SiLU", {"feed_forward": _gated(_tanh_gelu)}),
        Mistaken("with ReLU instead of SiLU, which is ReGLU", {"feed_forward": _gated(F.relu)}),
        Mistaken("without an activation, which is a bilinear layer", {"feed_forward": _gated(lambda a: a)}),
        Mistaken("with gate_proj and up_proj swapped", {"feed_forward": _gated(F.silu, True)}),
        TILED, *HALF_TILED, BY_D_MODEL, *WRONG_SCORES, *SOFTMAX_OVER_HEADS, *WRONG_CAUSAL_MASKS, *WRONG_SHAPES,
        KEYS_FOR_VALUES, NO_OUTPUT_PROJECTION,
    ),
)  # fmt: skip
