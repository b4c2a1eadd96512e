"""Correct solutions of each task, in several styles."""

ATTENTION_LOOPS = """
import math, torch
def attention(q, k, v, mask=None):
    B, H, T, D = q.shape
    S = k.shape[2]
    out = torch.zeros(B, H, T, v.shape[3])
    if mask is None:
        mask = torch.ones(T, S).tril().bool()
    mask = mask.expand(B, H, T, S)
    for b in range(B):
        for h in range(H):
            for t in range(T):
                keys = [s for s in range(S) if mask[b, h, t, s]]
                if keys:
                    scores = torch.stack([q[b, h, t] @ k[b, h, s] / math.sqrt(D) for s in keys])
                    weights = (scores - scores.max()).exp()
                    out[b, h, t] = sum(w * v[b, h, s] for w, s in zip(weights / weights.sum(), keys))
    return out
"""
ATTENTION_FUSED = """
import torch, torch.nn.functional as F
def attention(q, k, v, mask=None):
    if mask is None:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
    out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    return torch.where(mask.any(-1, keepdim=True), out, torch.zeros(()))
"""
ATTENTION_DOUBLE = """
import torch
def attention(q, k, v, mask=None):
    q, k, v = q.double(), k.double(), v.double()
    if mask is None:
        mask = ~torch.triu(torch.ones(q.size(2), k.size(2), dtype=torch.bool), 1)
    w = (torch.einsum("bhtd,bhsd->bhts", q, k) / q.size(-1) ** 0.5).masked_fill(~mask, float("-inf")).softmax(-1)
    return torch.nan_to_num(w) @ v
"""
SELF = """
import torch
from torch import nn
class SelfAttention(nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        for name in ("q_proj", "k_proj", "v_proj"):
            setattr(self, name, nn.Linear(d_in, d_out, bias=False))
    def forward(self, x, mask=None):
        q, k, v = self.q_proj(x), self.k_proj(x), self.v_proj(x)
        T = x.shape[1]
        if mask is None:
            mask = torch.ones(T, T).tril().bool()
        if mask.ndim == 4:
            mask = mask[:, 0]
        scores = q @ k.transpose(1, 2) / q.shape[-1] ** 0.5
        return torch.nan_to_num(scores.masked_fill(~mask, float("-inf")).softmax(-1)) @ v
"""
MHA_LIST = """
import torch
from torch import nn
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.H = n_heads
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (nn.Linear(d_model, d_model, bias=False) for _ in range(4))
    def forward(self, x, mask=None):
        heads = []
        for h, (q, k, v) in enumerate(zip(*(p(x).chunk(self.H, -1) for p in (self.q_proj, self.k_proj, self.v_proj)))):
            m = torch.ones(x.shape[1], x.shape[1]).tril().bool() if mask is None else mask
            m = m[:, min(h, m.shape[1] - 1)] if m.ndim == 4 else m
            w = (q @ k.mT * q.shape[-1] ** -0.5).masked_fill(~m, float("-inf")).softmax(-1)
            heads.append(torch.nan_to_num(w) @ v)
        return self.o_proj(torch.cat(heads, -1))
"""
GQA = """
import torch, torch.nn.functional as F
from torch import nn
class GroupedQueryAttention(nn.Module):
    def __init__(self, d_model, n_heads, n_kv_heads):
        super().__init__()
        D = d_model // n_heads
        self.n_heads, self.n_kv_heads, self.head_dim = n_heads, n_kv_heads, D
        self.q_proj = nn.Linear(d_model, n_heads * D, bias=False)
        self.k_proj = nn.Linear(d_model, n_kv_heads * D, bias=False)
        self.v_proj = nn.Linear(d_model, n_kv_heads * D, bias=False)
        self.o_proj = nn.Linear(n_heads * D, d_model, bias=False)
    def forward(self, x, mask=None):
        B, T, _ = x.shape
        q = self.q_proj(x).view(B, T, self.n_heads, self.head_dim).transpose(1, 2)
        k = self.k_proj(x).view(B, T, self.n_kv_heads, self.head_dim).transpose(1, 2)
        v = self.v_proj(x).view(B, T, self.n_kv_heads, self.head_dim).transpose(1, 2)
        k = k.repeat_interleave(self.n_heads // self.n_kv_heads, 1)
        v = v.repeat_interleave(self.n_heads // self.n_kv_heads, 1)
        if mask is None:
            mask = torch.ones(T, T, dtype=torch.bool).tril()
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        out = out.masked_fill(~mask.any(-1, keepdim=True), 0.0)
        return self.o_proj(out.transpose(1, 2).reshape(B, T, -1))
"""
GQA_EINSUM = (
    GQA.replace("k = k.repeat_interleave(self.n_heads // self.n_kv_heads, 1)", "G = self.n_heads // self.n_kv_heads")
    .replace("v = v.repeat_interleave(self.n_heads // self.n_kv_heads, 1)", "q = q.unflatten(1, (-1, G))")
    .replace(
        "out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)",
        "s = torch.einsum('bkgtd,bksd->bkgts', q, k).flatten(1, 2) / self.head_dim ** 0.5\n"
        "        w = s.masked_fill(~mask, -torch.inf).softmax(-1).nan_to_num()\n"
        "        out = torch.einsum('bkgts,bksd->bkgtd', w.unflatten(1, (-1, G)), v).flatten(1, 2)",
    )
)
ROPE = """
import torch
def rope(x, positions, theta=10000.0):
    D = x.shape[-1]
    inv = 1.0 / theta ** (torch.arange(0, D, 2).float() / D)
    angles = torch.cat([positions[:, None] * inv] * 2, -1)
    rotated = torch.cat((-x[..., D // 2:], x[..., :D // 2]), -1)
    return x * angles.cos() + rotated * angles.sin()
"""
ROPE_COMPLEX = """
import torch
def rope(x, positions, theta=10000.0):
    D = x.shape[-1]
    angles = positions.double()[:, None] * theta ** (-2 * torch.arange(D // 2).double() / D)
    z = torch.complex(x[..., : D // 2].double(), x[..., D // 2 :].double())
    z = z * torch.polar(torch.ones(()).double(), angles)
    return torch.cat((z.real, z.imag), -1).to(x.dtype)
"""
RMS = "def rms_norm(x, weight, eps=1e-6):\n    return weight * x / (x.pow(2).mean(-1, keepdim=True) + eps).sqrt()\n"
RMS_FUSED = (
    "import torch.nn.functional as F\n"
    "def rms_norm(x, weight, eps=1e-6):\n    return F.rms_norm(x, weight.shape, weight, eps)\n"
)
SWIGLU = """
def swiglu(x, gate, up, down):
    a = x @ gate.T
    return (a / (1 + (-a).exp()) * (x @ up.T)) @ down.T
"""
CACHE = (
    ROPE
    + """
import torch.nn.functional as F
class Cache:
    def __init__(self):
        self.k, self.v = [], []
    def add(self, k, v):
        self.k.append(k); self.v.append(v)
        return torch.cat(self.k, 2), torch.cat(self.v, 2)
    def __len__(self):
        return sum(k.shape[2] for k in self.k)
    @property
    def nbytes(self):
        return sum(t.numel() * t.element_size() for t in self.k + self.v)
def decode_step(x, cache, q_proj, k_proj, v_proj, o_proj, n_heads, n_kv_heads, theta=10000.0):
    B, T, C = x.shape
    past, D = len(cache), q_proj.shape[0] // n_heads
    split = lambda w, n: (x @ w.T).view(B, T, n, D).transpose(1, 2)
    q, k, v = split(q_proj, n_heads), split(k_proj, n_kv_heads), split(v_proj, n_kv_heads)
    at = torch.arange(past, past + T)
    k, v = cache.add(rope(k, at, theta), v)
    mask = torch.arange(past + T) <= at[:, None]
    out = F.scaled_dot_product_attention(rope(q, at, theta), k, v, attn_mask=mask, enable_gqa=True)
    return out.transpose(1, 2).reshape(B, T, -1) @ o_proj.T
"""
)
BLOCK = (
    GQA
    + RMS
    + """
class Norm(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(n))
    def forward(self, x):
        return rms_norm(x, self.weight)
class FeedForward(nn.Module):
    def __init__(self, n, m):
        super().__init__()
        self.gate_proj, self.up_proj = nn.Linear(n, m, bias=False), nn.Linear(n, m, bias=False)
        self.down_proj = nn.Linear(m, n, bias=False)
    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))
class Block(nn.Module):
    def __init__(self, d_model, n_heads, n_kv_heads, d_ff):
        super().__init__()
        self.attn, self.ffn = GroupedQueryAttention(d_model, n_heads, n_kv_heads), FeedForward(d_model, d_ff)
        self.attn_norm, self.ffn_norm = Norm(d_model), Norm(d_model)
    def forward(self, x):
        x = x + self.attn(self.attn_norm(x))
        return x + self.ffn(self.ffn_norm(x))
"""
)
TOP_P = """
import torch
def top_p(logits, p):
    probs = torch.softmax(logits, -1)
    out, total = torch.zeros_like(probs), 0.0
    for i in probs.argsort(descending=True).tolist():
        out[i] = probs[i]
        total += float(probs[i])
        if total >= p - 1e-9:
            break
    return out / out.sum()
"""
TOP_P_SORTED = """
import torch
def top_p(logits, p):
    probs, order = logits.softmax(-1).sort(descending=True)
    keep = probs.cumsum(-1) - probs < p
    keep = torch.zeros_like(keep).scatter(-1, order, keep)
    return logits.masked_fill(~keep, float("-inf")).softmax(-1)
"""
MLA = (
    ROPE
    + RMS
    + """
from torch import nn
class Norm(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(n))
class MultiHeadLatentAttention(nn.Module):
    def __init__(self, d_model, n_heads, kv_lora_rank, qk_nope_head_dim, qk_rope_head_dim, v_head_dim):
        super().__init__()
        self.dims = n_heads, kv_lora_rank, qk_nope_head_dim, qk_rope_head_dim, v_head_dim
        H, R, N, P, V = self.dims
        self.q_proj = nn.Linear(d_model, H * (N + P), bias=False)
        self.kv_a_proj = nn.Linear(d_model, R + P, bias=False)
        self.kv_a_norm = Norm(R)
        self.kv_b_proj = nn.Linear(R, H * (N + V), bias=False)
        self.o_proj = nn.Linear(H * V, d_model, bias=False)
    def forward(self, x, mask=None):
        H, R, N, P, V = self.dims
        B, T, _ = x.shape
        at = torch.arange(T)
        if mask is None:
            mask = torch.ones(T, T).tril().bool()
        if mask.ndim == 2:
            mask = mask[None, None]
        both = self.kv_a_proj(x)
        latent = rms_norm(both[..., :R], self.kv_a_norm.weight)
        shared = rope(both[:, None, :, R:], at)[:, 0]
        q, kv = self.q_proj(x), self.kv_b_proj(latent)
        heads = []
        for h in range(H):
            qh, kvh = q[..., h * (N + P):(h + 1) * (N + P)], kv[..., h * (N + V):(h + 1) * (N + V)]
            s = qh[..., :N] @ kvh[..., :N].mT + rope(qh[:, None, :, N:], at)[:, 0] @ shared.mT
            m = mask[:, min(h, mask.shape[1] - 1)]
            w = (s / (N + P) ** 0.5).masked_fill(~m, float("-inf")).softmax(-1)
            heads.append(torch.nan_to_num(w) @ kvh[..., N:])
        return self.o_proj(torch.cat(heads, -1))
"""
)
FLASH = """
import torch
def flash_attention(q, k, v, block, mask=None):
    T, D = q.shape
    S = k.shape[0]
    m, l, o = torch.full((T, 1), -1e30), torch.zeros(T, 1), torch.zeros(T, v.shape[1])
    for a in range(0, S, block):
        b = min(a + block, S)
        s = q @ k[a:b].T / D ** 0.5
        allowed = torch.arange(T)[:, None] >= torch.arange(a, b) if mask is None else mask[:, a:b]
        s.masked_fill_(~allowed, float("-inf"))
        new = torch.maximum(m, s.max(1, keepdim=True).values)
        w, c = s.sub_(new).exp_(), (m - new).exp()
        l, o, m = l * c + w.sum(1, keepdim=True), o * c + w @ v[a:b], new
    return o / l.clamp_min(1e-30)
"""
DELTA = """
import torch
def gated_delta_rule(q, k, v, decay, beta, state=None):
    B, H, T, D = q.shape
    S = torch.zeros(B, H, D, v.shape[-1]) if state is None else state
    out = []
    for t in range(T):
        kt, vt, qt = k[:, :, t], v[:, :, t], q[:, :, t]
        S = S * decay[:, :, t, None, None]
        old = torch.einsum("bhdv,bhd->bhv", S, kt)
        new = beta[:, :, t, None] * (vt - old)
        S = S + torch.einsum("bhd,bhv->bhdv", kt, new)
        out.append(torch.einsum("bhdv,bhd->bhv", S, qt) / D ** 0.5)
    return torch.stack(out, 2), S
"""
SPARSE = """
import torch
def sparse_attention(q, k, v, index_q, index_k, index_weights, top_k, mask=None):
    B, H, T, D = q.shape
    S, G = k.shape[2], H // k.shape[1]
    if mask is None:
        mask = torch.ones(T, S).tril().bool()
    if mask.ndim == 2:
        mask = mask[None, None]
    index = torch.einsum("bite,bse->bits", index_q, index_k).clamp(min=0)
    index = torch.einsum("bits,bti->bts", index, index_weights)
    index = index.masked_fill(~mask[:, 0], float("-inf"))
    order = index.sort(dim=-1, descending=True, stable=True).indices
    kept = torch.zeros(B, T, S, dtype=torch.bool).scatter(-1, order[..., :top_k], True)
    mask = kept[:, None] & mask
    scores = q @ k.repeat_interleave(G, 1).mT / D ** 0.5
    w = scores.masked_fill(~mask, float("-inf")).softmax(-1)
    return torch.nan_to_num(w) @ v.repeat_interleave(G, 1)
"""
ANSWERS = {
    "attention": (ATTENTION_LOOPS, ATTENTION_FUSED, ATTENTION_DOUBLE),
    "self-attention": (SELF,),
    "mha": (MHA_LIST,),
    "gqa": (GQA, GQA_EINSUM),
    "rope": (ROPE, ROPE_COMPLEX),
    "rms-norm": (RMS, RMS_FUSED),
    "swiglu": (SWIGLU,),
    "cache": (CACHE,),
    "block": (BLOCK,),
    "top-p": (TOP_P, TOP_P_SORTED),
    "mla": (MLA,),
    "flash": (FLASH,),
    "delta": (DELTA,),
    "sparse": (SPARSE,),
}
