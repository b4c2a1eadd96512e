"""Checkpoints that continue from the shipped GQA-4 with another attention: learned sinks, a shared cache, an indexer.

They start from its weights where the shapes allow. Layers that read another layer's cache lose their keys and values.
An indexer starts from random weights, and is trained first, alone, to rank keys as the dense attention weighs them
(as in arXiv 2512.02556): the KL divergence of its softmax from the mean weights of the heads. Then all weights
are trained with the sparse mask, the indexer by the same divergence on the keys that it keeps. It is never trained by
the loss of the text: no gradient passes the choice of keys, and its input is detached.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from attnviz.checkpoints import load_checkpoint
from attnviz.config import ModelConfig
from attnviz.mechanisms import Dense, Grouped, IndexedGrouped, Layer
from attnviz.modules import Recording, SparseAttention, Transformer
from attnviz.training.train import Recipe, text_loss

START = "gqa-4"
VARIANTS = ("sinks", "shared", "sparse")
INDEXER = "sparse-indexer"  # the run in which the indexers alone are trained
SECOND = "shared-second"  # a second cosine, as the five have: after one it was 0.067 bits above GQA-4
RUNS = ("sinks", "shared", SECOND, INDEXER, "sparse")
SINK_WINDOW, SINK_FULL = 32, (1, 3)  # the window of the other layers
READ, READERS = 1, (2, 3)  # the layer whose cache the last two read
TOP_K, INDEX_HEADS, INDEX_DIM = 32, 4, 32
STEPS = {"sinks": 1200, "shared": 1000, SECOND: 1500, INDEXER: 250, "sparse": 700}
PEAK_LR, DROPOUT = 1e-3, 0.15


def config_of(variant: str, start: ModelConfig) -> ModelConfig:
    """Return the configuration of a variant, from that of the checkpoint it starts from."""
    if variant == "sinks":
        return replace(start, sliding_window=SINK_WINDOW, full_layers=SINK_FULL, attention_sinks=True)
    mixer, feed_forward = start.layers[0].parts
    assert isinstance(mixer, Grouped) and isinstance(feed_forward, Dense)
    layer = start.layers[0]
    if variant == "shared":
        reader = replace(layer, parts=(replace(mixer, reads_cache=True), feed_forward), shares_cache_of=READ)
        return _mixed(start, [reader if i in READERS else layer for i in range(start.n_layers)])
    own = {name: getattr(mixer, name) for name in ("n_heads", "n_kv_heads", "head_dim")}
    indexed = IndexedGrouped(**own, top_k=TOP_K, n_index_heads=INDEX_HEADS, index_dim=INDEX_DIM)
    return _mixed(start, [replace(layer, parts=(indexed, feed_forward))] * start.n_layers)


def _mixed(start: ModelConfig, layers: list[Layer]) -> ModelConfig:
    return replace(start, mixed_layers=tuple(layers))


def start_of(variant: str, seed: int, trained: Callable[[str], Transformer]) -> tuple[Transformer, Recipe]:
    """Return the initial model and the recipe of a run. trained: loads the model of a finished run."""
    recipe = Recipe(decay_steps=STEPS[variant], peak_lr=PEAK_LR, dropout=DROPOUT, seed=seed + 3)
    if variant == "sparse":
        return trained(INDEXER), recipe
    if variant == SECOND:
        return trained("shared"), replace(recipe, seed=seed + 4)
    start, _ = load_checkpoint(START)
    model = Transformer.random(config_of(variant.removesuffix("-indexer"), start.config), seed)
    known = start.state_dict()
    own = {name: torch.zeros_like(p) if name.endswith("sinks") else p for name, p in model.state_dict().items()}
    model.load_state_dict({name: known.get(name, p) for name, p in own.items()})
    if variant != INDEXER:
        return model, recipe
    for name, p in model.named_parameters():
        p.requires_grad_("indexer" in name)
    for attn in _indexed(model):
        attn.top_k = recipe.length  # all keys: dense
    return model, replace(recipe, dropout=0.0, seed=seed + 2)


def recipes() -> dict[str, str]:
    """Return what the model card says about each variant's training."""
    tokens = {run: Recipe(decay_steps=STEPS[run]).tokens for run in RUNS}
    how = (
        f"a warm-up and a cosine from {PEAK_LR:g} to zero over {{steps:,}} steps of the same rows, with a dropout of "
        f"{DROPOUT}"
    )
    return {
        "sinks": f"From the shipped GQA-4, {tokens['sinks']:,} tokens more: a window of {SINK_WINDOW} tokens in layers "
        f"0 and 2, and one learned sink logit per head, which began at 0; {how.format(steps=STEPS['sinks'])}.",
        "shared": f"From the shipped GQA-4 without the keys and values of its last two layers, "
        f"{tokens['shared'] + tokens[SECOND]:,} tokens more: these layers read the cache of layer {READ}; "
        f"{how.format(steps=STEPS['shared'])}, then a second one over {STEPS[SECOND]:,}; the mean of the weights at "
        "their ends.",
        "sparse": f"From the shipped GQA-4, with an indexer of {INDEX_HEADS} heads of {INDEX_DIM} in each layer, first "
        f"{tokens[INDEXER]:,} tokens in which the indexers alone were trained, to match the heads' mean weights (KL "
        f"divergence, over {STEPS[INDEXER]:,} steps), then {tokens['sparse']:,} tokens with the {TOP_K} keys that they "
        f"keep, where the indexers learn from the same divergence on these keys; {how.format(steps=STEPS['sparse'])}.",
    }


def loss_of(variant: str) -> Callable[..., Tensor]:
    """Return the loss of a run, a function of the model, ids and loss mask."""
    if variant == INDEXER:
        return partial(index_loss, text=False)
    return index_loss if variant == "sparse" else text_loss


def index_loss(model: Transformer, ids: Tensor, counts: Tensor, *, text: bool = True) -> Tensor:
    """Return the loss of the text, if it counts, plus that of all indexers."""
    record = Recording()
    hooks = [attn.indexer.register_forward_pre_hook(_detached) for attn in _indexed(model)]
    loss = text_loss(partial(model, record=record), ids, counts)
    for hook in hooks:
        hook.remove()
    divergences = torch.stack([divergence(r.weights, r.own["index_scores"], r.allowed) for r in record])
    return divergences.sum() + (loss if text else 0.0)


def divergence(weights: Tensor, scores: Tensor, allowed: Tensor | None) -> Tensor:
    """Return the mean KL divergence, in nats per query, of the softmax of scores (B, T, S) from the heads' mean weights
    (B, H, T, S), both over the allowed keys, bool (B, 1, T, S); gradients go to the scores alone."""
    kept = torch.ones_like(scores, dtype=torch.bool) if allowed is None else allowed.expand(-1, 1, -1, -1)[:, 0]
    target = weights.detach().float().mean(1)  # (B, T, S), each row sums to 1
    logs = scores.float().masked_fill(~kept, float("-inf")).log_softmax(-1).masked_fill(~kept, 0.0)
    return (torch.special.xlogy(target, target) - target * logs).sum(-1).mean()


def _indexed(model: Transformer) -> list[SparseAttention]:
    return [block.attn for block in model.blocks if isinstance(block.attn, SparseAttention)]


def _detached(module: nn.Module, given: tuple[Any, ...]) -> tuple[Any, ...]:
    """Cut the gradients of an indexer's input: the rest of the model does not learn to be easy to rank."""
    return tuple(each.detach() if isinstance(each, Tensor) else each for each in given)
