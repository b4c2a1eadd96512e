"""The most difficult task: multi-head latent attention."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from attnviz.config import ModelConfig
from attnviz.modules import MultiHeadLatentAttention
from attnviz.modules.attention import Attended, attend
from attnviz.modules.rope import Rope, rope_frequencies
from attnviz.practice.task import TOLERANCE, Case, Mistaken, Task, module_case
from attnviz.practice.tasks.attention import OF_ALL_HEADS, SPLITS, WRONG_MERGES
from attnviz.practice.tasks.inputs import FAR, FAR_TOLERANCE, drawn, padding_mask, random_mask
from attnviz.practice.tasks.kernels import (
    MASK_OF_ONE_HEAD,
    OVERFLOW,
    SOFTMAX_OVER_HEADS,
    WRONG_CAUSAL_MASKS,
    WRONG_MASKS,
    WRONG_SCORES,
    attend_with,
)

SIZES = {
    "d_model": 29, "n_heads": 3, "kv_lora_rank": 13, "qk_nope_head_dim": 5, "qk_rope_head_dim": 6, "v_head_dim": 7,
}  # fmt: skip


class _Latent(MultiHeadLatentAttention):
    """Our module with the task's interface. The mistaken versions override its attributes and methods."""

    layout, normed, rotation, theta, sign, eps = "half", True, Rope, 10000.0, 1, 1e-6
    key_first = False  # in kv_a_proj: the RoPE key before the latent
    kernel: Any = None  # in place of `attend`
    before: Any = None  # the mask of T tokens for mask=None
    merge: Any = None  # how the heads' outputs (B, H, T, V) become (B, T, H·V)

    def __init__(
        self, d_model: int, n_heads: int, kv_lora_rank: int, qk_nope_head_dim: int, qk_rope_head_dim: int,
        v_head_dim: int,
    ) -> None:  # fmt: skip
        super().__init__(
            d_model, n_heads, kv_lora_rank=kv_lora_rank, qk_nope_head_dim=qk_nope_head_dim,
            qk_rope_head_dim=qk_rope_head_dim, v_head_dim=v_head_dim,
        )  # fmt: skip
        if self.key_first:
            self.kv_a_proj.register_forward_hook(lambda _, given, output: output.roll(-self.rope_dim, -1))

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:  # type: ignore[override]
        frequencies = self.sign * rope_frequencies(self.rope_dim, self.theta)
        rope = self.rotation(frequencies, self.layout, latent_softmax_factor=self.scale_factor())
        self.kv_a_norm.eps, heads = self.eps, []
        if not self.normed:
            self.kv_a_norm = nn.Identity()  # type: ignore[assignment]
        if mask is None and self.before:
            mask = self.before(x.shape[1])

        def kernel(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float) -> Attended:
            heads.append((self.kernel or attend)(q, k, v, mask, scale=scale))
            return heads[-1]

        output = super().forward(x, mask=mask, causal=mask is None, rope=self.rotates() and rope, kernel=kernel)
        return self.o_proj(self.merge(heads[-1].output)) if self.merge else output

    def rotates(self) -> Any:
        return True

    def scale_factor(self) -> float:
        return 1.0


KERNEL = frozenset(inspect.signature(attend_with).parameters)


def _version(**options: Any) -> dict[str, Any]:
    """Build the module; without options it is right. options: of `attend_with`, and overridden attributes."""
    kernel = {name: value for name, value in options.items() if name in KERNEL}
    overrides = {name: staticmethod(value) if name in ("before", "merge") else value
                 for name, value in options.items() if name not in KERNEL}  # fmt: skip
    overrides |= {"kernel": staticmethod(attend_with(**kernel))} if kernel else {}
    return {"MultiHeadLatentAttention": type("MultiHeadLatentAttention", (_Latent,), overrides)}


class _RopeOfQueries(Rope):
    """A rotation of q (B, H, T, P) that leaves the shared key (B, T, P) unchanged."""

    def __call__(self, x: Tensor, start: int = 0) -> Tensor:
        return super().__call__(x, start) if x.ndim == 4 else x


class _RopeOfTheKey(Rope):
    """A rotation of the shared key (B, T, P) that leaves q (B, H, T, P) unchanged."""

    def __call__(self, x: Tensor, start: int = 0) -> Tensor:
        return super().__call__(x, start) if x.ndim == 3 else x


def _rotated_first(self: Any, x: Tensor) -> Tensor:
    """Return the queries (B, H, T, N + P), the first P dimensions of each head taken for the rotated ones."""
    return MultiHeadLatentAttention._queries(self, x).roll(-self.rope_dim, -1)


def _values_first(self: Any, latent: Tensor) -> tuple[Tensor, Tensor]:
    heads = self.kv_b_proj(latent).unflatten(-1, (self.n_heads, -1)).transpose(1, 2)
    v, k = heads.split((self.v_dim, self.nope_dim), dim=-1)
    return k, v


def _all_keys_first(self: Any, latent: Tensor) -> list[Tensor]:
    H, both = self.n_heads, self.kv_b_proj(latent)
    return [
        each.unflatten(-1, (H, -1)).transpose(1, 2) for each in both.split((H * self.nope_dim, H * self.v_dim), dim=-1)
    ]


def _split_wrongly(split: Callable[[Tensor, int], Tensor]) -> dict[str, Any]:
    """Return methods with another split of the outputs (B, T, H · n) of q_proj and kv_b_proj into H heads."""
    return {
        "_queries": lambda self, x: split(self.q_proj(x), self.n_heads),
        "_expand": lambda self, latent: split(self.kv_b_proj(latent), self.n_heads).split(
            (self.nope_dim, self.v_dim), dim=-1
        ),
    }


