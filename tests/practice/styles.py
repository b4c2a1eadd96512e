"""Right solutions in the styles that people write: weights read instead of modules called, views, in place, float64."""

from tests.practice.styles_delta_sparse import DELTA_SPARSE

HEAD = """
import math, torch
import torch.nn.functional as F
from torch import nn

def attended(q, k, v, mask):  # q (B, H, T, D), k and v (B, H, S, D)
    T = q.shape[2]
    if mask is None:
        mask = torch.ones(T, T, dtype=torch.bool).tril()
    scores = (q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])).masked_fill(~mask, float("-inf"))
    return torch.nan_to_num(scores.softmax(-1)) @ v
"""
GQA_HEAD = (
    HEAD
    + """
class GroupedQueryAttention(nn.Module):
    def __init__(self, d_model, n_heads, n_kv_heads):
        super().__init__()
        self.H, self.K, self.D = n_heads, n_kv_heads, d_model // n_heads
        make = getattr(self, "make", lambda i, o: nn.Linear(i, o, bias=False))
        self.q_proj = make(d_model, n_heads * self.D)
        self.k_proj = make(d_model, n_kv_heads * self.D)
        self.v_proj = make(d_model, n_kv_heads * self.D)
        self.o_proj = make(n_heads * self.D, d_model)
        self.prepare()
    def prepare(self):
        pass
    def heads(self, q, k, v):
        B, T, _ = q.shape
        q, k, v = (t.view(B, T, n, self.D).transpose(1, 2) for t, n in ((q, self.H), (k, self.K), (v, self.K)))
        return q, k.repeat_interleave(self.H // self.K, 1), v.repeat_interleave(self.H // self.K, 1)
    def merged(self, out):
        return out.transpose(1, 2).reshape(out.shape[0], out.shape[2], -1)
"""
)
GQA = {
    "F.linear with the weights": """
    def forward(self, x, mask=None):
        q, k, v = self.heads(*(F.linear(x, p.weight) for p in (self.q_proj, self.k_proj, self.v_proj)))
        return F.linear(self.merged(attended(q, k, v, mask)), self.o_proj.weight)
""",
    "x @ weight.T": """
    def forward(self, x, mask=None):
        q, k, v = self.heads(x @ self.q_proj.weight.T, x @ self.k_proj.weight.T, x @ self.v_proj.weight.T)
        return self.merged(attended(q, k, v, mask)) @ self.o_proj.weight.T
""",
    "einsum with the weights by head": """
    def forward(self, x, mask=None):
        q = torch.einsum("btc,hdc->bhtd", x, self.q_proj.weight.view(self.H, self.D, -1))
        k = torch.einsum("btc,hdc->bhtd", x, self.k_proj.weight.view(self.K, self.D, -1))
        v = torch.einsum("btc,hdc->bhtd", x, self.v_proj.weight.view(self.K, self.D, -1))
        k, v = k.repeat_interleave(self.H // self.K, 1), v.repeat_interleave(self.H // self.K, 1)
        return torch.einsum("bhtd,chd->btc", attended(q, k, v, mask), self.o_proj.weight.view(-1, self.H, self.D))
""",
    "one fused weight": """
    def forward(self, x, mask=None):
        weight = torch.cat([self.q_proj.weight, self.k_proj.weight, self.v_proj.weight])
        q, k, v = F.linear(x, weight).split([self.H * self.D, self.K * self.D, self.K * self.D], -1)
        B, T, _ = x.shape
        q, k, v = (t.reshape(B, T, -1, self.D).transpose(1, 2) for t in (q, k, v))
        k, v = (t[:, :, None].expand(-1, -1, self.H // self.K, -1, -1).flatten(1, 2) for t in (k, v))
        return self.o_proj(self.merged(attended(q, k, v, mask)))
""",
    "custom layers without in_features": """
    class make(nn.Module):
        def __init__(self, i, o):
            super().__init__()
            self.weight = nn.Parameter(torch.empty(o, i))
        def forward(self, x):
            return x @ self.weight.T
    def forward(self, x, mask=None):
        return self.o_proj(self.merged(attended(*self.heads(self.q_proj(x), self.k_proj(x), self.v_proj(x)), mask)))
""",
    "parameters in a ParameterDict": """
    make = staticmethod(lambda i, o: nn.ParameterDict({"weight": torch.empty(o, i)}))
    def forward(self, x, mask=None):
        q, k, v = (x @ p["weight"].mT for p in (self.q_proj, self.k_proj, self.v_proj))
        return self.merged(attended(*self.heads(q, k, v), mask)) @ self.o_proj["weight"].mT
""",
    "a subclass of nn.Linear": """
    class make(nn.Linear):
        def __init__(self, i, o):
            super().__init__(i, o, bias=False)
        def forward(self, x):
            return super().forward(x.double().float())
    def forward(self, x, mask=None):
        return self.o_proj(self.merged(attended(*self.heads(self.q_proj(x), self.k_proj(x), self.v_proj(x)), mask)))
""",
    "views of the transposed weights taken in __init__": """
    def prepare(self):
        self.matrices = [p.weight.detach().T for p in (self.q_proj, self.k_proj, self.v_proj, self.o_proj)]
    def forward(self, x, mask=None):
        q, k, v = (x @ matrix for matrix in self.matrices[:3])
        return self.merged(attended(*self.heads(q, k, v), mask)) @ self.matrices[3]
""",
    "functional_call": """
    def forward(self, x, mask=None):
        call = torch.func.functional_call
        q, k, v = (call(p, dict(p.named_parameters()), (x,)) for p in (self.q_proj, self.k_proj, self.v_proj))
        out = self.merged(attended(*self.heads(q, k, v), mask))
        return call(self.o_proj, {"weight": self.o_proj.weight.clone()}, (out,))
""",
    "float64 inside": """
    def forward(self, x, mask=None):
        q, k, v = (self.heads(*(p(x).double() for p in (self.q_proj, self.k_proj, self.v_proj))))
        return self.o_proj(self.merged(attended(q, k, v, mask)).float())
""",
    "float64 weights, float64 output": """
    def forward(self, x, mask=None):
        x = x.double()
        q, k, v = (x @ p.weight.double().T for p in (self.q_proj, self.k_proj, self.v_proj))
        return self.merged(attended(*self.heads(q, k, v), mask)) @ self.o_proj.weight.double().T
""",
    "numpy inside": """
    def forward(self, x, mask=None):
        import numpy as np
        x = x.numpy()
        q, k, v = (torch.from_numpy(x @ p.weight.detach().numpy().T) for p in (self.q_proj, self.k_proj, self.v_proj))
        out = self.merged(attended(*self.heads(q, k, v), mask)).numpy()
        return torch.from_numpy(out @ self.o_proj.weight.detach().numpy().T)
""",
    "in place": """
    def forward(self, x, mask=None):
        q, k, v = self.heads(self.q_proj(x), self.k_proj(x), self.v_proj(x))
        x.zero_()
        q *= self.D ** -0.5
        scores = q @ k.mT
        T = q.shape[2]
        mask = torch.ones(T, T, dtype=torch.bool).tril() if mask is None else mask
        scores.masked_fill_(~mask, float("-inf")).sub_(scores.amax(-1, keepdim=True).clamp_(min=-1e30)).exp_()
        scores /= scores.sum(-1, keepdim=True).clamp_(min=1e-30)
        return self.o_proj(self.merged(scores @ v))
""",
    "torch's kernel with enable_gqa": """
    def forward(self, x, mask=None):
        B, T, _ = x.shape
        q, k, v = (p(x).view(B, T, -1, self.D).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj))
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None, enable_gqa=True)
        if mask is not None:
            out = out.masked_fill(~mask.any(-1, keepdim=True), 0.0)
        return self.o_proj(self.merged(out))
""",
    "loops over heads and queries": """
    def forward(self, x, mask=None):
        B, T, C = x.shape
        mask = (torch.ones(T, T, dtype=torch.bool).tril() if mask is None else mask).expand(B, self.H, T, T)
        out = torch.zeros(B, T, C)
        for b in range(B):
            for h in range(self.H):
                rows = slice(h * self.D, (h + 1) * self.D)
                g = h // (self.H // self.K)
                shared = slice(g * self.D, (g + 1) * self.D)
                q = x[b] @ self.q_proj.weight[rows].T
                k, v = (x[b] @ p.weight[shared].T for p in (self.k_proj, self.v_proj))
                for t in range(T):
                    seen = mask[b, h, t].nonzero()[:, 0]
                    if len(seen):
                        out[b, t, rows] = ((k[seen] @ q[t]) / self.D ** 0.5).softmax(0) @ v[seen]
        return out @ self.o_proj.weight.T
""",
    "a result that is not contiguous": """
    def forward(self, x, mask=None):
        out = self.o_proj(self.merged(attended(*self.heads(self.q_proj(x), self.k_proj(x), self.v_proj(x)), mask)))
        return out.permute(2, 0, 1).contiguous().permute(1, 2, 0)
""",
    "a tuple of one tensor": """
    def forward(self, x, mask=None):
        return (self.o_proj(self.merged(attended(*self.heads(self.q_proj(x), self.k_proj(x), self.v_proj(x)), mask))),)
""",
    "values multiplied by the output's weight first": """
    def forward(self, x, mask=None):
        q, k, v = self.heads(self.q_proj(x), self.k_proj(x), self.v_proj(x))
        each = self.o_proj.weight.view(-1, self.H, self.D).permute(1, 2, 0)  # (H, D, C)
        return attended(q, k, v @ each, mask).sum(1)
""",
    "queries scored with one absorbed matrix": """
    def forward(self, x, mask=None):
        q = self.q_proj.weight.view(self.H, self.D, -1)
        k = self.k_proj.weight.view(self.K, self.D, -1).repeat_interleave(self.H // self.K, 0)
        scores = torch.einsum("btc,hdc,hde,bse->bhts", x, q, k, x) / self.D ** 0.5
        T = x.shape[1]
        mask = torch.ones(T, T, dtype=torch.bool).tril() if mask is None else mask
        weights = scores.masked_fill(~mask, float("-inf")).softmax(-1).nan_to_num()
        v = self.v_proj(x).unflatten(-1, (self.K, self.D)).transpose(1, 2).repeat_interleave(self.H // self.K, 1)
        return self.o_proj(self.merged(weights @ v))
""",
    "scores written in bfloat16 too": """
    def forward(self, x, mask=None):
        q, k, v = self.heads(self.q_proj(x), self.k_proj(x), self.v_proj(x))
        rough = q.bfloat16() @ k.bfloat16().mT
        return self.o_proj(self.merged(attended(q, k, v, mask)) + 0 * rough.float().sum())
""",
    "under inference_mode, in place": """
    @torch.inference_mode()
    def forward(self, x, mask=None):
        out = self.merged(attended(*self.heads(self.q_proj(x), self.k_proj(x), self.v_proj(x)), mask))
        out *= 2.0
        out /= 2.0
        return self.o_proj(out)
""",
}  # fmt: skip
OTHERS = {
    "attention": {
        "views of q, k and v": """
def attention(q, k, v, mask=None):
    B, H, T, D = q.shape
    scores = torch.bmm(q.view(B * H, T, D), k.view(B * H, -1, D).mT).view(B, H, T, -1) * D ** -0.5
    if mask is None:
        mask = torch.ones(T, T, dtype=torch.bool).tril()
    weights = scores.masked_fill(~mask, float("-inf")).softmax(-1).nan_to_num()
    return torch.bmm(weights.view(B * H, T, -1), v.view(B * H, -1, D)).view(B, H, T, D)
""",
        "in place": """
def attention(q, k, v, mask=None):
    q *= q.shape[-1] ** -0.5
    scores = q @ k.mT
    mask = torch.ones(scores.shape[-2:], dtype=torch.bool).tril() if mask is None else mask
    weights = scores.masked_fill_(~mask, float("-inf")).softmax(-1).nan_to_num_()
    out = weights @ v
    k.zero_(), v.zero_()
    return out
""",
    },
    "self-attention": {
        "weights in float64": """
class SelfAttention(nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        for name in ("q_proj", "k_proj", "v_proj"):
            setattr(self, name, nn.Linear(d_in, d_out, bias=False, dtype=torch.float64))
    def forward(self, x, mask=None):
        q, k, v = (p(x.double())[:, None] for p in (self.q_proj, self.k_proj, self.v_proj))
        return attended(q, k, v, mask)[:, 0]
""",
    },
    "mha": {
        "torch's own function": """
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
            setattr(self, name, nn.Linear(d_model, d_model, bias=False))
    def forward(self, x, mask=None):
        B, T, C = x.shape
        mask = (torch.ones(T, T, dtype=torch.bool).tril() if mask is None else mask).expand(B, self.n_heads, T, T)
        empty = ~mask.any(-1)  # (B, H, T)
        q, k, v = (p(x).view(B, T, self.n_heads, -1).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj))
        out = F.scaled_dot_product_attention(q, k, v, mask | empty[..., None]).masked_fill(empty[..., None], 0)
        return self.o_proj(out.transpose(1, 2).reshape(B, T, C))
""",
    },
    "rope": {
        "float64 out": """
def rope(x, positions, theta=10000.0):
    D = x.shape[-1]
    angles = positions.double()[:, None] * theta ** (-torch.arange(0, D, 2, dtype=torch.float64) / D)
    a, b = x.double().view(*x.shape[:-1], 2, D // 2).unbind(-2)
    return torch.cat((a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()), -1)
""",
        "in place": """
def rope(x, positions, theta=10000.0):
    D = x.shape[-1]
    angles = (positions[:, None].double() * theta ** (-torch.arange(0, D, 2, dtype=torch.float64) / D)).float()
    a, b = x[..., : D // 2].clone(), x[..., D // 2 :].clone()
    x[..., : D // 2] = a * angles.cos() - b * angles.sin()
    x[..., D // 2 :] = b * angles.cos() + a * angles.sin()
    return x
""",
    },
    "rms-norm": {
        "in place": """
def rms_norm(x, weight, eps=1e-6):
    x.mul_(torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps))
    return x.mul_(weight)
""",
    },
    "block": {
        "residual stream in place, weights read": """
class Part(nn.Module):
    def __init__(self, **shapes):
        super().__init__()
        for name, shape in shapes.items():
            part = nn.Module()
            part.weight = nn.Parameter(torch.empty(shape))
            setattr(self, name, part)
class Block(nn.Module):
    def __init__(self, d_model, n_heads, n_kv_heads, d_ff):
        super().__init__()
        self.H, self.K = n_heads, n_kv_heads
        D = d_model // n_heads
        norms = Part(attn_norm=(d_model,), ffn_norm=(d_model,))
        self.attn_norm, self.ffn_norm = norms.attn_norm, norms.ffn_norm
        self.attn = Part(q_proj=(d_model, d_model), k_proj=(n_kv_heads * D, d_model), v_proj=(n_kv_heads * D, d_model),
                         o_proj=(d_model, d_model))
        self.ffn = Part(gate_proj=(d_ff, d_model), up_proj=(d_ff, d_model), down_proj=(d_model, d_ff))
    def forward(self, x):
        B, T, C = x.shape
        y = F.rms_norm(x, (C,), self.attn_norm.weight, 1e-6)
        q, k, v = (F.linear(y, p.weight).view(B, T, -1, C // self.H).transpose(1, 2)
                   for p in (self.attn.q_proj, self.attn.k_proj, self.attn.v_proj))
        k, v = k.repeat_interleave(self.H // self.K, 1), v.repeat_interleave(self.H // self.K, 1)
        x += F.linear(attended(q, k, v, None).transpose(1, 2).reshape(B, T, C), self.attn.o_proj.weight)
        y = F.rms_norm(x, (C,), self.ffn_norm.weight, 1e-6)
        gate, up = (F.linear(y, p.weight) for p in (self.ffn.gate_proj, self.ffn.up_proj))
        x += F.linear(F.silu(gate) * up, self.ffn.down_proj.weight)
        return x
""",
    },
    "flash": {
        "loops over queries and tiles": """
def flash_attention(q, k, v, block, mask=None):
    T, S, D = len(q), len(k), q.shape[1]
    mask = (torch.ones(T, S, dtype=torch.bool).tril() if mask is None else mask).expand(T, S)
    out = torch.zeros(T, v.shape[1])
    for t in range(T):
        largest, total, row = torch.tensor(-1e30), torch.zeros(()), torch.zeros(v.shape[1])
        for first in range(0, S, block):
            part = slice(first, first + block)
            scores = (k[part] @ q[t] / math.sqrt(D)).masked_fill(~mask[t, part], float("-inf"))
            new = torch.maximum(largest, scores.max())
            factor, weights = (largest - new).exp(), (scores - new).exp()
            total, row = total * factor + weights.sum(), row * factor + weights @ v[part]
            largest = new
        if total > 0:
            out[t] = row / total
    return out
""",
    },
    **DELTA_SPARSE,
}  # fmt: skip
STYLES = {
    "gqa": {name: GQA_HEAD + source for name, source in GQA.items()},
    **{task: {name: HEAD + source for name, source in each.items()} for task, each in OTHERS.items()},
}
EACH = [(task, name) for task, each in STYLES.items() for name in each]
