"""A model run with some of its heads ablated: zero ablation and mean ablation.

B batch, T tokens, L layers, H heads, D numbers that each head hands to the output projection.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnviz.modules import Transformer
from attnviz.modules.attention import Attended, attend
from attnviz.modules.parts import with_own_parts
from attnviz.trace import predict

TOKENS_AT_ONCE = 512  # of the rows that have a head ablated each: more do not fit a core's cache
LOGITS_AT_ONCE = 8_000_000  # numbers: with a vocabulary of 150,000, of 53 positions
N_THREADS = min(2, os.cpu_count() or 1)  # that torch's one thread each keeps busy; nobody waits for it but who asked


@torch.inference_mode()
def mean_outputs(model: Transformer, token_ids: Sequence[int]) -> np.ndarray:
    """(L, H, D): each head's output, before the output projection, averaged over the tokens of a reference text."""
    found: list[torch.Tensor] = []
    attentions: dict[int, nn.Module] = {}
    for layer, block in enumerate(model.blocks):
        attentions[layer] = attn = with_own_parts(block.attn)
        attn.o_proj = nn.Sequential(_Averaged(found, model.config.n_heads), attn.o_proj)
    model.with_attentions(attentions)(torch.tensor([token_ids]))
    return torch.stack(found).numpy()


def predict_without(
    model: Transformer,
    token_ids: Sequence[int],
    off: Collection[tuple[int, int]],
    means: np.ndarray | None = None,
) -> np.ndarray:
    """Logits (T, vocab_size) with the heads `off`, pairs (layer, head), ablated.

    means: None for zero ablation, where their output is zero at every position; for mean ablation (L, H, D), what it is
    at every position: the `mean_outputs` of a reference text. A mean over this text would hold what comes later in it.
    """
    return predict(_cut(model, off, means), token_ids)


@torch.inference_mode()
def mean_loss(model: Transformer, token_ids: Sequence[int]) -> float:
    """Mean loss in nats per token with all heads, computed as in `losses_without_each`."""
    run = _Run(model, token_ids)
    return float(run.losses(run.to(model.embed(run.ids), range(len(model.blocks))))[0])


