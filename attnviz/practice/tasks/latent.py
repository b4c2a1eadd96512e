"""The most difficult task: multi-head latent attention."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from attnviz.config import ModelConfig
from attnviz.modules import MultiHeadLatentAttention
from attnviz.modules.rope import Rope, rope_frequencies
from attnviz.practice.task import Case, Mistaken, Task, module_case
from attnviz.practice.tasks.attention import OF_ALL_HEADS, SPLITS, drawn, mask_with_an_empty_row

SIZES = {
    "d_model": 29, "n_heads": 3, "kv_lora_rank": 13, "qk_nope_head_dim": 5, "qk_rope_head_dim": 6, "v_head_dim": 7,
}  # fmt: skip


class _Latent(MultiHeadLatentAttention):
    """Our module with the task's interface. The mistaken versions override its attributes and methods."""

    layout, normed, rotation = "half", True, Rope

    def __init__(
        self, d_model: int, n_heads: int, kv_lora_rank: int, qk_nope_head_dim: int, qk_rope_head_dim: int,
        v_head_dim: int,
    ) -> None:  # fmt: skip
        super().__init__(
            d_model, n_heads, kv_lora_rank=kv_lora_rank, qk_nope_head_dim=qk_nope_head_dim,
            qk_rope_head_dim=qk_rope_head_dim, v_head_dim=v_head_dim,
        )  # fmt: skip

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:  # type: ignore[override]
        rope = self.rotation(rope_frequencies(self.rope_dim), self.layout, latent_softmax_factor=self.scale_factor())
        if not self.normed:
            self.kv_a_norm = nn.Identity()  # type: ignore[assignment]
        return super().forward(x, mask=mask, causal=self.causal(mask), rope=rope)

    def causal(self, mask: Tensor | None) -> bool:
        return mask is None

    def scale_factor(self) -> float:
        return 1.0


def _version(**overrides: Any) -> dict[str, Any]:
    return {"MultiHeadLatentAttention": type("MultiHeadLatentAttention", (_Latent,), overrides)}


def _without_rope(self: Any, x: Tensor, mask: Tensor | None = None) -> Tensor:
    return MultiHeadLatentAttention.forward(self, x, mask=mask, causal=mask is None)


class _RopeOfQueries(Rope):
    """A rotation of q (B, H, T, P) that leaves the shared key (B, T, P) unchanged."""

    def __call__(self, x: Tensor, start: int = 0) -> Tensor:
        return super().__call__(x, start) if x.ndim == 4 else x


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
    def case(label: str, n: int, T: int, sizes: dict[str, int], **kwargs: Any) -> Case:
        x = drawn(seed + n, 2, T, sizes["d_model"])
        return module_case(label, LATENT.right, "MultiHeadLatentAttention", sizes, seed + n, x, **kwargs)

    return [
        case("mask = None: causal", 0, 7, SIZES),
        case("mask (T, T)", 1, 7, SIZES, mask=drawn(seed, 7, 7).fill_diagonal_(1) > 0),
        case("mask (B, H, T, T), one query fully masked", 2, 7, SIZES,
             mask=mask_with_an_empty_row(seed, 2, 3, 7, 7)),
        case("T = 1", 3, 1, SIZES),
        case("one head, a latent of size 2", 4, 11, SIZES | {"n_heads": 1, "kv_lora_rank": 2, "qk_rope_head_dim": 10}),
    ]  # fmt: skip


LATENT = Task(
    "mla",
    "Multi-head latent attention",
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
    _version(),
    _cases,
    (
        Mistaken("with scores divided by √qk_nope_head_dim, ignoring the rotated dimensions",
                 _version(scale_factor=lambda self: (1 + self.rope_dim / self.nope_dim) ** 0.5)),
        Mistaken("without RMSNorm of the latent", _version(normed=False)),
        Mistaken("with RoPE in the interleaved layout", _version(layout="interleaved"), "rope_in_the_other_layout"),
        Mistaken("without RoPE", _version(forward=_without_rope)),
        Mistaken("without RoPE on the shared key: only q is rotated", _version(rotation=_RopeOfQueries)),
        Mistaken("with the value before the key in each head of kv_b_proj", _version(_expand=_values_first)),
        Mistaken("with the keys of all heads before the values of all heads in kv_b_proj",
                 _version(_expand=_all_keys_first)),
        *(Mistaken(explanation, _version(**_split_wrongly(split))) for explanation, split in SPLITS),
        *(Mistaken(f"{explanation}: only in kv_b_proj", _version(_expand=_split_wrongly(split)["_expand"]))
          for explanation, split in SPLITS),
        Mistaken("without a causal mask if mask is None", _version(causal=lambda self, mask: False),
                 "mask_never_used"),
        Mistaken("with the causal mask applied too where a mask is given, which replaces it",
                 _version(causal=lambda self, mask: True)),
    ),
    ModelConfig(
        1, 29, 3, attention="mla", vocab_size=2, kv_lora_rank=13, qk_nope_head_dim=5, qk_rope_head_dim=6, v_head_dim=7
    ),
)  # fmt: skip
