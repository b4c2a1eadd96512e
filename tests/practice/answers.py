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
}

# Typical mistakes: for each task and diagnosis, right solutions with what is replaced, by what.
_TIMES = "self.n_heads // self.n_kv_heads"
_CAUSAL = "mask = ~torch.triu(torch.ones(q.size(2), k.size(2), dtype=torch.bool), 1)"
_IF_NONE = f"if mask is None:\n        {_CAUSAL}"
_SWAPPED = "with q and k swapped in the scores: k · qᵀ instead of q · kᵀ"
_IGNORED = "with the causal mask always, ignoring the argument mask"
_QUERIES = "with the softmax over the queries instead of the keys"
_ZERO = "with scores of 0 instead of −∞ for masked keys, so that they keep a weight"
_LATER = "with triu() as causal mask: a token attends to itself and later ones"
_ADD = "k, v = cache.add(rope(k, at, theta), v)"
_AGAIN = "k = rope(k, torch.arange(past + T), theta)"
_KEY_ROPE = "rope(both[:, None, :, R:], at)[:, 0]"
_KV, _Q = "kv[..., h * (N + V):(h + 1) * (N + V)]", "q[..., h * (N + P):(h + 1) * (N + P)]"
_APART = "with head h in columns h, h + H, …, instead of columns that lie together"
_VIEW = "with view(B, H, T, D) of the projections instead of view(B, T, H, D) and transpose(1, 2)"
MISTAKEN = {
    ("top-p", "with one more token if the sum equals p: <= p instead of < p"): [
        (TOP_P_SORTED, "probs < p", "probs <= p"),
        (TOP_P, ">= p - 1e-9", "> p"),
    ],
    ("top-p", "without the token at which the sum exceeds p"): [
        (TOP_P_SORTED, "- probs < p", "<= p"),
        (TOP_P_SORTED, "- probs < p", "<= p; keep[0] = True"),
    ],
    ("top-p", "without the token at which the sum reaches p"): [
        (TOP_P_SORTED, "- probs < p", "< p"),
        (TOP_P_SORTED, "- probs < p", "< p; keep[0] = True"),
    ],
    ("top-p", "with every token as probable as the last one kept"): [
        (TOP_P_SORTED, "keep = torch.zeros_like(keep).scatter(-1, order, keep)",
         "keep = logits.softmax(-1) >= probs[keep].min()"),
    ],
    ("top-p", "with the least probable tokens kept first"): [(TOP_P_SORTED, "sort(descending=True)", "sort()")],
    ("top-p", "with logits of 0 instead of −∞ for removed tokens before the softmax"): [
        (TOP_P_SORTED, 'float("-inf")', "0.0"),
    ],
    ("flash", "without rescaling the output when a later tile has a larger maximum: only the sum is rescaled"): [
        (FLASH, "o * c + w", "o + w"),
    ],
    ("flash", "without rescaling the sum when a later tile has a larger maximum: only the output is rescaled"): [
        (FLASH, "l * c + w", "l + w"),
    ],
    ("flash", "without rescaling the sum and the output when a later tile has a larger maximum"): [
        (FLASH, "(m - new).exp()", "1.0"),
    ],
    ("flash", "with a causal mask that starts at key 0 in every tile, without the tile's offset"): [
        (FLASH, "torch.arange(a, b)", "torch.arange(b - a)"),
    ],
    ("attention", _IGNORED): [
        (ATTENTION_FUSED, "if mask is None:", "if True:"),
        (ATTENTION_DOUBLE, "if mask is None:", "if True:"),
        (ATTENTION_DOUBLE, _IF_NONE, "mask = torch.ones(q.size(2), q.size(2)).tril().bool()"),
        (ATTENTION_DOUBLE, _IF_NONE, "mask = torch.ones(k.size(2), k.size(2)).tril().bool()[-q.size(2):]"),
    ],
    ("gqa", _IGNORED): [(GQA, "if mask is None:", "if True:"), (GQA_EINSUM, "if mask is None:", "if True:")],
    ("attention", "with tril(-1) as causal mask: a token does not attend to itself"): [
        (ATTENTION_DOUBLE, _CAUSAL, "mask = torch.ones(q.size(2), k.size(2)).tril(-1).bool()"),
    ],
    ("attention", "with tril(1) as causal mask: a token attends to the next one too"): [
        (ATTENTION_DOUBLE, _CAUSAL, "mask = torch.ones(q.size(2), k.size(2)).tril(1).bool()"),
    ],
    ("attention", _LATER): [(ATTENTION_DOUBLE, _CAUSAL, "mask = torch.ones(q.size(2), k.size(2)).triu().bool()")],
    ("mha", _LATER): [(MHA_LIST, "tril()", "triu()")],
    ("attention", _ZERO): [
        (ATTENTION_DOUBLE, 'float("-inf")', "0.0"),
        (ATTENTION_DOUBLE, 'float("-inf")).softmax(-1)',
         "0.0).softmax(-1).masked_fill(~mask.any(-1, keepdim=True), 0)"),
    ],
    ("attention", _SWAPPED): [(ATTENTION_DOUBLE, '"bhtd,bhsd->bhts", q, k', '"bhtd,bhsd->bhts", k, q')],
    ("gqa", _SWAPPED): [(GQA_EINSUM, "bksd->bkgts', q, k", "bksd->bkgst', q, k")],
    ("attention", "with the softmax over the heads instead of the keys"): [
        (ATTENTION_DOUBLE, "softmax(-1)", "softmax(1)"),
        (ATTENTION_DOUBLE.replace("torch.nan_to_num(w)", "w"), "softmax(-1)", "softmax(1)"),
    ],
    ("attention", _QUERIES): [(ATTENTION_DOUBLE, "softmax(-1)", "softmax(-2)")],
    ("gqa", _QUERIES): [
        (GQA_EINSUM, "softmax(-1)", "softmax(-2)"),
        (GQA_EINSUM, "softmax(-1).nan_to_num()", "softmax(-2)"),
        (GQA_EINSUM, "softmax(-1).nan_to_num()", "softmax(-2).masked_fill(~mask.any(-1, keepdim=True), 0)"),
    ],
    ("gqa", "with the values tiled (0 1 0 1), but the keys interleaved (0 0 1 1)"): [
        (GQA, f"v.repeat_interleave({_TIMES}, 1)", f"v.repeat(1, {_TIMES}, 1, 1)"),
    ],
    ("gqa", "with the keys tiled (0 1 0 1), but the values interleaved (0 0 1 1)"): [
        (GQA, f"k.repeat_interleave({_TIMES}, 1)", f"k.repeat(1, {_TIMES}, 1, 1)"),
    ],
    ("cache", "with cached keys rotated again each time they are read"): [
        (CACHE, _ADD, f"{_ADD}\n    if past:\n        {_AGAIN}"),
        (CACHE, _ADD, f"{_ADD}; k = torch.cat((rope(k[:, :, :past], torch.arange(past), theta), k[:, :, past:]), 2)"),
    ],
    ("cache", "with cached keys rotated on every read and stored back, so that the rotation accumulates"): [
        (CACHE, _ADD, f"k, v = cache.add(k, v); {_AGAIN}; cache.k = [k]"),
        (CACHE, _ADD, f"{_ADD}; {_AGAIN}; cache.k = [k]"),
        (CACHE, _ADD, f"{_ADD}\n    if past:\n        {_AGAIN}; cache.k = [k]"),
    ],
    ("mla", "without RoPE on the shared key: only q is rotated"): [(MLA, _KEY_ROPE, "both[..., R:]")],
    ("mla", "with the value before the key in each head of kv_b_proj"): [
        (MLA.replace("kvh[..., :N]", "kvh[..., V:]"), "kvh[..., N:]", "kvh[..., :V]"),
    ],
    ("mla", "with the keys of all heads before the values of all heads in kv_b_proj"): [
        (MLA, _KV, "torch.cat((kv[..., h * N:(h + 1) * N], kv[..., H * N + h * V:H * N + (h + 1) * V]), -1)"),
    ],
    ("mla", _APART): [(MLA.replace(_Q, "q[..., h::H]"), _KV, "kv[..., h::H]")],
    ("mla", f"{_APART}: only in kv_b_proj"): [(MLA, _KV, "kv[..., h::H]")],
    ("mla", _VIEW): [(MLA.replace(_Q, "q.reshape(B, H, T, -1)[:, h]"), _KV, "kv.reshape(B, H, T, -1)[:, h]")],
    ("mla", f"{_VIEW}: only in kv_b_proj"): [(MLA, _KV, "kv.reshape(B, H, T, -1)[:, h]")],
}  # fmt: skip
