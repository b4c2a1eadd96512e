"""The hybrid checkpoint with each rule of a state, in float64 and with products of matrices; and an indexer's choice.

A rule multiplies the state by (I − β k kᵀ) where it corrects, instead of reading it first, as the modules do.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnviz.modules import GatedDeltaNet, Transformer
from attnviz.trace import Trace


class Token(NamedTuple):
    """What one token brings to one head: k (D,), v (V,), decay and β."""

    k: Tensor
    v: Tensor
    decay: float
    beta: float


Rule = Callable[[Tensor, Token], Tensor]  # the state before a token, (D, V), and the token -> the state after it


def corrected(S: Tensor, t: Token, beta: float) -> Tensor:
    return (torch.eye(len(t.k), dtype=t.k.dtype) - beta * torch.outer(t.k, t.k)) @ S + beta * torch.outer(t.k, t.v)


def right(S: Tensor, t: Token) -> Tensor:
    return corrected(t.decay * S, t, t.beta)


RULES: dict[str, Rule] = {
    "decay_after_the_write": lambda S, t: t.decay * corrected(S, t, t.beta),
    "write_strength_left_out": lambda S, t: corrected(t.decay * S, t, 1.0),
    "values_added_up": lambda S, t: t.decay * S + t.beta * torch.outer(t.k, t.v),
    "keys_not_normalised": right,  # of other keys
}
ON_STATES = (*RULES, "state_of_a_chunk_dropped")
ONLY_IN = dict.fromkeys(ON_STATES, "hybrid") | {"top_k_before_the_mask": "sparse"}  # the checkpoints where they show


def read_by(rule: Rule, q: Tensor, k: Tensor, v: Tensor, decay: Tensor, beta: Tensor) -> Tensor:
    """Return what one head reads with a rule: q, k (T, D), v (T, V), decay and beta (T,) -> (T, V)."""
    S, found = torch.zeros(k.shape[1], v.shape[1], dtype=v.dtype), []
    for i in range(len(q)):
        S = rule(S, Token(k[i], v[i], float(decay[i]), float(beta[i])))
        found.append(q[i] @ S / k.shape[1] ** 0.5)
    return torch.stack(found)


class ByHand(nn.Module):
    """A layer of the delta rule with the weights of another and any rule, with or without normalised q and k."""

    def __init__(self, layer: GatedDeltaNet, rule: Rule, normalised: bool) -> None:
        super().__init__()
        self.layer, self.rule, self.normalised = layer, rule, normalised

    def forward(self, x: Tensor, **_: object) -> Tensor:
        own, heads = self.layer, (self.layer.n_key_heads, self.layer.n_key_heads, self.layer.n_heads)
        inputs = torch.cat([p(x)[0] for p in (own.q_proj, own.k_proj, own.v_proj)], -1).double().T  # (N, T)
        mixed = F.conv1d(F.pad(inputs, (own.taps - 1, 0)), own.conv.double()[:, None], groups=len(inputs)).T  # (T, N)
        parts = zip(F.silu(mixed).split(own.widths, -1), heads, strict=True)
        q, k, v = (part.unflatten(-1, (n, -1)).transpose(0, 1) for part, n in parts)  # (heads, T, D)
        if self.normalised:
            q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)
        rate = own.A_log.double().exp() * F.softplus(own.decay_proj(x)[0].double() + own.dt_bias)  # (T, H)
        decay, beta = torch.exp(-rate), torch.sigmoid(own.beta_proj(x)[0].double())
        key_head = [h * own.n_key_heads // own.n_heads for h in range(own.n_heads)]
        read = [read_by(self.rule, q[g], k[g], v[h], decay[:, h], beta[:, h]) for h, g in enumerate(key_head)]
        normed = F.rms_norm(torch.stack(read, 1), v.shape[-1:], own.norm.weight.double(), own.norm.eps)  # (T, H, V)
        return own.o_proj((normed.flatten(1) * F.silu(own.gate_proj(x)[0].double())).float())[None]


def logits_of_rule(model: Transformer, ids: list[int], name: str = "") -> Tensor:
    """Return the logits with the rule of a mistake in each layer with a state; of the right one by default."""
    rule = RULES.get(name, right)
    layers = {i: block.attn for i, block in enumerate(model.blocks) if isinstance(block.attn, GatedDeltaNet)}
    by_hand = {i: ByHand(layer, rule, name != "keys_not_normalised") for i, layer in layers.items()}
    with torch.inference_mode():
        return model.with_attentions(by_hand)(torch.tensor([ids]))


def norm_of_state(found: Trace, rule: Rule) -> float:
    """Return the norm of the last state of layer 0's head whose effective weights are not those of adding up values."""
    one = found.layers[0]
    heads = [
        [torch.tensor(each).double() for each in (one.q[h], one.k[one.mixer.kv_head_of[h]], one.v[h],
                                                  one.own["decay"][h], one.own["beta"][h])]
        for h in range(one.mixer.n_heads)
    ]  # fmt: skip
    one_hot = torch.eye(len(found.tokens), dtype=torch.float64)
    far = [
        float(
            (read_by(RULES["values_added_up"], q, k, one_hot, *rates) - read_by(right, q, k, one_hot, *rates))
            .abs()
            .sum()
        )
        for q, k, _, *rates in heads
    ]
    _, k, v, decay, beta = heads[int(np.argmax(far))]
    S = torch.zeros(k.shape[1], v.shape[1], dtype=torch.float64)
    for t in range(len(k)):
        S = rule(S, Token(k[t], v[t], float(decay[t]), float(beta[t])))
    return float(S.norm())


def share_on_earlier_chunks(found: Trace, chunk: int) -> float:
    """Return the share of the head of layer 0 with the largest weights on keys of earlier chunks."""
    sizes = np.abs(found.layers[0].weights)  # (H, T, T)
    earlier = [[q // chunk > k // chunk for k in range(sizes.shape[2])] for q in range(sizes.shape[1])]
    of_heads = (sizes * np.array(earlier)).sum((1, 2))
    head = int(of_heads.argmax())
    return float(of_heads[head] / sizes[head].sum())


def keys_kept(found: Trace, k: int, *, before_the_mask: bool) -> float:
    """Return how many keys a query of layer 0 keeps on average, by sorting its index scores."""
    kept = 0
    for i, row in enumerate(found.layers[0].own["index_scores"].tolist()):
        ranked = sorted(range(len(row) if before_the_mask else i + 1), key=lambda key: -row[key])
        kept += sum(key <= i for key in ranked[:k])
    return kept / len(found.tokens)
