r"""Gated DeltaNet (arXiv 2412.06464): linear attention whose state is decayed, then corrected by the delta rule.

    S ← αₜ · S                        decay: forget a little of everything
    S ← S + kₜ ⊗ βₜ · (vₜ − Sᵀ kₜ)    delta rule: make what the state holds under kₜ more like vₜ
    oₜ = Sᵀ qₜ / sqrt(D)              read

A layer keeps S, D × V numbers per head, in place of the keys and values of all earlier tokens. Plain linear attention
would add kₜ ⊗ vₜ without looking at what is there already. With a decay per channel, α a vector, this is Kimi delta
attention (arXiv 2510.26692).

B batch, T tokens, C d_model, H value heads, K key heads (of queries and keys), G = H / K, D width of a key, V width of
a value, N = 2 · K · D + H · V channels that are convolved. Needs torch alone.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

CHUNK = 64  # tokens that the chunked form takes at once


def gated_delta_rule(
    q: Tensor, k: Tensor, v: Tensor, decay: Tensor, beta: Tensor, state: Tensor | None = None, *,
    scale: float | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Return the output (B, H, T, V) and the last state (B, H, D, V), token by token.

    q, k (B, H, T, D), already normalised. v (B, H, T, V). beta (B, H, T), how much of the difference is written. decay,
    in (0, 1]: (B, H, T), or per channel (B, H, T, D). state: that of earlier tokens. scale: 1 / sqrt(D) by default.
    """
    S = q.new_zeros(*q.shape[:2], q.shape[3], v.shape[3]) if state is None else state  # (B, H, D, V)
    decay = decay.unsqueeze(3) if decay.ndim == 3 else decay  # (B, H, T) -> (B, H, T, 1)
    outputs = []
    for t in range(q.shape[2]):
        q_t, k_t, v_t = q[:, :, t], k[:, :, t], v[:, :, t]  # (B, H, D), (B, H, D), (B, H, V)
        S = decay[:, :, t].unsqueeze(3) * S  # (B, H, D, V)
        held = torch.einsum("bhd,bhdv->bhv", k_t, S)  # (B, H, V)
        write = beta[:, :, t].unsqueeze(2) * (v_t - held)  # (B, H, V)
        S = S + torch.einsum("bhd,bhv->bhdv", k_t, write)  # (B, H, D, V)
        outputs.append(torch.einsum("bhd,bhdv->bhv", q_t, S) * (scale or q.shape[3] ** -0.5))
    return torch.stack(outputs, 2), S


