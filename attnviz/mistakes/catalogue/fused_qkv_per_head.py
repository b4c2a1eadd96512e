"""The output of a fused qkv projection is split per head, although its rows are grouped per matrix."""

import torch
from torch import Tensor, nn

from attnviz.config import ModelConfig
from attnviz.mistakes.mistake import CannotOccur, Mistake, Source, Symptom
from attnviz.mistakes.runs import loss_metric, maps, run
from attnviz.mistakes.versions import Change, Version
from attnviz.modules import GroupedQueryAttention, Transformer
from attnviz.modules.shallow import with_own_parts


def compare(right: Version, wrong: Version, model: Transformer, ids: list[int]) -> Symptom:
    if model.config.attention == "mla":
        raise CannotOccur("MLA has no fused projection to q, k and v: keys and values are computed from a latent.")
    a, b = (run(_fused(each, model), ids) for each in (right, wrong))
    return Symptom(**maps(a, b), **loss_metric(a.logits, b.logits, ids)._asdict())


def _fused(version: Version, model: Transformer) -> Transformer:
    """Return the model with the projections that result when this version splits a fused projection."""
    split = version.module("mistakes.usage").split_qkv
    return model.with_attentions({i: _split_again(block.attn, split) for i, block in enumerate(model.blocks)})


def _split_again(attn: GroupedQueryAttention, split: object) -> nn.Module:
    """Fuse the three projections and split them again with `split`, applied to the weight rows."""
    assert callable(split)
    names = ("q_proj", "k_proj", "v_proj")
    own = [getattr(attn, name) for name in names]
    rows = torch.cat([_rows(each) for each in own], dim=-1)[None]  # (1, C or C + 1, (H + 2 · K) · D)
    other = with_own_parts(attn)
    for name, linear, part in zip(names, own, split(rows, attn.n_heads, attn.n_kv_heads, attn.head_dim), strict=True):
        new = with_own_parts(linear)
        weight = part[0].transpose(0, 1).flatten(1).mT  # (heads, C, D) -> (heads · D, C)
        tensors = {"weight": weight[:, : linear.in_features], "bias": None}
        if linear.bias is not None:
            tensors["bias"] = weight[:, -1]
        vars(new)["_parameters"] = {n: t if t is None else nn.Parameter(t, False) for n, t in tensors.items()}
        setattr(other, name, new)
    return other


def _rows(linear: nn.Linear) -> Tensor:
    """Return the transposed weight (C, out), or (C + 1, out) with the bias as the last row."""
    return linear.weight.T if linear.bias is None else torch.cat((linear.weight.T, linear.bias[None]))


def why_not(config: ModelConfig) -> str:
    return "With one KV head both layouts are the same: all of q, then k, then v." if config.n_kv_heads == 1 else ""


MISTAKE = Mistake(
    title="Fused qkv split per head",
    subject="heads",
    kind="silent",
    changes=(
        Change(
            "mistakes/usage.py",
            right="""
                q, k, v = qkv.split((H * D, K * D, K * D), dim=-1)
                return (
                    q.unflatten(-1, (H, D)).transpose(1, 2),  # (B, T, H · D) -> (B, H, T, D)
                    k.unflatten(-1, (K, D)).transpose(1, 2),  # (B, T, K · D) -> (B, K, T, D)
                    v.unflatten(-1, (K, D)).transpose(1, 2),
                )
            """,
            wrong="""
                q, k, v = qkv.unflatten(-1, (K, -1, D)).split((H // K, 1, 1), dim=-2)  # (B, T, K, G or 1, D)
                return (
                    q.flatten(2, 3).transpose(1, 2),  # (B, T, K, G, D) -> (B, H, T, D)
                    k.flatten(2, 3).transpose(1, 2),  # (B, T, K, 1, D) -> (B, K, T, D)
                    v.flatten(2, 3).transpose(1, 2),
                )
            """,
        ),
    ),
    question="MHA with 2 heads. The fused rows are q0 q1 k0 k1 v0 v1. What does head 1 use as its q, k and v in this "
    "version?",
    answers=("q1, k1, v1", "k1, v0, v1", "q1, k0, v1", "k0, k1, v1"),
    answer=1,
    what="One large matrix product needs fewer kernel launches than three, so q, k and v often share one weight. Its "
    "rows can be grouped per matrix (all of q, then k, then v: GPT-2, nn.MultiheadAttention) or per head (q0 k0 v0 "
    "q1 k1 v1: GPT-NeoX; per KV head in Falcon 40B and InternLM2). A model can be trained with either. Read in the "
    "wrong layout, head 0 takes the first three parts of q0 q1 k0 k1 v0 v1 and head 1 the other three, k1 v0 v1: a "
    "key is used as its query. Every shape is right.",
    sources=(
        Source(
            "torch.nn.MultiheadAttention: in_proj_weight",
            "https://docs.pytorch.org/docs/stable/generated/torch.nn.MultiheadAttention.html",
        ),
        Source("Black et al., GPT-NeoX-20B", "https://arxiv.org/abs/2204.06745"),
    ),
    noticed="Not when training from scratch: either layout is only an order of rows. Converted weights load without "
    "an error, and the loss shows the mistake at once. The layout also matters for tensor parallelism: cut into "
    "equal parts, rows grouped per KV head give each GPU whole heads with their q, k and v, and rows grouped per "
    "matrix do not.",
    interview="“Split this (B, T, 3 · C) into q, k and v.” Ask for the layout of the rows before you write view().",
    test="""
import torch
import torch.nn.functional as F
from attnviz.mistakes.usage import split_qkv

def test_fused_rows_are_laid_out_per_matrix():
    x, rows = torch.randn(1, 7, 12), torch.randn(3, 12, 12)  # W_q, W_k, W_v
    q, k, v = split_qkv(F.linear(x, rows.flatten(0, 1)), 3, 3, 4)
    for ours, weight in zip((q, k, v), rows):
        torch.testing.assert_close(ours, F.linear(x, weight).view(1, 7, 3, 4).transpose(1, 2))
""",
    compare=compare,
    why_not=why_not,
)
