"""Typical mistakes: for each task and diagnosis, right solutions with what is replaced, by what."""

from tests.practice.answers import (
    ATTENTION_DOUBLE,
    ATTENTION_FUSED,
    BLOCK,
    CACHE,
    FLASH,
    GQA,
    GQA_EINSUM,
    MHA_LIST,
    MLA,
    RMS,
    ROPE,
    ROPE_COMPLEX,
    SELF,
    SWIGLU,
    TOP_P,
    TOP_P_SORTED,
)  # fmt: skip
from tests.practice.diagnosed_delta_sparse import DELTA_MISTAKEN, DELTA_SPARSE_PAIRS, SPARSE_MISTAKEN
from tests.practice.other_answers import (
    ATTENTION_BY_BATCH,
    FLASH_GUARDED,
    FLASH_QUERY_BY_QUERY,
    GQA_LOOPS,
    RMS_DOUBLE,
    ROPE_LOOPS,
)

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
CACHE_COUNTING = CACHE.replace("past, D = len(cache)", "past, D = sum(k.shape[2] for k in cache.k)")
_NO_SCALE = "without the division by √head_dim"
_TRIL_1 = "with tril(1) as causal mask: a token attends to the next one too"
_NAN_ROW = "with NaN for a fully masked query (a row of −∞ before the softmax)"
_AVERAGE = "with the average of all values for a fully masked query (a large negative number instead of −∞)"
_AS_IF_OPEN = (
    "with a fully masked query that attends as if nothing were masked (a large negative number is added to the scores, "
    "the same for all keys)"
)
_ZERO_ONE = "with the mask added to the scores as 0 and 1, so that nothing is masked"
_LAST_AXES = "with transpose(-1, -2) instead of transpose(1, 2) before the heads' output is reshaped to (B, T, C)"
_OVER_TOKENS = "with the mean over the tokens of the sequence instead of the last dimension"
_OVERFLOW = "without subtracting the maximum in the softmax, so that large scores overflow"
_NO_O = "without o_proj: the concatenated heads are returned"
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
    # what a fully masked query gets
    ("attention", _NAN_ROW): [
        (ATTENTION_DOUBLE, "torch.nan_to_num(w)", "w"),
        (ATTENTION_BY_BATCH, "torch.where(weights.isnan(), torch.zeros_like(weights), weights)", "weights"),
    ],
    ("attention", _AVERAGE): [
        (ATTENTION_DOUBLE, 'float("-inf")', "-1e9"),
        (ATTENTION_BY_BATCH, 'float("-inf")', "-1e9"),
        (ATTENTION_BY_BATCH, 'float("-inf")', "torch.finfo(torch.float32).min"),
    ],
    ("attention", _AS_IF_OPEN): [
        (ATTENTION_BY_BATCH, 'float("-inf")', "-1e4"),
        (ATTENTION_DOUBLE, 'masked_fill(~mask, float("-inf"))', "add((1.0 - mask.double()) * -1e9)"),
    ],
    ("self-attention", _NAN_ROW): [(SELF, "torch.nan_to_num", "")],
    ("mha", _NAN_ROW): [(MHA_LIST, "torch.nan_to_num(w)", "w")],
    ("mha", _AVERAGE): [(MHA_LIST, 'float("-inf")', "-1e9")],
    ("gqa", _AVERAGE): [(GQA_LOOPS, " * m.any(-1, keepdim=True)", "")],
    ("mla", _NAN_ROW): [(MLA, "torch.nan_to_num(w)", "w")],
    ("mla", _AVERAGE): [(MLA, 'float("-inf")', "-1e9")],
    # a mask
    ("attention", _ZERO_ONE): [
        (ATTENTION_DOUBLE, 'masked_fill(~mask, float("-inf"))', "add(mask.float())"),
        (ATTENTION_DOUBLE, 'masked_fill(~mask, float("-inf")).softmax(-1)',
         "add(mask.float()).softmax(-1) * mask.any(-1, keepdim=True)"),
    ],
    ("gqa", _ZERO_ONE): [(GQA, "attn_mask=mask)", "attn_mask=mask.float())")],
    ("attention", "with the mask of the first sequence for all of the batch"): [
        (ATTENTION_DOUBLE, "(~mask,", "(~(mask if mask.ndim < 4 else mask[:1]),"),
    ],
    ("mha", "with the mask of the first head for all heads"): [(MHA_LIST, "min(h, m.shape[1] - 1)", "0")],
    # scale, heads
    ("self-attention", "with scores divided by √d_in instead of √d_out"): [(SELF, "q.shape[-1]", "x.shape[-1]")],
    ("mha", "with scores divided by √d_model instead of √head_dim"): [(MHA_LIST, "q.shape[-1]", "x.shape[-1]")],
    ("gqa", _LAST_AXES): [(GQA, "out.transpose(1, 2)", "out.transpose(-1, -2)")],
    ("block", _LAST_AXES): [(BLOCK, "out.transpose(1, 2)", "out.transpose(-1, -2)")],
    ("cache", _LAST_AXES): [(CACHE, "out.transpose(1, 2)", "out.transpose(-1, -2)")],
    ("gqa", "with reshape(B, T, C) of the heads' output without transpose(1, 2) first"): [
        (GQA, "out.transpose(1, 2)", "out"),
    ],
    ("mha", "with the heads' outputs interleaved instead of one after another when they are merged"): [
        (MHA_LIST, "torch.cat(heads, -1)", "torch.stack(heads, -1).flatten(2)"),
    ],
    # RoPE
    ("rope", "with the exponent −2(i − 1) / D for i = 0, 1, …: the paper counts i from 1"): [
        (ROPE, "torch.arange(0, D, 2)", "(torch.arange(0, D, 2) - 2)"),
        (ROPE_LOOPS.replace("-2 * i / D)), math", "-2 * (i - 1) / D)), math"), "-2 * i / D))", "-2 * (i - 1) / D))"),
    ],
    ("rope", "with positions that start at −1"): [(ROPE, "positions[:, None]", "(positions - 1)[:, None]")],
    ("rope", "with theta = 10,000, ignoring the argument theta"): [(ROPE, "1.0 / theta", "1.0 / 10000.0")],
    # norms
    ("rms-norm", "without eps"): [(RMS, " + eps", ""), (RMS_DOUBLE, " + eps", "")],
    ("rms-norm", _OVER_TOKENS): [
        (RMS, "mean(-1, keepdim=True)", "mean(-2, keepdim=True)"),
        (RMS, "mean(-1, keepdim=True)", "mean(1, keepdim=True)"),
    ],
    ("rms-norm", "with the mean over all numbers of x instead of the last dimension of each token"): [
        (RMS, "mean(-1, keepdim=True)", "mean()"),
    ],
    ("rms-norm", "with eps = 1e-5 by default instead of 1e-6"): [(RMS, "eps=1e-6", "eps=1e-5")],
    ("rms-norm", "with eps as the least root, instead of added to the mean of squares"): [
        (RMS, "+ eps).sqrt()", ").sqrt().clamp_min(eps)"),
    ],
    ("block", "without eps in both norms"): [(BLOCK, " + eps", "")],
    ("block", "with eps = 1e-05 in both norms instead of 1e-6"): [(BLOCK, "1e-6", "1e-5")],
    ("block", "with eps = 1e-05 in ffn_norm instead of 1e-6"): [
        (BLOCK, "Norm(d_model), Norm(d_model)", "Norm(d_model), nn.RMSNorm(d_model, eps=1e-5)"),
    ],
    ("block", "with nn.RMSNorm's default eps (1.2e-7) instead of 1e-6"): [
        (BLOCK, "Norm(d_model), Norm(d_model)", "nn.RMSNorm(d_model), nn.RMSNorm(d_model)"),
    ],
    ("block", "with the mean of each norm over the tokens of the sequence instead of the last dimension"): [
        (BLOCK, "mean(-1, keepdim=True)", "mean(1, keepdim=True)"),
    ],
    ("block", "with the block's input as the second residual, so that the attention's output is not added"): [
        (BLOCK, "x = x + self.attn(self.attn_norm(x))\n        return x + self.ffn(self.ffn_norm(x))",
         "y = x + self.attn(self.attn_norm(x))\n        return x + self.ffn(self.ffn_norm(y))"),
    ],
    ("mla", "without eps in kv_a_norm"): [
        (MLA, "self.kv_a_norm.weight)\n", "self.kv_a_norm.weight, 0.0)\n"),
    ],
    # what is left out, or taken for something else
    ("attention", _OVERFLOW): [
        (ATTENTION_DOUBLE, 'masked_fill(~mask, float("-inf")).softmax(-1)',
         'masked_fill(~mask, float("-inf")).exp(); w = w / w.sum(-1, keepdim=True)'),
    ],
    ("gqa", _OVERFLOW): [
        (GQA_EINSUM, ".softmax(-1).nan_to_num()", ".exp(); w = (w / w.sum(-1, keepdim=True)).nan_to_num()"),
    ],
    ("self-attention", "with the keys in place of the values"): [(SELF, ".softmax(-1)) @ v", ".softmax(-1)) @ k")],
    ("gqa", "with the keys in place of the values"): [(GQA, "_attention(q, k, v,", "_attention(q, k, k,")],
    ("cache", "with the keys in place of the values"): [(CACHE, "at, theta), k, v,", "at, theta), k, k,")],
    ("gqa", _NO_O): [(GQA, "return self.o_proj(out.transpose(1, 2).reshape(B, T, -1))",
                      "return out.transpose(1, 2).reshape(B, T, -1)")],
    ("block", _NO_O): [(BLOCK, "return self.o_proj(out.transpose(1, 2).reshape(B, T, -1))",
                        "return out.transpose(1, 2).reshape(B, T, -1)")],
    ("cache", "without RoPE"): [(CACHE.replace("rope(q, at, theta)", "q"), "rope(k, at, theta)", "k")],
    ("cache", "without RoPE on the keys: only the queries are rotated"): [(CACHE, "rope(k, at, theta)", "k")],
    ("cache", "without RoPE on the queries: only the keys are rotated"): [(CACHE, "rope(q, at, theta)", "q")],
    ("cache", "with each pair rotated in the opposite direction"): [
        (CACHE, "angles = torch.cat([positions", "angles = torch.cat([-positions"),
    ],
    ("cache", _NO_SCALE): [(CACHE, "enable_gqa=True", "enable_gqa=True, scale=1.0")],
    ("mla", "with nn.RMSNorm's default eps (1.2e-7) instead of 1e-6"): [(MLA, "eps=1e-6", "eps=torch.finfo().eps")],
    ("mla", "with the rotated dimensions first in each head of q_proj"): [
        (MLA, _Q, "torch.cat((q.unflatten(-1, (H, -1))[:, :, h, P:], q.unflatten(-1, (H, -1))[:, :, h, :P]), -1)"),
    ],
    ("mla", "with the RoPE key before the latent in kv_a_proj"): [
        (MLA, "both = self.kv_a_proj(x)",
         "both = self.kv_a_proj(x); both = torch.cat((both[..., P:], both[..., :P]), -1)"),
    ],
    ("mla", "with each pair rotated in the opposite direction"): [
        (MLA, "at = torch.arange(T)", "at = -torch.arange(T)"),
    ],
    ("rope", "without a rotation: x is returned unchanged"): [
        (ROPE, "return x * angles.cos() + rotated * angles.sin()", "return x"),
    ],
    ("rope", "with the exponent −4i / D instead of −2i / D"): [(ROPE, "float() / D)", "float() / (D // 2))")],
    ("rope", "with pairs (i, i + D / 2), but the result in the order of the interleaved layout: a mix of both"): [
        (ROPE_COMPLEX, "torch.cat((z.real, z.imag), -1)", "torch.stack((z.real, z.imag), -1).flatten(-2)"),
    ],
    ("block", "with the attention's residual normalised: x = norm(x) before x + attention(x)"): [
        (BLOCK, "x = x + self.attn(self.attn_norm(x))", "x = self.attn_norm(x)\n        x = x + self.attn(x)"),
    ],
    ("block", "with the feed-forward's residual normalised: x = norm(x) before x + SwiGLU(x)"): [
        (BLOCK, "return x + self.ffn(self.ffn_norm(x))", "x = self.ffn_norm(x)\n        return x + self.ffn(x)"),
    ],
    ("block", "with attn_norm and ffn_norm swapped"): [
        (BLOCK, "self.attn(self.attn_norm(x))\n        return x + self.ffn(self.ffn_norm(x))",
         "self.attn(self.ffn_norm(x))\n        return x + self.ffn(self.attn_norm(x))"),
    ],
    ("block", "with ReLU instead of SiLU, which is ReGLU"): [(BLOCK, "F.silu", "F.relu")],
    ("block", "with the tanh form of GELU instead of SiLU"): [
        (BLOCK, "F.silu(self.gate_proj(x))", "F.gelu(self.gate_proj(x), approximate='tanh')"),
    ],
    ("block", "without an activation, which is a bilinear layer"): [(BLOCK, "F.silu", "")],
    # the cache
    ("cache", "with a cache that stays empty: keys and values are never stored"): [
        (CACHE, "self.k.append(k); self.v.append(v)\n        return torch.cat(self.k, 2), torch.cat(self.v, 2)",
         "return torch.cat(self.k + [k], 2), torch.cat(self.v + [v], 2)"),
    ],
    ("cache", "with keys and values that are stored, but never read: a step attends only to its own tokens"): [
        (CACHE.replace("mask = torch.arange(past + T) <= at[:, None]", "mask = torch.ones(T, T).tril().bool()"),
         "return torch.cat(self.k, 2), torch.cat(self.v, 2)", "return k, v"),
    ],
    ("cache", "with one store for all caches: a class attribute or a mutable default argument"): [
        (CACHE, "def __init__(self):\n        self.k, self.v = [], []", "k, v = [], []"),
        (CACHE, "def __init__(self):\n        self.k, self.v = [], []",
         "def __init__(self, k=[], v=[]):\n        self.k, self.v = k, v"),
    ],
    ("cache", "without the batch in nbytes"): [(CACHE, "t.numel() *", "t[0].numel() *")],
    ("cache", "with half of the bytes in nbytes: keys without values, or 2 bytes per number instead of 4"): [
        (CACHE, "for t in self.k + self.v)", "for t in self.k)"),
        (CACHE, "t.numel() * t.element_size()", "t.numel() * 2"),
    ],
    ("cache", "with the number of numbers in nbytes, without their 4 bytes each"): [
        (CACHE, "t.numel() * t.element_size()", "t.numel()"),
    ],
    ("cache", "with the number of steps in len(cache) instead of the number of tokens"): [
        (CACHE_COUNTING, "return sum(k.shape[2] for k in self.k)", "return len(self.k)"),
    ],
    ("cache", "with theta = 10,000, ignoring the argument theta"): [
        (CACHE.replace("rope(k, at, theta)", "rope(k, at)"), "rope(q, at, theta)", "rope(q, at)"),
    ],
    # flash
    ("flash", "with NaN for a fully masked query: 0 / 0"): [
        (FLASH, "l.clamp_min(1e-30)", "l"),
        (FLASH_GUARDED, "torch.where(total[:, None] > 0, out / total[:, None], torch.zeros_like(out))",
         "out / total[:, None]"),
    ],
    ("flash", _AVERAGE): [
        (FLASH, 'float("-inf")', "-1e9"),
        (FLASH_GUARDED, '~seen, float("-inf")', "~seen, -1e9"),
    ],
    ("flash", "with NaN where the first tile of a query is fully masked: −∞ − (−∞) in the running maximum"): [
        (FLASH, "-1e30), torch", "-torch.inf), torch"),
    ],
    ("flash", "with zeros where the first tile of a query is fully masked: the query is given up, or NaN "
     "replaced by 0"): [
        (FLASH_GUARDED, 'torch.where(higher == float("-inf"), torch.zeros_like(higher), higher)', "higher"),
        (FLASH_QUERY_BY_QUERY, "                continue\n", "                break\n"),
    ],
    ("flash", "with a maximum above a query's own scores (it starts at 0 instead of −∞, or all queries share one), "
     "so that the weights of very negative scores become 0"): [
        (FLASH, "torch.full((T, 1), -1e30)", "torch.zeros(T, 1)"),
        (FLASH, "torch.maximum(m, s.max(1, keepdim=True).values)", "torch.maximum(m, s.max())"),
    ],
    ("flash", "without subtracting the maximum, so that large scores overflow"): [
        (FLASH, "torch.maximum(m, s.max(1, keepdim=True).values)", "torch.zeros(T, 1)"),
    ],
    ("swiglu", "with NaN for large gates: exp(a) / (1 + exp(a)) overflows"): [
        (SWIGLU, "a / (1 + (-a).exp())", "a * a.exp() / (1 + a.exp())"),
    ],
    **DELTA_MISTAKEN,
    **SPARSE_MISTAKEN,
}  # fmt: skip

