"""Runs of a model with some of its heads ablated: zero ablation and mean ablation.

B batch, T tokens, L layers, H heads, D width of a head's output.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from torch import Tensor, nn

from attnviz.experiments.fused import fused_attend
from attnviz.modules import Transformer
from attnviz.modules.extended import passed_separately
from attnviz.modules.shallow import with_own_parts

TOKENS_AT_ONCE = 512  # per batch of rows with one ablated head each: more do not fit into a core's cache
LOGITS_AT_ONCE = 8_000_000  # numbers: 53 positions with a vocabulary of 150,000
N_THREADS = min(2, os.cpu_count() or 1)  # each runs torch with one thread; only the user who started it waits


@torch.inference_mode()
def mean_outputs(model: Transformer, token_ids: Sequence[int]) -> list[np.ndarray]:
    """Return the mean output of each layer's heads, (H, D), before the output projection, over a reference text."""
    means: list[torch.Tensor] = []
    attentions: dict[int, nn.Module] = {}
    for layer, block in enumerate(model.blocks):
        attentions[layer] = attn = with_own_parts(block.attn)
        attn.o_proj = nn.Sequential(_MeanRecorder(means, model.config.layers[layer].mixer.n_heads), attn.o_proj)
    model.with_attentions(attentions)(torch.tensor([token_ids]))
    return [mean.numpy() for mean in means]


def ablated(
    model: Transformer, off: Collection[tuple[int, int]], means: Sequence[np.ndarray] | None = None
) -> Transformer:
    """Return the model with the heads `off`, pairs (layer, head), ablated.

    means: None for zero ablation, which sets their output to zero at every position; for mean ablation, the
    `mean_outputs` of a reference text. A mean over this text would leak later tokens.
    """
    attentions = {}
    for layer in {layer for layer, _ in off}:
        n_heads = model.config.layers[layer].mixer.n_heads
        row = torch.tensor([[(layer, head) in off for head in range(n_heads)]])  # (1, H)
        attentions[layer] = attn = with_own_parts(model.blocks[layer].attn)
        replacement = torch.zeros(()) if means is None else torch.tensor(means[layer])
        attn.o_proj = nn.Sequential(_Ablation(row, replacement), attn.o_proj)
    return model.with_attentions(attentions)


@torch.inference_mode()
def mean_loss(model: Transformer, token_ids: Sequence[int]) -> float:
    """Return the mean loss in nats per token with all heads, computed as in `losses_without_each`."""
    run = _Run(model, token_ids)
    return float(run.losses(run.to(model.embed(run.ids), range(len(model.blocks))))[0])


def losses_without_each(
    model: Transformer,
    token_ids: Sequence[int],
    layer: int,
    means: Sequence[np.ndarray] | None,
    progress: Callable[[int], object] = lambda done: None,
) -> np.ndarray:
    """Return (H,) mean losses in nats per token, each with one head of this layer ablated.

    Everything before the layer's output projection is computed once, the rest for each head, with a fused kernel and on
    N_THREADS threads. means: as for `ablated`. progress: callback with the number of heads done.
    """
    run, H = _Run(model, token_ids), model.config.layers[layer].mixer.n_heads
    x, head_outputs = run.until_output_projection(layer)
    replacement = torch.zeros(()) if means is None else torch.tensor(means[layer])

    @torch.inference_mode()  # inference mode is per thread
    def without(off: Tensor) -> Tensor:
        """Return (B,) losses for off (B, H), one row per ablated run."""
        return run.losses(run.from_output_projection(layer, x, _Ablation(off, replacement)(head_outputs)))

    batches: list[Tensor] = []
    pool = ThreadPoolExecutor(N_THREADS)
    try:
        for losses in pool.map(without, torch.eye(H, dtype=torch.bool).split(max(1, TOKENS_AT_ONCE // len(token_ids)))):
            batches.append(losses)
            progress(sum(map(len, batches)))
    finally:
        pool.shutdown(cancel_futures=True)  # progress may raise to stop the run
    return torch.cat(batches).numpy()


class _Run:
    """A model run block by block on one text, as one row or as several: x (B, T, C)."""

    def __init__(self, model: Transformer, token_ids: Sequence[int]) -> None:
        self.model, self.ids = model, torch.tensor([token_ids])  # (1, T)
        layers, options = model.config.layers, model.attention_options(len(token_ids))
        self.options = [
            {**option, "kernel": fused_attend} if layer.mixer.attends else option
            for layer, option in zip(layers, options, strict=True)
        ]

    def to(self, x: Tensor, layers: Iterable[int], options: Sequence[dict] | None = None) -> Tensor:
        """Run x through these layers."""
        for layer in layers:
            x = self.model.blocks[layer](x, **(options or self.options)[layer])
        return x

    @torch.inference_mode()
    def until_output_projection(self, layer: int) -> tuple[Tensor, Tensor]:
        """Return the layer's input (1, T, C) and its heads' outputs before the output projection (1, T, H·D)."""
        block = self.model.blocks[layer]
        x, attn = self.to(self.model.embed(self.ids), range(layer)), with_own_parts(block.attn)
        attn.o_proj = nn.Identity()
        return x, attn(block.attn_norm(x), **self.options[layer])

    def from_output_projection(self, layer: int, x: Tensor, head_outputs: Tensor) -> Tensor:
        """Run the rest of the model, starting at this layer's output projection."""
        block = self.model.blocks[layer]
        x = x + block.after_attention(block.attn.o_proj(head_outputs))
        later = range(layer + 1, len(self.model.blocks))
        return self.to(
            x + block.after_feed_forward(block.ffn(block.ffn_norm(x))), later, passed_separately(self.options)
        )  # each ablated run passes on its own keys and values

    def losses(self, x: Tensor) -> Tensor:
        """Return (B,): each row's mean loss in nats per token."""
        following, losses = self.ids[:, 1:].expand(len(x), -1)[..., None], []  # (B, T - 1, 1)
        n = max(1, LOGITS_AT_ONCE // (len(x) * self.model.config.vocab_size))  # positions
        for part, ids in zip(x[:, :-1].split(n, dim=1), following.split(n, dim=1), strict=True):
            logits = self.model.logits(part)  # (B, n, vocab_size)
            losses.append(logits.logsumexp(-1) - logits.gather(-1, ids)[..., 0])
        return torch.cat(losses, dim=1).mean(1, dtype=torch.float64)


class _Ablation(nn.Module):
    """Module before the output projection that replaces the outputs of the heads that are `off`, bool (B, H).

    replacement: (H, D), the same at every position, or zero.
    """

    def __init__(self, off: Tensor, replacement: Tensor) -> None:
        super().__init__()
        self.off, self.replacement = off, replacement

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, H·D) -> (B, T, H·D)."""
        heads = x.unflatten(-1, (self.off.shape[1], -1))  # (B, T, H, D)
        return torch.where(self.off[:, None, :, None], self.replacement, heads).flatten(2)


class _MeanRecorder(nn.Module):
    """Identity module that appends the heads' mean outputs over the positions, (H, D), to `means`."""

    def __init__(self, means: list[Tensor], n_heads: int) -> None:
        super().__init__()
        self.means, self.n_heads = means, n_heads

    def forward(self, x: Tensor) -> Tensor:
        """(1, T, H·D) -> the same."""
        self.means.append(x[0].unflatten(-1, (self.n_heads, -1)).mean(0))
        return x
