"""Right solutions of the tasks delta and sparse in other styles, without the imports of styles.py."""

DELTA_SPARSE = {
    "delta": {
        "matrix products, the state as in the paper": """
def gated_delta_rule(q, k, v, decay, beta, state=None):
    S = v.new_zeros(*v.shape[:2], v.shape[3], q.shape[3]) if state is None else state.transpose(-2, -1)
    eye, out = torch.eye(q.shape[3]), []
    for t in range(q.shape[2]):
        key, w = k[:, :, t, None], beta[:, :, t, None, None]
        S = S @ (decay[:, :, t, None, None] * (eye - w * key.mT @ key)) + w * v[:, :, t, :, None] @ key
        out.append((S @ q[:, :, t, :, None]).squeeze(-1))
    return torch.stack(out, -2) / math.sqrt(q.shape[3]), S.transpose(-2, -1)
""",
        "a list of what each token wrote": """
def gated_delta_rule(q, k, v, decay, beta, state=None):
    B, H, T, D = q.shape
    state = torch.zeros(B, H, D, v.shape[3]) if state is None else state
    left = torch.cat((torch.ones(B, H, 1), decay), -1).log().cumsum(-1)[..., 1:]  # sums of logarithms
    def seen(x, t, n):  # of the state and of the first n writes, at token t
        out = left[:, :, t, None].exp() * torch.einsum("bhd,bhdv->bhv", x, state)
        for s in range(n):
            share = (left[:, :, t] - left[:, :, s]).exp() * (x * k[:, :, s]).sum(-1)
            out = out + share[..., None] * written[s]
        return out
    written, out = [], []
    for t in range(T):
        written.append(beta[:, :, t, None] * (v[:, :, t] - seen(k[:, :, t], t, t)))
        out.append(seen(q[:, :, t], t, t + 1) / D ** 0.5)
    parts = [(left[:, :, -1] - left[:, :, s]).exp()[..., None, None] * k[:, :, s, :, None] * written[s][:, :, None]
             for s in range(T)]
    return torch.stack(out, 2), left[:, :, -1, None, None].exp() * state + sum(parts)
""",
        "float64 inside, outputs written in place": """
def gated_delta_rule(q, k, v, decay, beta, state=None):
    B, H, T, D = q.shape
    S = torch.zeros(B, H, D, v.shape[3], dtype=torch.float64)
    if state is not None:
        S += state
    out = torch.zeros_like(v)
    for t in range(T):
        S *= decay[:, :, t, None, None]
        old = (k[:, :, t, :, None] * S).sum(2)
        S += k[:, :, t, :, None] * (beta[:, :, t, None] * (v[:, :, t] - old))[:, :, None]
        out[:, :, t] = (q[:, :, t, :, None] * S).sum(2) / D ** 0.5
    return out, S.float()
""",
    },
    "sparse": {
        "top-k in place, scores filled": """
def sparse_attention(q, k, v, index_q, index_k, index_weights, top_k, mask=None):
    B, H, T, D = q.shape
    S, G = k.shape[2], H // k.shape[1]
    mask = (torch.ones(T, S, dtype=torch.bool).tril() if mask is None else mask).expand(B, 1, T, S)
    index = torch.zeros(B, 1, T, S)
    for i in range(index_q.shape[1]):
        index.add_(F.relu(index_q[:, i] @ index_k.mT).mul_(index_weights[..., i, None])[:, None])
    index.masked_fill_(~mask, float("-inf"))
    drop = torch.ones_like(mask)
    drop.scatter_(-1, index.sort(dim=-1, descending=True, stable=True).indices[..., :top_k], False)
    scores = (q.unflatten(1, (-1, G)) @ k[:, :, None].mT).flatten(1, 2).mul_(D ** -0.5)
    scores.masked_fill_(drop | ~mask, float("-inf"))
    weights = scores.softmax(-1).nan_to_num_(0.0)
    return (weights.unflatten(1, (-1, G)) @ v[:, :, None]).flatten(1, 2)
""",
        "gathered keys and values": """
def sparse_attention(q, k, v, index_q, index_k, index_weights, top_k, mask=None):
    B, H, T, D = q.shape
    S, G, n = k.shape[2], H // k.shape[1], min(top_k, k.shape[2])
    mask = torch.ones(T, S, dtype=torch.bool).tril() if mask is None else mask
    mask = mask.expand(B, 1, T, S)[:, 0]
    index = torch.einsum("bits,bti->bts", F.relu(torch.einsum("bite,bse->bits", index_q, index_k)), index_weights)
    index = index.where(mask, torch.tensor(-torch.inf))
    best = index.argsort(dim=-1, descending=True, stable=True)[..., :n]
    some = mask.gather(-1, best)[:, None]
    at = best.reshape(B, 1, T * n, 1)
    keys, values = (x.gather(2, at.expand(-1, x.shape[1], -1, x.shape[3])).unflatten(2, (T, n)) for x in (k, v))
    keys, values = keys.repeat_interleave(G, 1), values.repeat_interleave(G, 1)
    scores = torch.einsum("bhtd,bhtnd->bhtn", q, keys) / math.sqrt(D)
    weights = torch.nan_to_num(scores.masked_fill(~some, float("-inf")).softmax(-1))
    return torch.einsum("bhtn,bhtnv->bhtv", weights, values)
""",
        "float64 and torch's kernel": """
def sparse_attention(q, k, v, index_q, index_k, index_weights, top_k, mask=None):
    q, k, v, index_q, index_k, index_weights = (x.double() for x in (q, k, v, index_q, index_k, index_weights))
    T, S = q.shape[2], k.shape[2]
    mask = torch.ones(1, 1, T, S, dtype=torch.bool).tril() if mask is None else mask
    index = (index_weights.mT[..., None] * (index_q @ index_k[:, None].mT).clamp_min(0)).sum(1, keepdim=True)
    order = index.masked_fill(~mask, float("-inf")).argsort(dim=-1, descending=True, stable=True)
    kept = (order.argsort(-1) < top_k) & mask
    out = F.scaled_dot_product_attention(q, k, v, attn_mask=kept, enable_gqa=True)
    return (out * kept.any(-1, keepdim=True)).float()
""",
    },
}  # fmt: skip
