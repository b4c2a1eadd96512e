"""Typical mistakes of the tasks delta and sparse, as in diagnosed.py."""

from tests.practice.answers import DELTA, SPARSE
from tests.practice.other_answers import (
    DELTA_CHUNKED,
    DELTA_IN_PLACE,
    DELTA_LOOPS,
    DELTA_MATRIX,
    SPARSE_FUSED,
    SPARSE_GATHER,
    SPARSE_LOOPS,
)
from tests.practice.wrong_delta_sparse import DECAYED, KEPT, MASKED_SCORES, ORDER, READ, SOFTMAX, WRITTEN

_AFTER_THE_WRITE = "with the decay after the write, so that the token's own write decays too"
_NO_BETA = "without β: the whole difference is written"
_NO_CORRECTION = (
    "without the correction by what the state already returns for the key: plain linear attention with a decay, k ⊗ βv"
)
_Q_WRITTEN = "with q and k swapped in the outer product: q is written"
_NO_SCALE = "without the division by √D"
_IGNORED = "with an empty state at the start, ignoring the argument state"
_BEFORE_THE_MASK = "with the top-k taken before the mask: masked keys take places among the k, and are lost then"
_NO_RELU = "without the ReLU in the index scores"
_NO_WEIGHTS = "without the index weights: the index heads are added up"
_NAN_ROW = "with NaN for a fully masked query (a row of −∞ before the softmax)"
_AVERAGE = "with the average of all values for a fully masked query (a large negative number instead of −∞)"
_MASKED_TOO = "with masked keys where a query may attend to fewer than top_k"
_TILED = "with the KV heads tiled (0 1 0 1) instead of interleaved (0 0 1 1)"
DELTA_MISTAKEN = {
    ("delta", _AFTER_THE_WRITE): [
        (DELTA.replace(DECAYED, ""), WRITTEN, WRITTEN + DECAYED),
        (DELTA_LOOPS, "S @ (a * (torch.eye(D) - w * torch.outer(key, key))) + w * torch.outer(v[b, h, t], key)",
         "a * (S + w * torch.outer(v[b, h, t] - S @ key, key))"),
    ],
    ("delta", "with the decay after the read, so that it reaches the next token only"): [
        (DELTA.replace(DECAYED, ""), READ, READ + DECAYED),
    ],
    ("delta", "with the difference to what the state held before its decay"): [
        (DELTA.replace(DECAYED, ""), "        new =", f"{DECAYED}        new ="),
        (DELTA_LOOPS, "S @ (a * (torch.eye(D) - w * torch.outer(key, key)))", "a * S - w * S @ torch.outer(key, key)"),
    ],
    ("delta", "without the decay"): [
        (DELTA, DECAYED, ""),
        (DELTA_MATRIX, "c = decay.cumprod(-1)", "c = torch.ones_like(decay)"),
    ],
    ("delta", "with the output read before the write, so that a token does not read what it writes"): [
        (DELTA.replace(READ, ""), WRITTEN, READ + WRITTEN),
    ],
    ("delta", "with the output read before decay and write: from the state of the token before"): [
        (DELTA.replace(READ, ""), DECAYED, READ + DECAYED),
    ],
    ("delta", _NO_BETA): [
        (DELTA, "beta[:, :, t, None] * (vt - old)", "vt - old"),
        (DELTA_IN_PLACE, " * bt[:, :, None]", ""),
        (DELTA_MATRIX, "c = decay.cumprod(-1)", "beta, c = torch.ones_like(beta), decay.cumprod(-1)"),
    ],
    ("delta", _NO_CORRECTION): [
        (DELTA, "beta[:, :, t, None] * (vt - old)", "beta[:, :, t, None] * vt"),
        (DELTA_LOOPS, "(a * (torch.eye(D) - w * torch.outer(key, key)))", "(a * torch.eye(D))"),
    ],
    ("delta", "with β on the value alone: βv − Sᵀk"): [(DELTA, "* (vt - old)", "* vt - old")],
    ("delta", "with β twice, as on the key and on the difference"): [
        (DELTA_IN_PLACE, "state += kt[..., None]", "state += (kt * bt[:, :, None])[..., None]"),
    ],
    ("delta", "with the sigmoid of β, which is given after it"): [
        (DELTA, "beta[:, :, t, None]", "beta[:, :, t, None].sigmoid()"),
    ],
    ("delta", _Q_WRITTEN): [
        (DELTA, '"bhd,bhv->bhdv", kt, new', '"bhd,bhv->bhdv", qt, new'),
        (DELTA_LOOPS, "(a * (torch.eye(D) - w * torch.outer(key, key))) + w * torch.outer(v[b, h, t], key)",
         "(a * (torch.eye(D) - w * torch.outer(key, q[b, h, t]))) + w * torch.outer(v[b, h, t], q[b, h, t])"),
    ],
    ("delta", "with q and k swapped everywhere: q is written, and k reads"): [
        (DELTA, "k[:, :, t], v[:, :, t], q[:, :, t]", "q[:, :, t], v[:, :, t], k[:, :, t]"),
    ],
    ("delta", "with the output read by k instead of q"): [(DELTA, "S, qt)", "S, kt)")],
    ("delta", _NO_SCALE): [(DELTA, " / D ** 0.5", ""), (DELTA_CHUNKED, " / D ** 0.5", "")],
    ("delta", "with the decay of the first token for all tokens"): [
        (DELTA, "decay[:, :, t, ", "decay[:, :, 0, "),
        (DELTA_MATRIX, "decay.cumprod(-1)", "decay[..., :1] ** torch.arange(1, T + 1)"),
    ],
    ("delta", "with the product of all decays so far applied at each token, instead of the token's own"): [
        (DELTA, "decay[:, :, t, ", "decay.cumprod(2)[:, :, t, "),
    ],
    ("delta", "without the decay of the given state at the first token"): [
        (DELTA_IN_PLACE, "state *= at[:, :, None, None]", "state *= at[:, :, None, None] if t else 1"),
    ],
    ("delta", _IGNORED): [
        (DELTA, "if state is None else state", ""),
        (DELTA_IN_PLACE, "if state is None:", "if True:"),
        (DELTA_CHUNKED, "if state is None else state", ""),
    ],
    ("delta", "with the returned state transposed: (B, H, V, D) instead of (B, H, D, V)"): [
        (DELTA, "torch.stack(out, 2), S", "torch.stack(out, 2), S.mT"),
        (DELTA_LOOPS, "return out, states.transpose(2, 3)", "return out, states"),
    ],
    ("delta", "with the state transposed, as given and as returned: (B, H, V, D) instead of (B, H, D, V)"): [
        (DELTA_LOOPS.replace("out, states.transpose(2, 3)", "out, states"), "state.transpose(2, 3).clone()",
         "state.clone()"),
        (DELTA.replace("bhdv", "bhvd").replace('"bhd,bhv->bhvd", kt, new', '"bhv,bhd->bhvd", new, kt'),
         "B, H, D, v.shape[-1]", "B, H, v.shape[-1], D"),
    ],
    ("delta", "with the given state returned instead of the last one"): [
        (DELTA_LOOPS, "            states[b, h] = S\n", ""),
    ],
    ("delta", "with writes that are not corrected by earlier ones of the same chunk of 32 tokens: without solving the "
     "triangular system"): [
        (DELTA_CHUNKED, "torch.inverse(M) @ (", "("),
    ],
    ("delta", "with a state that is not carried from one chunk of 32 tokens to the next"): [
        (DELTA_CHUNKED, "n = Q.shape[2]", "n, S = Q.shape[2], torch.zeros_like(S) if a else S"),
    ],
}  # fmt: skip
SPARSE_MISTAKEN = {
    ("sparse", _BEFORE_THE_MASK): [
        (SPARSE, MASKED_SCORES, "pass"),
        (SPARSE.replace("torch.nan_to_num(w)", "w"), MASKED_SCORES, "pass"),
        (SPARSE_FUSED, "ranks = torch.where(mask, ranks, -torch.inf)", "pass"),
    ],
    ("sparse", _MASKED_TOO): [
        (SPARSE, KEPT, "mask = kept[:, None]"),
        (SPARSE_GATHER, "valid = mask.gather(-1, best)", "valid = torch.ones_like(best, dtype=torch.bool)"),
        (SPARSE.replace(ORDER, "index.topk(min(top_k, S)).indices"), KEPT, "mask = kept[:, None]"),
    ],
    ("sparse", _NO_RELU): [(SPARSE, ".clamp(min=0)", ""), (SPARSE_GATHER, "torch.relu(", "(")],
    ("sparse", "with the ReLU after the sum over the index heads, instead of before"): [
        (SPARSE.replace(".clamp(min=0)", ""), '"bits,bti->bts", index, index_weights)',
         '"bits,bti->bts", index, index_weights).clamp(min=0)'),
    ],
    ("sparse", _NO_WEIGHTS): [
        (SPARSE, 'torch.einsum("bits,bti->bts", index, index_weights)', "index.sum(1)"),
        (SPARSE_LOOPS, "index_weights[b, t] * ", ""),
    ],
    ("sparse", "with the softmax over all keys that the mask allows, and weights of 0 for the others then: rows do not "
     "sum to 1"): [
        (SPARSE.replace(KEPT, "pass"), "torch.nan_to_num(w)", "torch.nan_to_num(w * kept[:, None])"),
    ],
    ("sparse", "with the softmax over all keys, masked ones too, and weights of 0 for them then: rows do not sum to "
     "1"): [
        (SPARSE, SOFTMAX, "w = scores.softmax(-1) * mask"),
    ],
    ("sparse", "with top_k never used: dense attention"): [
        (SPARSE, KEPT, "pass"),
        (SPARSE_FUSED, "(before + same.sum(-1)) < top_k", "before >= 0"),
    ],
    ("sparse", "with one key more than top_k"): [(SPARSE, "order[..., :top_k]", "order[..., : top_k + 1]")],
    ("sparse", "with one key fewer than top_k"): [(SPARSE, "order[..., :top_k]", "order[..., : top_k - 1]")],
    ("sparse", "with the lowest index scores kept instead of the highest"): [
        (SPARSE_LOOPS, "(-score[s], s)", "(score[s], s)"),
    ],
    ("sparse", "with the later ones of equal index scores first"): [
        (SPARSE_LOOPS, "(-score[s], s)", "(-score[s], -s)"),
        (SPARSE_FUSED, ".tril(-1)", ".triu(1)"),
    ],
    ("sparse", "with more than top_k keys where index scores are equal: all that reach the k-th"): [
        (SPARSE_FUSED, " + same.sum(-1)", ""),
    ],
    ("sparse", "with the order of torch.topk among equal index scores, which is not that of the keys"): [
        (SPARSE, ORDER, "index.topk(min(top_k, S)).indices"),
    ],
    ("sparse", "with torch.topk as it is: an error where top_k is larger than the number of keys, and another order of "
     "equal index scores"): [
        (SPARSE, ORDER, "index.topk(top_k).indices"),
        (SPARSE_GATHER, "scores.argsort(dim=-1, descending=True, stable=True)[..., :top_k]",
         "torch.topk(scores, top_k, -1, sorted=False)[1]"),
    ],
    ("sparse", "with the keys kept by the first sequence for all of the batch"): [
        (SPARSE, KEPT, "mask = kept[:1, None] & mask"),
    ],
    ("sparse", _NAN_ROW): [(SPARSE, "torch.nan_to_num(w)", "w")],
    ("sparse", _AVERAGE): [(SPARSE, SOFTMAX, "w = scores.masked_fill(~mask, -1e9).softmax(-1)")],
    ("sparse", _TILED): [
        (SPARSE.replace("k.repeat_interleave(G, 1)", "k.repeat(1, G, 1, 1)"), "v.repeat_interleave(G, 1)",
         "v.repeat(1, G, 1, 1)"),
    ],
    ("sparse", "with the keys tiled (0 1 0 1), but the values interleaved (0 0 1 1)"): [
        (SPARSE_GATHER, "h * K // H][best[b]], v", "h % K][best[b]], v"),
    ],
    ("sparse", "without the division by √head_dim"): [(SPARSE, " / D ** 0.5", "")],
}  # fmt: skip
DELTA_SPARSE_PAIRS = (
    ("delta", _NO_BETA, _NO_SCALE, DELTA, "beta[:, :, t, None] * (vt - old)", "vt - old", " / D ** 0.5", ""),
    ("delta", _Q_WRITTEN, _IGNORED, DELTA, '"bhd,bhv->bhdv", kt, new', '"bhd,bhv->bhdv", qt, new',
     "if state is None else state", ""),
    ("delta", "without the decay", _NO_CORRECTION, DELTA, DECAYED, "", "* (vt - old)", "* vt"),
    ("sparse", _NO_RELU, _NAN_ROW, SPARSE, ".clamp(min=0)", "", "torch.nan_to_num(w)", "w"),
    ("sparse", _NO_WEIGHTS, _BEFORE_THE_MASK, SPARSE, 'torch.einsum("bits,bti->bts", index, index_weights)',
     "index.sum(1)", MASKED_SCORES, "pass"),
    ("sparse", _MASKED_TOO, "without the division by √head_dim", SPARSE, KEPT, "mask = kept[:, None]",
     " / D ** 0.5", ""),
)  # fmt: skip