def _cases(seed: int) -> list[Case]:
    def case(
        label: str, n: int, T: int, *more: Tensor, tolerance: float = TOLERANCE,
        factors: Mapping[str, float] | None = None, sizes: Mapping[str, int] = SIZES, **kwargs: Any,
    ) -> Case:  # fmt: skip
        x = drawn(seed + n, 2, T, SIZES["d_model"])
        return module_case(label, LATENT.right, "MultiHeadLatentAttention", dict(sizes), seed + n, *more, x,
                           tolerance=tolerance, factors=factors, **kwargs)  # fmt: skip

    one_head = SIZES | {"n_heads": 1, "kv_lora_rank": 2, "qk_rope_head_dim": 10}
    return [
        case("mask = None: causal", 0, 11),
        case("mask (T, T)", 1, 11, mask=random_mask(seed + 50, 11, 11)),
        case("mask (B, 1, 1, T): padding", 2, 11, mask=padding_mask(2, 11)[:, None, None]),
        case("mask (B, H, T, T), one query of each head fully masked", 3, 11,
             mask=random_mask(seed + 51, 2, 3, 11, 11, empty=True)),
        case("mask (T, T), one query fully masked", 4, 11, mask=random_mask(seed + 52, 11, 11, empty=True)),
        case("T = 1", 5, 1),
        case("one head, a latent of size 2", 6, 11, sizes=one_head),
        case("a small latent, where eps of kv_a_norm matters", 7, 11, factors={"kv_a_proj.weight": 1e-3}),
        case("large scores", 8, 11, factors={"q_proj.weight": FAR}, tolerance=FAR_TOLERANCE),
        case("5 tokens, then 11 with the same module, and with another one", 9, 11, drawn(seed + 53, 2, 5, 29)),
    ]  # fmt: skip


LATENT = Task(
    "mla",
    f'''"""Multi-head latent attention (MLA, DeepSeek-V2) without query compression; no biases.

x (B, T, d_model) -> (B, T, d_model). B batch, T tokens, H = n_heads;
N = qk_nope_head_dim, P = qk_rope_head_dim, V = v_head_dim, R = kv_lora_rank.
    q_proj     d_model -> n_heads · (N + P): per head N dimensions without RoPE, then P that are rotated
    kv_a_proj  d_model -> R + P: the latent, then one RoPE key shared by all heads
    kv_a_norm  RMSNorm of the latent (weight of size R, eps = 1e-6)
    kv_b_proj  R -> n_heads · (N + V): per head N dimensions of the key, then V of the value
    o_proj     n_heads · V -> d_model
RoPE is half-split with theta = 10,000 and positions from 0. Scores are divided by √(N + P).
The check sets the weights by these names (kv_a_norm.weight for the norm).
{OF_ALL_HEADS}
"""

from torch import nn


class MultiHeadLatentAttention(nn.Module):
    def __init__(self, d_model, n_heads, kv_lora_rank, qk_nope_head_dim, qk_rope_head_dim, v_head_dim):
        super().__init__()
        raise NotImplementedError

    def forward(self, x, mask=None):
        raise NotImplementedError
''',
    {"MultiHeadLatentAttention": _Latent},
    _cases,
    _version,
    (
        Mistaken("with scores divided by √qk_nope_head_dim, ignoring the rotated dimensions",
                 {"scale_factor": lambda self: (1 + self.rope_dim / self.nope_dim) ** 0.5}),
        Mistaken("with scores divided by √v_head_dim instead of √(N + P)",
                 {"scale_factor": lambda self: ((self.nope_dim + self.rope_dim) / self.v_dim) ** 0.5}),
        Mistaken("without RMSNorm of the latent", {"normed": False}),
        Mistaken("with eps = 1e-5 in kv_a_norm instead of 1e-6", {"eps": 1e-5}),
        Mistaken("without eps in kv_a_norm", {"eps": 0.0}),
        Mistaken("with nn.RMSNorm's default eps (1.2e-7) instead of 1e-6", {"eps": torch.finfo().eps}),
        Mistaken("with RoPE in the interleaved layout", {"layout": "interleaved"}, "rope_in_the_other_layout"),
        Mistaken("without RoPE", {"rotates": lambda self: None}),
        Mistaken("without RoPE on the shared key: only q is rotated", {"rotation": _RopeOfQueries}),
        Mistaken("without RoPE on q: only the shared key is rotated", {"rotation": _RopeOfTheKey}),
        Mistaken("with each pair rotated in the opposite direction", {"sign": -1}),
        Mistaken("with theta = 500,000 instead of 10,000", {"theta": 500_000.0}),
        Mistaken("with the rotated dimensions first in each head of q_proj", {"_queries": _rotated_first}),
        Mistaken("with the RoPE key before the latent in kv_a_proj", {"key_first": True}),
        Mistaken("with the value before the key in each head of kv_b_proj", {"_expand": _values_first}),
        Mistaken("with the keys of all heads before the values of all heads in kv_b_proj",
                 {"_expand": _all_keys_first}),
        *(Mistaken(explanation, _split_wrongly(split)) for explanation, split in SPLITS),
        *(Mistaken(f"{explanation}: only in kv_b_proj", {"_expand": _split_wrongly(split)["_expand"]})
          for explanation, split in SPLITS),
        *WRONG_MERGES, *WRONG_SCORES, *WRONG_MASKS, *SOFTMAX_OVER_HEADS, MASK_OF_ONE_HEAD, *WRONG_CAUSAL_MASKS,
        *OVERFLOW,
    ),
    ModelConfig(
        1, 29, 3, attention="mla", vocab_size=2, kv_lora_rank=13, qk_nope_head_dim=5, qk_rope_head_dim=6, v_head_dim=7
    ),
)  # fmt: skip