def chunked_gated_delta_rule(
    q: Tensor, k: Tensor, v: Tensor, decay: Tensor, beta: Tensor, state: Tensor | None = None, *,
    scale: float | None = None, chunk: int = CHUNK,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Return what `gated_delta_rule` returns, `chunk` tokens at a time: matrix products in place of a loop over tokens.

    What a token of a chunk writes depends on what earlier ones wrote: a triangular system, solved at once.
    """
    S = q.new_zeros(*q.shape[:2], q.shape[3], v.shape[3]) if state is None else state  # (B, H, D, V)
    q, logs, beta, outputs = q * (scale or q.shape[3] ** -0.5), _logs(decay), beta.unsqueeze(3), []
    for start in range(0, q.shape[2], chunk):
        part = slice(start, start + chunk)
        output, S = _one_chunk(q[:, :, part], k[:, :, part], v[:, :, part], logs[:, :, part], beta[:, :, part], S)
        outputs.append(output)
    return torch.cat(outputs, 2), S


def _logs(decay: Tensor) -> Tensor:
    """Return the logarithms of the decays, (B, H, T, D or 1), of which 0 is the smallest number above."""
    decay = decay.unsqueeze(3) if decay.ndim == 3 else decay  # (B, H, T) -> (B, H, T, 1)
    return decay.clamp_min(torch.finfo(decay.dtype).tiny).log()


def _one_chunk(q: Tensor, k: Tensor, v: Tensor, logs: Tensor, beta: Tensor, S: Tensor) -> tuple[Tensor, Tensor]:
    """Return the outputs and the state after one chunk of T tokens. logs: of the decays. q is already scaled."""
    sums = logs.cumsum(2)  # (B, H, T, D or 1), of the decays since the chunk began
    later = torch.ones(2 * logs.shape[2:3], dtype=torch.bool, device=q.device).triu(1)  # (T, T)
    between = sums.unsqueeze(3) - sums.unsqueeze(2)  # (B, H, T, T, D or 1)
    kept = between.masked_fill(later.unsqueeze(2), float("-inf")).exp()  # of what column j wrote, at row i
    left, last = sums.exp(), sums[:, :, -1:]  # left: of the state before the chunk
    expected = beta * (v - (k * left) @ S)  # (B, H, T, V), if nothing else had been written in the chunk
    wide = expected.shape[3] > expected.shape[2]  # then a product with the inverse is faster
    right = torch.eye(expected.shape[2], dtype=q.dtype, device=q.device) if wide else expected
    written = torch.linalg.solve_triangular(  # each row less what it reads of the rows above: (1 + beta · k·k) w = …
        beta * _products(k, k, kept), right.expand(*k.shape[:2], -1, -1), upper=False, unitriangular=True
    )
    written = written @ expected if wide else written  # (B, H, T, V)
    output = (q * left) @ S + _products(q, k, kept) @ written  # (B, H, T, V)
    return output, last.exp().mT * S + (k * (last - sums).exp()).mT @ written


def _products(a: Tensor, b: Tensor, kept: Tensor) -> Tensor:
    """Return the products of all rows of a and b (B, H, T, D), each channel times what is kept of it: (B, H, T, T)."""
    if kept.shape[-1] == 1:
        return (a @ b.mT) * kept.squeeze(-1)
    return torch.einsum("bhid,bhjd,bhijd->bhij", a, b, kept)


def effective_weights(q: Tensor, k: Tensor, decay: Tensor, beta: Tensor, *, scale: float | None = None) -> Tensor:
    """Return W (B, H, T, T) with W @ v equal to the rule's output, from an empty state: its output for one-hot values.

    Lower triangular; may be negative, and rows do not sum to 1.
    """
    B, H, T, D = q.shape
    q, S, logs, beta = q * (scale or D**-0.5), q.new_zeros(B, H, D, 0), _logs(decay), beta.unsqueeze(3)
    rows = []
    for start in range(0, T, CHUNK):  # a chunk's values are those of its tokens: those of later ones are 0 so far
        part = slice(start, start + CHUNK)
        one_hot = F.pad(torch.eye(min(CHUNK, T - start), dtype=q.dtype, device=q.device), (start, 0)).expand(
            B, H, -1, -1
        )
        S = F.pad(S, (0, one_hot.shape[3] - start))  # (B, H, D, tokens so far)
        row, S = _one_chunk(q[:, :, part], k[:, :, part], one_hot, logs[:, :, part], beta[:, :, part], S)
        rows.append(F.pad(row, (0, T - row.shape[3])))  # (B, H, tokens of the chunk, T)
    return torch.cat(rows, 2)  # (B, H, T, T)


def short_convolution(x: Tensor, weight: Tensor, past: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Mix each channel of x (B, T, N) over its last w tokens by weight (N, w), the newest token's last.

    past: the last w inputs before x, zeros by default. Returns the result (B, T, N) and the last w inputs (B, w, N),
    of which w - 1 are read again: transformers keeps as many.
    """
    T, w = x.shape[1], weight.shape[1]
    past = x.new_zeros(x.shape[0], w, x.shape[2]) if past is None else past  # (B, w, N)
    seen = torch.cat((past, x), 1)  # (B, w + T, N)
    mixed = torch.zeros_like(x)  # (B, T, N)
    for i in range(w):
        mixed = mixed + seen[:, 1 + i : 1 + i + T] * weight[:, i]  # (B, T, N)
    return mixed, seen[:, T:]


def l2_normalised(x: Tensor, eps: float = 1e-6) -> Tensor:
    """Divide vectors (..., D) by their length."""
    return x * (x.square().sum(-1, keepdim=True) + eps).rsqrt()


class GatedRMSNorm(nn.Module):
    """RMSNorm over a head's output, then a gate: weight · x / rms(x) · SiLU(gate)."""

    def __init__(self, size: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(size)), eps

    def forward(self, x: Tensor, gate: Tensor) -> Tensor:
        """Map x and gate, (..., V) each, to (..., V)."""
        return self.weight * x * (x.square().mean(-1, keepdim=True) + self.eps).rsqrt() * F.silu(gate)


class GatedDeltaNet(nn.Module):
    """A layer of gated delta rule as in Qwen3-Next: n_heads value heads, of which G share a key head."""

    def __init__(self, d_model: int, n_heads: int, n_key_heads: int, *, key_dim: int, head_dim: int, taps: int = 4,
                 norm_eps: float = 1e-6) -> None:  # fmt: skip
        super().__init__()
        sizes = {"d_model": d_model, "n_heads": n_heads, "n_key_heads": n_key_heads, "key_dim": key_dim}
        for name, n in (sizes | {"head_dim": head_dim, "taps": taps}).items():
            if type(n) is not int or n < 1:
                raise ValueError(f"{name} must be a whole number of at least 1, not {n!r}")
        if n_heads % n_key_heads:
            raise ValueError(f"n_key_heads must divide n_heads = {n_heads}, and {n_key_heads} does not")
        self.n_heads, self.n_key_heads, self.taps = n_heads, n_key_heads, taps
        self.widths = [n_key_heads * key_dim, n_key_heads * key_dim, n_heads * head_dim]  # of q, k, v
        self.q_proj = nn.Linear(d_model, n_key_heads * key_dim, bias=False)
        self.k_proj = nn.Linear(d_model, n_key_heads * key_dim, bias=False)
        self.v_proj = nn.Linear(d_model, n_heads * head_dim, bias=False)
        self.gate_proj = nn.Linear(d_model, n_heads * head_dim, bias=False)
        self.decay_proj = nn.Linear(d_model, n_heads, bias=False)
        self.beta_proj = nn.Linear(d_model, n_heads, bias=False)
        drawn = self.drawn()
        self.conv, self.A_log, self.dt_bias = (nn.Parameter(drawn[name]) for name in ("conv", "A_log", "dt_bias"))
        self.norm = GatedRMSNorm(head_dim, norm_eps)
        self.o_proj = nn.Linear(n_heads * head_dim, d_model, bias=False)

    def drawn(self, generator: torch.Generator | None = None) -> dict[str, Tensor]:
        """Draw what no matrix is: taps, and rates for which a head forgets in ten tokens or in thousands."""
        conv = torch.empty(sum(self.widths), self.taps).uniform_(-1, 1, generator=generator) * self.taps**-0.5
        rate = torch.empty(2, self.n_heads).uniform_(generator=generator)  # of A, in (1, 16), and of Δt, in (1e-3, 0.1)
        step = 10 ** (-3 + 2 * rate[1])
        return {"conv": conv, "A_log": (1 + 15 * rate[0]).log(), "dt_bias": step.expm1().log()}  # softplus(…) = step

    def forward(
        self, x: Tensor, *, mask: Tensor | None = None, rope: None = None, cache: Any = None,
        record: Callable[..., None] | None = None, recurrent: bool = False, chunk: int = CHUNK,
    ) -> Tensor:  # fmt: skip
        """Map x (B, T, C) to (B, T, C).

        mask: bool (..., T, S), of which only padding counts: keys that the last query may not see. cache: with state,
        inputs and update(…), as `StateCache` (cache.py). rope must be None: a state has no positions.
        record: callback for the intermediate tensors, by name. recurrent: token by token, not `chunk` tokens at once.
        """
        if rope is not None:
            raise ValueError("rope must be None: the order of tokens is in the state already")
        T = x.shape[1]
        if mask is not None:
            x = x * mask[..., -1, -T:].reshape(-1, T, 1)  # a token of zeros writes nothing
        qkv = torch.cat((self.q_proj(x), self.k_proj(x), self.v_proj(x)), -1)  # (B, T, N)
        mixed, inputs = short_convolution(qkv, self.conv, None if cache is None else cache.inputs)  # (B, T, N)
        q, k, v = F.silu(mixed).float().split(self.widths, -1)  # (B, T, K·D), (B, T, K·D), (B, T, H·V)
        q = l2_normalised(q.unflatten(-1, (self.n_key_heads, -1)).transpose(1, 2))  # (B, K, T, D)
        k = l2_normalised(k.unflatten(-1, (self.n_key_heads, -1)).transpose(1, 2))  # (B, K, T, D)
        v = v.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)  # (B, H, T, V)
        step = F.softplus(self.decay_proj(x).float() + self.dt_bias)  # (B, T, H)
        decay = (-self.A_log.float().exp() * step).exp().transpose(1, 2)  # (B, T, H) -> (B, H, T)
        beta = self.beta_proj(x).float().sigmoid().transpose(1, 2)  # (B, T, H) -> (B, H, T)
        G = self.n_heads // self.n_key_heads
        queries, keys = q.repeat_interleave(G, 1), k.repeat_interleave(G, 1)  # (B, H, T, D), (B, H, T, D)
        rule = gated_delta_rule if recurrent or T == 1 else partial(chunked_gated_delta_rule, chunk=chunk)
        before = None if cache is None else cache.state
        with torch.autocast(x.device.type, enabled=False):  # a state adds up many tokens: too much for half precision
            output, state = rule(queries, keys, v, decay, beta, before)  # (B, H, T, V), (B, H, D, V)
        if cache is not None:
            cache.update(state, inputs, T)
        if record is not None:
            record(q=queries, k=k, v=v, q_pre_rope=queries, k_pre_rope=k, decay=decay, beta=beta, rule_output=output,
                   state=state, weights=effective_weights(queries, keys, decay, beta), allowed=mask,
                   scale=q.shape[3] ** -0.5)  # fmt: skip
        gate = self.gate_proj(x).unflatten(-1, (self.n_heads, -1))  # (B, T, H, V)
        normed = self.norm(output.transpose(1, 2).to(x.dtype), gate)  # (B, T, H, V)
        return self.o_proj(normed.flatten(2))  # (B, T, H·V) -> (B, T, C)
