"""More correct solutions, each in another style: loops, einsum, float64 inside, in-place, fused, absorbed."""

from tests.practice.answers import GQA, RMS, ROPE

ATTENTION_IN_PLACE = """
import torch
def attention(q, k, v, mask=None):
    scores = q.mul_(q.shape[-1] ** -0.5) @ k.transpose(-2, -1)
    if mask is None:
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool).tril_()
    scores.masked_fill_(mask.logical_not(), -torch.inf)
    scores.sub_(scores.amax(-1, keepdim=True).clamp_(min=-1e30)).exp_()
    return scores.div_(scores.sum(-1, keepdim=True).clamp_(min=1e-38)) @ v
"""
ATTENTION_BY_BATCH = """
import math, torch
def attention(q, k, v, mask=None):
    B, H, T, D = q.shape
    S = k.shape[-2]
    mask = torch.arange(S)[None, :] <= torch.arange(T)[:, None] if mask is None else mask
    mask = mask.broadcast_to(B, H, T, S).reshape(B * H, T, S)
    q, k, v = (t.reshape(B * H, t.shape[2], D) for t in (q, k, v))
    bias = torch.zeros(B * H, T, S).masked_fill(~mask, float("-inf"))
    weights = torch.baddbmm(bias, q, k.transpose(1, 2), alpha=1 / math.sqrt(D)).softmax(2)
    weights = torch.where(weights.isnan(), torch.zeros_like(weights), weights)
    return torch.bmm(weights, v).view(B, H, T, D)
"""
SELF_LOOPS = """
import torch
from torch import nn
class SelfAttention(nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        self.q_proj = nn.Linear(d_in, d_out, bias=False)
        self.k_proj = nn.Linear(d_in, d_out, bias=False)
        self.v_proj = nn.Linear(d_in, d_out, bias=False)
    def forward(self, x, mask=None):
        B, T, _ = x.shape
        mask = torch.tril(torch.ones(1, T, T)).bool() if mask is None else mask.reshape(-1, mask.shape[-2], T)
        mask = mask.expand(B, T, T)
        rows = []
        for b in range(B):
            q, k, v = (p(x[b].clone()) for p in (self.q_proj, self.k_proj, self.v_proj))
            for t in range(T):
                chosen = mask[b, t].nonzero()[:, 0]
                if len(chosen) == 0:
                    rows.append(torch.zeros(v.shape[1]))
                    continue
                w = torch.softmax(k[chosen].double() @ q[t].double() / v.shape[1] ** 0.5, 0)
                rows.append((w @ v[chosen].double()).float())
        return torch.stack(rows).view(B, T, -1)
"""
MHA_WEIGHTS = """
import torch
from torch import nn
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n, self.d = n_heads, d_model // n_heads
        for name in "qkvo":
            self.add_module(f"{name}_proj", nn.Linear(d_model, d_model, bias=False))
    def forward(self, x, mask=None):
        x = x.double()
        w = {n: getattr(self, f"{n}_proj").weight.double() for n in "qkvo"}
        q, k, v = (torch.einsum("btc,hdc->bhtd", x, w[n].view(self.n, self.d, -1)) for n in "qkv")
        s = torch.einsum("bhtd,bhsd->bhts", q, k) / self.d**0.5
        m = torch.ones_like(s, dtype=torch.bool).tril() if mask is None else mask.expand_as(s)
        e = torch.where(m, (s - torch.where(m, s, -torch.inf).amax(-1, True).nan_to_num(neginf=0)).exp(), 0.0)
        o = torch.einsum("bhts,bhsd->bthd", e / e.sum(-1, True).clamp_min(1e-300), v)
        return torch.einsum("bthd,chd->btc", o, w["o"].view(-1, self.n, self.d)).float()
"""
GQA_LOOPS = GQA.replace(
    GQA[GQA.index("        k = k.repeat") :],
    """        out = torch.zeros(B, T, self.n_heads, self.head_dim)
        for h in range(self.n_heads):
            g = h // (self.n_heads // self.n_kv_heads)
            s = q[:, h] @ k[:, g].mT / self.head_dim ** 0.5
            if mask is None:
                m = torch.ones(T, T, dtype=torch.bool).tril()
            else:
                m = mask if mask.ndim == 2 else mask[:, min(h, mask.shape[1] - 1)]
            s = s.masked_fill(~m, -1e9).softmax(-1) * m.any(-1, keepdim=True)
            out[:, :, h] = s @ v[:, g]
        return self.o_proj(out.flatten(2))
""",
)
ROPE_LOOPS = """
import math, torch
def rope(x, positions, theta=10000.0):
    D = x.shape[-1]
    out = x.clone()
    for t, p in enumerate(positions.tolist()):
        for i in range(D // 2):
            c, s = math.cos(p * theta ** (-2 * i / D)), math.sin(p * theta ** (-2 * i / D))
            a, b = x[..., t, i], x[..., t, i + D // 2]
            out[..., t, i], out[..., t, i + D // 2] = a * c - b * s, b * c + a * s
    return out
"""
RMS_DOUBLE = """
def rms_norm(x, weight, eps=1e-6):
    wide = x.double()
    return (wide * ((wide ** 2).sum(-1, keepdim=True) / x.shape[-1] + eps) ** -0.5).to(x.dtype).mul_(weight)
"""
SWIGLU_FUSED = """
import torch, torch.nn.functional as F
def swiglu(x, gate, up, down):
    a, b = F.linear(x, torch.cat((gate, up))).chunk(2, -1)
    return F.linear(F.silu(a).mul_(b), down)
"""
SWIGLU_EINSUM = """
import torch
def swiglu(x, gate, up, down):
    a, b = (torch.einsum("...c,fc->...f", x.double(), w.double()) for w in (gate, up))
    return torch.einsum("...f,cf->...c", a * torch.sigmoid(a) * b, down.double()).float()
"""
CACHE_BUFFER = (
    ROPE
    + """
class Cache:
    def __init__(self):
        self.k = self.v = None
        self.n = 0
    def __len__(self):
        return self.n
    @property
    def nbytes(self):
        return 0 if self.k is None else 2 * self.k.shape[0] * self.k.shape[1] * self.n * self.k.shape[3] * 4
def decode_step(x, cache, q_proj, k_proj, v_proj, o_proj, n_heads, n_kv_heads, theta=10000.0):
    B, T, C = x.shape
    D = k_proj.shape[0] // n_kv_heads
    q, k, v = ((x @ w.T).unflatten(-1, (-1, D)).transpose(1, 2) for w in (q_proj, k_proj, v_proj))
    if cache.k is None:
        cache.k, cache.v = torch.zeros(B, n_kv_heads, 64, D), torch.zeros(B, n_kv_heads, 64, D)
    past, cache.n = cache.n, cache.n + T
    cache.k[:, :, past : cache.n], cache.v[:, :, past : cache.n] = k, v  # rotated when they are read
    at = torch.arange(cache.n)
    q, k, v = rope(q, at[past:], theta), rope(cache.k[:, :, : cache.n], at, theta), cache.v[:, :, : cache.n]
    s = torch.einsum("bkgtd,bksd->bkgts", q.unflatten(1, (n_kv_heads, -1)), k) / D ** 0.5
    s = s.masked_fill(at[past:, None] < at, float("-inf")).softmax(-1)
    return torch.einsum("bkgts,bksd->btkgd", s, v).flatten(2) @ o_proj.T
"""
)
BLOCK_FUNCTIONAL = """
import torch, torch.nn.functional as F
from torch import nn
class Weights(nn.Module):
    def __init__(self, **shapes):
        super().__init__()
        for name, (n, m) in shapes.items():
            setattr(self, name, nn.Linear(m, n, bias=False))
class Block(nn.Module):
    def __init__(self, d_model, n_heads, n_kv_heads, d_ff):
        super().__init__()
        self.h, self.k, d = n_heads, n_kv_heads, d_model // n_heads
        self.attn_norm, self.ffn_norm = nn.RMSNorm(d_model, eps=1e-6), nn.RMSNorm(d_model, eps=1e-6)
        self.attn = Weights(q_proj=(d_model, d_model), k_proj=(self.k * d, d_model), v_proj=(self.k * d, d_model),
                            o_proj=(d_model, d_model))
        self.ffn = Weights(gate_proj=(d_ff, d_model), up_proj=(d_ff, d_model), down_proj=(d_model, d_ff))
    def forward(self, x):
        a = self.attn_norm(x)
        q, k, v = (p(a).unflatten(-1, (n, -1)).transpose(1, 2) for p, n in (
            (self.attn.q_proj, self.h), (self.attn.k_proj, self.k), (self.attn.v_proj, self.k)))
        o = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True).transpose(1, 2).flatten(2)
        x = x + self.attn.o_proj(o)
        a = self.ffn_norm(x)
        x += self.ffn.down_proj(F.silu(self.ffn.gate_proj(a)) * self.ffn.up_proj(a))
        return x
"""
TOP_P_PYTHON = """
import math, torch
def top_p(logits, p):
    most = max(logits.tolist())
    weights = [math.exp(x - most) for x in logits.tolist()]
    total = sum(weights)
    kept, so_far = {}, 0.0
    for x, i in sorted(((w / total, i) for i, w in enumerate(weights)), reverse=True):
        if so_far >= p:
            break
        kept[i] = x
        so_far += x
    return torch.tensor([kept.get(i, 0.0) / sum(kept.values()) for i in range(len(logits))])
"""
MLA_ABSORBED = (
    ROPE
    + RMS
    + """
from torch import nn
class MultiHeadLatentAttention(nn.Module):
    def __init__(self, d_model, n_heads, kv_lora_rank, qk_nope_head_dim, qk_rope_head_dim, v_head_dim):
        super().__init__()
        self.H, self.R, self.N, self.P, self.V = n_heads, kv_lora_rank, qk_nope_head_dim, qk_rope_head_dim, v_head_dim
        self.q_proj = nn.Linear(d_model, n_heads * (self.N + self.P), bias=False)
        self.kv_a_proj = nn.Linear(d_model, self.R + self.P, bias=False)
        self.kv_a_norm = nn.RMSNorm(self.R, eps=1e-6)
        self.kv_b_proj = nn.Linear(self.R, n_heads * (self.N + self.V), bias=False)
        self.o_proj = nn.Linear(n_heads * self.V, d_model, bias=False)
    def forward(self, x, mask=None):
        at = torch.arange(x.shape[1])
        q = self.q_proj(x).unflatten(-1, (self.H, -1)).transpose(1, 2)
        latent, shared = self.kv_a_proj(x).split((self.R, self.P), -1)
        latent = self.kv_a_norm(latent)
        up = self.kv_b_proj.weight.view(self.H, self.N + self.V, self.R)
        s = torch.einsum("bhtn,hnr,bsr->bhts", q[..., : self.N], up[:, : self.N], latent)
        s = s + rope(q[..., self.N :], at) @ rope(shared[:, None], at).mT
        m = (at[:, None] >= at) if mask is None else mask
        w = (s / (self.N + self.P) ** 0.5).masked_fill(~m, float("-inf")).softmax(-1).nan_to_num(0.0)
        out = torch.einsum("bhts,bsr,hvr->bthv", w, latent, up[:, self.N :])
        return self.o_proj(out.flatten(2))
"""
)
FLASH_GUARDED = """
import math, torch
def flash_attention(q, k, v, block, mask=None):
    T, S = q.shape[0], k.shape[0]
    out = q.new_zeros(T, v.shape[1])
    largest, total = q.new_full((T,), float("-inf")), q.new_zeros(T)
    for start in range(0, S, block):
        part = slice(start, min(S, start + block))
        scores = torch.einsum("td,sd->ts", q, k[part]) / math.sqrt(q.shape[1])
        if mask is None:
            seen = torch.arange(start, part.stop)[None] <= torch.arange(T)[:, None]
        else:
            seen = mask[:, part].expand(T, -1)
        scores = scores.masked_fill(~seen, float("-inf"))
        higher = torch.maximum(largest, scores.max(-1).values)
        safe = torch.where(higher == float("-inf"), torch.zeros_like(higher), higher)
        weights, shrink = torch.exp(scores - safe[:, None]), torch.exp(largest - safe)
        total = total * shrink + weights.sum(-1)
        out = out * shrink[:, None] + weights @ v[part]
        largest = higher
    return torch.where(total[:, None] > 0, out / total[:, None], torch.zeros_like(out))
"""
FLASH_QUERY_BY_QUERY = """
import torch
def flash_attention(q, k, v, block, mask=None):
    out = torch.zeros(len(q), v.shape[1])
    for t in range(len(q)):
        m, l, o = float("-inf"), 0.0, torch.zeros(v.shape[1])
        for a in range(0, len(k), block):
            s = k[a : a + block] @ q[t] / q.shape[1] ** 0.5
            if mask is None:
                s[max(0, t + 1 - a) :] = float("-inf")
            else:
                s = s.masked_fill(~mask[t if len(mask) > 1 else 0, a : a + block], float("-inf"))
            new = max(m, s.max().item())
            if new == float("-inf"):
                continue
            w, c = (s - new).exp(), torch.tensor(m - new).exp().item()
            l, o, m = l * c + w.sum().item(), o * c + w @ v[a : a + block], new
        out[t] = o / l if l else 0.0
    return out
"""
FLASH_DOUBLE_TRICK = """
import torch
def flash_attention(q, k, v, block, mask=None):
    T, S = len(q), len(k)
    low = -1e37
    m, l, o = torch.full((T, 1), low), torch.zeros(T, 1), torch.zeros(T, v.shape[1])
    for i in range((S + block - 1) // block):
        kb, vb = k[i * block : (i + 1) * block], v[i * block : (i + 1) * block]
        s = torch.mul(q, q.shape[1] ** -0.5) @ kb.T
        at = torch.arange(len(kb)) + i * block
        seen = (torch.arange(T)[:, None] >= at) if mask is None else mask[:, at]
        s = s.where(seen, torch.tensor(low))
        new = torch.maximum(m, s.amax(1, True))
        p = (s - new).exp() * seen
        scale = (m - new).exp()
        l.mul_(scale).add_(p.sum(1, True))
        o.mul_(scale).addmm_(p, vb)
        m = new
    return o / l.where(l > 0, torch.ones(()))
"""
DELTA_LOOPS = """
import math, torch
def gated_delta_rule(q, k, v, decay, beta, state=None):
    B, H, T, D = q.shape
    V = v.shape[3]
    states = torch.zeros(B, H, V, D) if state is None else state.transpose(2, 3).clone()  # as in the paper
    out = torch.zeros(B, H, T, V)
    for b in range(B):
        for h in range(H):
            S = states[b, h]
            for t in range(T):
                key, a, w = k[b, h, t], decay[b, h, t], beta[b, h, t]
                S = S @ (a * (torch.eye(D) - w * torch.outer(key, key))) + w * torch.outer(v[b, h, t], key)
                out[b, h, t] = S @ q[b, h, t] / math.sqrt(D)
            states[b, h] = S
    return out, states.transpose(2, 3)
"""
DELTA_IN_PLACE = """
import torch
def gated_delta_rule(q, k, v, decay, beta, state=None):
    if state is None:
        state = v.new_zeros(v.shape[0], v.shape[1], q.shape[3], v.shape[3])
    q *= q.shape[3] ** -0.5
    out = torch.empty_like(v)
    for t, (qt, kt, vt, at, bt) in enumerate(zip(*(x.unbind(2) for x in (q, k, v, decay, beta)))):
        state *= at[:, :, None, None]
        vt = (vt - (kt[:, :, None] @ state)[:, :, 0]) * bt[:, :, None]
        state += kt[..., None] * vt[:, :, None]
        torch.matmul(qt[:, :, None], state, out=(row := torch.empty(*vt.shape[:2], 1, vt.shape[2])))
        out[:, :, t] = row[:, :, 0]
    return out, state
"""
DELTA_CHUNKED = """
import torch
def gated_delta_rule(q, k, v, decay, beta, state=None):
    B, H, T, D = q.shape
    S = torch.zeros(B, H, D, v.shape[3]) if state is None else state
    out = []
    for a in range(0, T, 32):
        Q, K, V, g, w = (x[:, :, a : a + 32] for x in (q, k, v, decay.log(), beta[..., None]))
        n = Q.shape[2]
        g = g.cumsum(-1)
        ratio = (g[..., :, None] - g[..., None, :]).tril().exp().tril()
        M = torch.eye(n) + (w * K @ K.mT * ratio).tril(-1)
        U = torch.inverse(M) @ (w * (V - g.exp()[..., None] * (K @ S)))
        out.append(g.exp()[..., None] * (Q @ S) + (Q @ K.mT * ratio) @ U)
        S = g[..., -1:, None].exp() * S + ((g[..., -1:] - g).exp()[..., None] * K).mT @ U
    return torch.cat(out, 2) / D ** 0.5, S
"""
DELTA_MATRIX = """
import torch
def gated_delta_rule(q, k, v, decay, beta, state=None):
    # in float64, with quotients of cumulative products: one triangular system for the whole text
    dtype, (B, H, T, D) = q.dtype, q.shape
    q, k, v, decay, beta = (x.double() for x in (q, k, v, decay, beta))
    S = torch.zeros(B, H, D, v.shape[3]).double() if state is None else state.double()
    c = decay.cumprod(-1)
    ratio = (c[..., :, None] / c[..., None, :]).tril()
    A = torch.eye(T).double() + (beta[..., None] * (k @ k.mT) * ratio).tril(-1)
    left = beta[..., None] * (v - c[..., None] * (k @ S))
    U = torch.linalg.solve_triangular(A, left, upper=False)
    out = c[..., None] * (q @ S) + ((q @ k.mT) * ratio) @ U
    last = c[..., -1:, None] * S + (k * (c[..., -1:] / c)[..., None]).mT @ U
    return (out * D ** -0.5).to(dtype), last.to(dtype)
"""
SPARSE_GATHER = """
import math, torch
def sparse_attention(q, k, v, index_q, index_k, index_weights, top_k, mask=None):
    (B, H, T, D), (K, S) = q.shape, k.shape[1:3]
    mask = torch.ones(T, S, dtype=torch.bool).tril() if mask is None else mask
    mask = mask.expand(B, 1, T, S)[:, 0]
    scores = torch.zeros(B, T, S)
    for i in range(index_q.shape[1]):
        scores += index_weights[..., i, None] * torch.relu(index_q[:, i] @ index_k.transpose(1, 2))
    scores[~mask] = -math.inf
    best = scores.argsort(dim=-1, descending=True, stable=True)[..., :top_k]
    valid = mask.gather(-1, best)
    out = torch.zeros(B, H, T, v.shape[3])
    for b in range(B):
        for h in range(H):
            keys, values = k[b, h * K // H][best[b]], v[b, h * K // H][best[b]]
            s = (keys @ q[b, h, :, :, None])[..., 0] / math.sqrt(D)
            s = s.masked_fill(~valid[b], -math.inf)
            s = s - s.amax(-1, keepdim=True).clamp(min=-1e30)
            w = s.exp()
            w = w / w.sum(-1, keepdim=True).clamp(min=1e-30)
            out[b, h] = (w[..., None] * values).sum(-2)
    return out
"""
SPARSE_LOOPS = """
import math
import torch
import torch.nn.functional as F
def sparse_attention(q, k, v, index_q, index_k, index_weights, top_k, mask=None):
    B, H, T, D = q.shape
    S, group = k.shape[2], H // k.shape[1]
    out = torch.zeros(B, H, T, v.shape[3])
    for b in range(B):
        for t in range(T):
            if mask is None:
                seen = list(range(t + 1))
            else:
                row = mask[t] if mask.ndim == 2 else mask[b, 0, t]
                seen = [s for s in range(S) if row[s]]
            score = {s: float((index_weights[b, t] * F.relu(index_q[b, :, t] @ index_k[b, s])).sum()) for s in seen}
            keep = sorted(seen, key=lambda s: (-score[s], s))[:top_k]
            if not keep:
                continue
            for h in range(H):
                w = torch.softmax(k[b, h // group, keep] @ q[b, h, t] / math.sqrt(D), -1)
                out[b, h, t] = w @ v[b, h // group, keep]
    return out
"""
SPARSE_FUSED = """
import torch, torch.nn.functional as F
def sparse_attention(q, k, v, index_q, index_k, index_weights, top_k, mask=None):
    T, S = q.shape[2], k.shape[2]
    if mask is None:
        mask = torch.ones(T, S, dtype=torch.bool).tril()
    ranks = (index_weights.transpose(1, 2)[..., None] * (index_q @ index_k[:, None].mT).relu_()).sum(1, keepdim=True)
    ranks = torch.where(mask, ranks, -torch.inf)
    # a key's place: how many come before it
    before = (ranks[..., None, :] > ranks[..., :, None]).sum(-1)
    same = (ranks[..., None, :] == ranks[..., :, None]) & torch.ones(S, S, dtype=torch.bool).tril(-1)
    keep = ((before + same.sum(-1)) < top_k) & mask
    out = F.scaled_dot_product_attention(q, k, v, attn_mask=keep, enable_gqa=True)
    return torch.where(keep.any(-1, keepdim=True), out, torch.zeros_like(out))
"""
OTHER_ANSWERS = {
    "attention": (ATTENTION_IN_PLACE, ATTENTION_BY_BATCH),
    "self-attention": (SELF_LOOPS,),
    "mha": (MHA_WEIGHTS,),
    "gqa": (GQA_LOOPS,),
    "rope": (ROPE_LOOPS,),
    "rms-norm": (RMS_DOUBLE,),
    "swiglu": (SWIGLU_FUSED, SWIGLU_EINSUM),
    "cache": (CACHE_BUFFER,),
    "block": (BLOCK_FUNCTIONAL,),
    "top-p": (TOP_P_PYTHON,),
    "mla": (MLA_ABSORBED,),
    "flash": (FLASH_GUARDED, FLASH_QUERY_BY_QUERY, FLASH_DOUBLE_TRICK),
    "delta": (DELTA_LOOPS, DELTA_IN_PLACE, DELTA_CHUNKED, DELTA_MATRIX),
    "sparse": (SPARSE_GATHER, SPARSE_LOOPS, SPARSE_FUSED),
}
