"""Right versions of code that uses the modules: a fused projection, torch's own layer, a padded batch, the loss.

Mistakes in using the modules change these lines. B batch, T tokens, S key tokens, C d_model, H query heads,
K KV heads, D head_dim, V vocab_size.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnviz.modules import GroupedQueryAttention


def split_qkv(qkv: Tensor, H: int, K: int, D: int) -> tuple[Tensor, Tensor, Tensor]:
    """Split the output of one fused projection, (B, T, (H + 2 · K) · D), into q (B, H, T, D), k and v (B, K, T, D).

    The weight's rows are grouped per matrix: all of q, then all of k, then all of v.
    """
    q, k, v = qkv.split((H * D, K * D, K * D), dim=-1)
    return (
        q.unflatten(-1, (H, D)).transpose(1, 2),  # (B, T, H · D) -> (B, H, T, D)
        k.unflatten(-1, (K, D)).transpose(1, 2),  # (B, T, K · D) -> (B, K, T, D)
        v.unflatten(-1, (K, D)).transpose(1, 2),
    )


def torch_attention(ours: GroupedQueryAttention) -> nn.MultiheadAttention:
    """Build torch's layer for x (B, T, C) with our weights. A KV head is copied for each query head that reads it.

    ValueError if torch's layer cannot hold them.
    """
    if not isinstance(ours, GroupedQueryAttention):
        raise ValueError("it has no latent, so MLA's weights do not fit into it")
    H, C, dropout = ours.n_heads, ours.q_proj.in_features, ours.dropout
    if H * ours.head_dim != C:
        raise ValueError(f"its heads have d_model / n_heads = {C} / {H} dimensions, and this model's {ours.head_dim}")
    if ours.scoring or not isinstance(ours.q_norm, nn.Identity):
        raise ValueError("it has no norm of q and k, no other scale and no soft cap, and this model has")
    tensors, bias = {"out_proj.weight": ours.o_proj.weight}, ours.q_proj.bias is not None
    for name in ("weight", "bias") if bias else ("weight",):
        copies = [getattr(p, name).unflatten(0, (-1, ours.head_dim)) for p in (ours.q_proj, ours.k_proj, ours.v_proj)]
        rows = [w.repeat_interleave(H // len(w), 0).flatten(0, 1) for w in copies]  # (H · D, C) or (H · D,) each
        tensors[f"in_proj_{name}"] = torch.cat(rows)
    if bias:
        tensors["out_proj.bias"] = torch.zeros(C) if ours.o_proj.bias is None else ours.o_proj.bias
    with torch.device("meta"):  # no allocation or initialisation: the weights are replaced below
        theirs = nn.MultiheadAttention(C, H, dropout, bias, batch_first=True)
    theirs.load_state_dict(tensors, assign=True)
    return theirs.eval()


def padding_mask(is_token: Tensor) -> Tensor:
    """Build the mask of a padded batch from is_token, bool (B, S): no query may attend to padding."""
    return is_token[:, None, None, :]  # (B, S) -> (B, 1, 1, S), over the keys


def token_positions(is_token: Tensor) -> Tensor:
    """Count positions from each text's first token, skipping left padding: (B, T) -> (B, T)."""
    return (is_token.long().cumsum(-1) - 1).clamp(min=0)


def sinusoids(positions: Tensor, d_model: int) -> Tensor:
    """Return sinusoidal position encodings (arXiv 1706.03762, section 3.5), sines first: (B, T) -> (B, T, C)."""
    frequencies = 10000.0 ** -(torch.arange(0, d_model, 2) / d_model)  # (C / 2,)
    angles = positions[..., None] * frequencies  # (B, T, C / 2)
    return torch.cat((angles.sin(), angles.cos()), dim=-1)[..., :d_model]


def next_token_loss(logits: Tensor, ids: Tensor) -> Tensor:
    """Return the mean of -log p of each next token, in nats per token: logits (B, T, V), ids (B, T)."""
    predicted, following = logits[:, :-1], ids[:, 1:]  # position t predicts token t + 1
    return F.cross_entropy(predicted.flatten(0, 1), following.flatten())