# Dropout that eval() does not switch off: something is random.
RANDOM = {
    "attention": (ATTENTION_FUSED, "attn_mask=mask)", "attn_mask=mask, dropout_p=0.1)"),
    "mha": (MHA_LIST, "torch.nan_to_num(w)", "torch.nn.functional.dropout(torch.nan_to_num(w), 0.1)"),
    "gqa": (GQA, "attn_mask=mask)", "attn_mask=mask, dropout_p=0.1)"),
    "block": (BLOCK, "self.ffn(self.ffn_norm(x))", "F.dropout(self.ffn(self.ffn_norm(x)), 0.1)"),
    "mla": (MLA, "torch.cat(heads, -1)", "torch.nn.functional.dropout(torch.cat(heads, -1), 0.1)"),
    "flash": (FLASH, "w @ v[a:b]", "torch.nn.functional.dropout(w, 0.1) @ v[a:b]"),
}  # fmt: skip

# Two mistakes in one file: the task, both explanations, a right solution and what is replaced, by what.
PAIRS = (
    ("attention", _NO_SCALE, _NAN_ROW, ATTENTION_DOUBLE, "/ q.size(-1) ** 0.5", "", "torch.nan_to_num(w)", "w"),
    ("attention", _AVERAGE, _TRIL_1, ATTENTION_DOUBLE, 'float("-inf")', "-1e9",
     "bool), 1)", "bool), 2)"),
    ("mha", "with scores divided by √d_model instead of √head_dim", _NAN_ROW, MHA_LIST,
     "q.shape[-1]", "x.shape[-1]", "torch.nan_to_num(w)", "w"),
    ("gqa", "with the KV heads tiled (0 1 0 1) instead of interleaved (0 0 1 1)", _LAST_AXES, GQA,
     f"k = k.repeat_interleave({_TIMES}, 1)\n        v = v.repeat_interleave({_TIMES}, 1)",
     f"k = k.repeat(1, {_TIMES}, 1, 1)\n        v = v.repeat(1, {_TIMES}, 1, 1)",
     "out.transpose(1, 2)", "out.transpose(-1, -2)"),
    ("gqa", "without a causal mask if mask is None", _AVERAGE, GQA_LOOPS, "bool).tril()", "bool)",
     " * m.any(-1, keepdim=True)", ""),
    ("rope", "with theta = 10,000, ignoring the argument theta", "with positions that start at 1", ROPE,
     "1.0 / theta", "1.0 / 10000.0", "positions[:, None]", "(positions + 1)[:, None]"),
    ("rms-norm", "without eps", "without the weight", RMS, " + eps", "", "weight * x", "x"),
    ("cache", "with theta = 10,000, ignoring the argument theta", "without the batch in nbytes",
     CACHE, "past, D = len(cache)", "theta, past, D = 10000.0, len(cache)", "t.numel() *", "t[0].numel() *"),
    ("cache", "with queries whose positions restart at 0 in every step, but not those of the keys", _LAST_AXES,
     CACHE, "<= at[:, None]", "<= at[:, None]; at = torch.arange(T)",
     "out.transpose(1, 2)", "out.transpose(-1, -2)"),
    ("block", "without the residual connection of the feed-forward", "without eps in both norms", BLOCK,
     "return x + self.ffn", "return self.ffn", " + eps", ""),
    ("top-p", "with one token too many", "without renormalising the remaining probabilities", TOP_P_SORTED,
     "keep = torch.zeros_like", "keep[1:] |= keep[:-1].clone()\n    keep = torch.zeros_like",
     'logits.masked_fill(~keep, float("-inf")).softmax(-1)', "logits.softmax(-1) * keep"),
    ("mla", "without RMSNorm of the latent", "with tril(1) as causal mask: a token attends to the next one too", MLA,
     "rms_norm(both[..., :R], self.kv_a_norm.weight)", "both[..., :R]", "tril()", "tril(1)"),
    ("flash", "without the division by √D", "with NaN for a fully masked query: 0 / 0", FLASH, "/ D ** 0.5", "",
     "l.clamp_min(1e-30)", "l"),
    ("swiglu", "with gate and up swapped", "with GELU instead of SiLU, which is GEGLU", SWIGLU,
     "a = x @ gate.T", "gate, up = up, gate; a = x @ gate.T", "a / (1 + (-a).exp())",
     "a * (1 + (a / 2**0.5).erf()) / 2"),
    *DELTA_SPARSE_PAIRS,
)  # fmt: skip