def losses_without_each(
    model: Transformer,
    token_ids: Sequence[int],
    layer: int,
    means: np.ndarray | None,
    progress: Callable[[int], object] = lambda done: None,
) -> np.ndarray:
    """(H,) mean loss in nats per token with each head of this layer alone ablated.

    What comes before the layer's output projection is computed once; from there on all is computed for each head, with
    a fused kernel and on N_THREADS threads. means: as for predict_without; progress is told how many heads are done.
    """
    run, H = _Run(model, token_ids), model.config.n_heads
    x, handed_on = run.until_output_projection(layer)
    instead = torch.zeros(()) if means is None else torch.tensor(means[layer])

    @torch.inference_mode()  # which holds for one thread
    def without(off: Tensor) -> Tensor:
        """off (B, H), a row per text -> (B,) losses."""
        return run.losses(run.behind(layer, x, _Cut(off, instead)(handed_on)))

    found: list[Tensor] = []
    pool = ThreadPoolExecutor(N_THREADS)
    try:
        for losses in pool.map(without, torch.eye(H, dtype=torch.bool).split(max(1, TOKENS_AT_ONCE // len(token_ids)))):
            found.append(losses)
            progress(sum(map(len, found)))
    finally:
        pool.shutdown(cancel_futures=True)  # where progress stopped it
    return torch.cat(found).numpy()


class _Run:
    """The blocks of a model one after another, on one text as one or many rows: x (B, T, C)."""

    def __init__(self, model: Transformer, token_ids: Sequence[int]) -> None:
        self.model, self.ids = model, torch.tensor([token_ids])  # (1, T)
        self.options = model.attention_options(len(token_ids))

    def to(self, x: Tensor, layers: Iterable[int]) -> Tensor:
        """Run x through these layers."""
        for layer in layers:
            x = self.model.blocks[layer](x, kernel=fused_attend, **self.options[layer])
        return x

    @torch.inference_mode()
    def until_output_projection(self, layer: int) -> tuple[Tensor, Tensor]:
        """What the layer is given, (1, T, C), and what its heads hand to the output projection, (1, T, H·D)."""
        block = self.model.blocks[layer]
        x, attn = self.to(self.model.embed(self.ids), range(layer)), with_own_parts(block.attn)
        attn.o_proj = nn.Identity()
        return x, attn(block.attn_norm(x), kernel=fused_attend, **self.options[layer])

    def behind(self, layer: int, x: Tensor, handed_on: Tensor) -> Tensor:
        """Run the rest, from this layer's output projection on."""
        block = self.model.blocks[layer]
        x = x + block.after_attention(block.attn.o_proj(handed_on))
        return self.to(
            x + block.after_feed_forward(block.ffn(block.ffn_norm(x))), range(layer + 1, len(self.model.blocks))
        )

    def losses(self, x: Tensor) -> Tensor:
        """(B,) mean loss in nats per token of the text in each row."""
        following, losses = self.ids[:, 1:].expand(len(x), -1)[..., None], []  # (B, T - 1, 1)
        n = max(1, LOGITS_AT_ONCE // (len(x) * self.model.config.vocab_size))  # positions
        for part, ids in zip(x[:, :-1].split(n, dim=1), following.split(n, dim=1), strict=True):
            logits = self.model.logits(part)  # (B, n, vocab_size)
            losses.append(logits.logsumexp(-1) - logits.gather(-1, ids)[..., 0])
        return torch.cat(losses, dim=1).mean(1, dtype=torch.float64)


def fused_attend(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, *, scale: float | None = None, dropout: float = 0.0,
    softcap: float | None = None,
) -> Attended:  # fmt: skip
    """Compute what `attend` does with torch's kernel, five times as fast on 16 heads and 256 tokens: no weights."""
    if softcap is not None:  # which torch's kernel has not
        return attend(q, k, v, mask, scale=scale, dropout=dropout, softcap=softcap)
    shares = q.shape[1] != k.shape[1]
    output = F.scaled_dot_product_attention(q, k, v, mask, dropout, scale=scale, enable_gqa=shares)
    return Attended(output, output.new_empty(0))


def _cut(model: Transformer, off: Collection[tuple[int, int]], means: np.ndarray | None) -> Transformer:
    """The model with these heads ablated."""
    attentions = {}
    for layer in {layer for layer, _ in off}:
        row = torch.tensor([[(layer, head) in off for head in range(model.config.n_heads)]])  # (1, H)
        attentions[layer] = attn = with_own_parts(model.blocks[layer].attn)
        instead = torch.zeros(()) if means is None else torch.tensor(means[layer])
        attn.o_proj = nn.Sequential(_Cut(row, instead), attn.o_proj)
    return model.with_attentions(attentions)


class _Cut(nn.Module):
    """The heads' outputs on their way to the output projection, with those that are `off`, bool (B, H), replaced.

    instead: (H, D), the same at every position, or zero.
    """

    def __init__(self, off: Tensor, instead: Tensor) -> None:
        super().__init__()
        self.off, self.instead = off, instead

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, H·D) -> (B, T, H·D)."""
        heads = x.unflatten(-1, (self.off.shape[1], -1))  # (B, T, H, D)
        return torch.where(self.off[:, None, :, None], self.instead, heads).flatten(2)


class _Averaged(nn.Module):
    """Passes the heads' outputs on and appends their mean over the positions, (H, D), to `found`."""

    def __init__(self, found: list[Tensor], n_heads: int) -> None:
        super().__init__()
        self.found, self.n_heads = found, n_heads

    def forward(self, x: Tensor) -> Tensor:
        """(1, T, H·D) -> the same."""
        self.found.append(x[0].unflatten(-1, (self.n_heads, -1)).mean(0))
        return x
